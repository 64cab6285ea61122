"""Types of runs: what workers have registered, and how it goes."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import msgspec

from runnerq.client.activity import Throughput
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.fleet import stats
from runnerq.console.models.overview import Series, activity, by_workflow
from runnerq.console.models.redaction import MASK, Spot, telling
from runnerq.errors import RunnerQError
from runnerq.persistence.records import Definition, Kind, Status


class TypeVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a type as it was last registered. ``schema`` is the JSON Schema of its input, ``options`` what it
    declares, both as indented JSON. ``served``: a living worker serves it."""

    version: int
    queue: str
    build: str
    served: bool
    options: str | None
    schema: str | None


class TypeView(msgspec.Struct, frozen=True, kw_only=True):
    """A type. ``open`` counts its open runs by status. ``started``, ``ended`` and ``failed`` (dead letters too) are of
    the last day, as are ``p50`` and ``p95``: seconds from when a run was first taken up to its end."""

    name: str
    kind: Kind | None
    versions: tuple[TypeVersion, ...]
    served: bool
    open: tuple[tuple[Status, int], ...]
    started: int
    ended: int
    failed: int
    p50: float | None
    p95: float | None

    @property
    def open_count(self) -> int:
        return sum(number for _, number in self.open)

    @property
    def fail_percent(self) -> float | None:
        """Of those that ended; None where none did."""
        return 100.0 * self.failed / self.ended if self.ended else None


class TypeDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A type with its last day, by quarters of an hour."""

    type: TypeView
    day: Series


class TypeNotFound(RunnerQError):
    """No worker has registered this name, and no open run has it."""

    __match_args__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no worker has registered {name!r}, and no open run is of it")


@bounded
async def types(context: Context) -> tuple[TypeView, ...]:
    """What workers have registered, or open runs are of, by name."""
    return await context.cache.get("types", lambda: _types(context))


@bounded
async def type_(context: Context, name: str) -> TypeDetail:
    """One. Raises TypeNotFound."""
    found = next((each for each in await types(context) if each.name == name), None)
    if found is None:
        raise TypeNotFound(name)
    return TypeDetail(type=found, day=await activity(context, "24h", name))


async def _types(context: Context) -> tuple[TypeView, ...]:
    known: defaultdict[str, list[Definition]] = defaultdict(list)
    for definition in await context.client.storage.definitions():
        known[definition.name].append(definition)
    found = await stats(context)
    open_: defaultdict[str, Counter[Status]] = defaultdict(Counter)
    for depth in found.depths:
        open_[depth.name][depth.status] += depth.count
    day = {each.workflow: each for each in await by_workflow(context, found.at)}
    return tuple(
        _view(context, name, known[name], open_[name], day.get(name)) for name in sorted(known.keys() | open_.keys())
    )


def _view(
    context: Context, name: str, versions: list[Definition], open_: Counter[Status], day: Throughput | None
) -> TypeView:
    return TypeView(
        name=name,
        kind=versions[0].kind if versions else None,
        versions=tuple(_version(context, each) for each in versions),
        served=any(each.served for each in versions),
        open=tuple(open_.items()),
        started=0 if day is None else day.started,
        ended=0 if day is None else day.completed + day.failed + day.dead_letter + day.cancelled,
        failed=0 if day is None else day.failed + day.dead_letter,
        p50=None if day is None else day.p50,
        p95=None if day is None else day.p95,
    )


def _version(context: Context, definition: Definition) -> TypeVersion:
    spot = Spot("metadata", "", definition.name)
    options = None if definition.options is None else context.redact(spot, msgspec.json.decode(definition.options))
    schema = None if definition.schema is None else _without_defaults(msgspec.json.decode(definition.schema))
    return TypeVersion(
        version=definition.version,
        queue=definition.queue,
        build=definition.build,
        served=definition.served,
        options=_indented(options),
        schema=_indented(schema),
    )


def _without_defaults(schema: Any) -> Any:
    """A schema without the default of what has a telling name: that is declared in code, and a secret all the same."""
    if isinstance(schema, list):
        return [_without_defaults(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    shown = {name: _without_defaults(inside) for name, inside in schema.items()}
    return {
        name: {**inside, "default": MASK}
        if telling(name) and isinstance(inside, dict) and "default" in inside
        else inside
        for name, inside in shown.items()
    }


def _indented(value: Any) -> str | None:
    return None if value is None else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
