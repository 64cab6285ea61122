"""Types of runs: what workers have registered, and how it goes."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

import msgspec

from runnerq.client.activity import Throughput
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.fleet import Fleet, fleet, stats
from runnerq.console.models.overview import Series, activity, by_workflow
from runnerq.console.models.redaction import MASK, Spot, telling
from runnerq.console.models.taking import OURS, Takes
from runnerq.errors import RunnerQError
from runnerq.persistence.records import Definition, Kind, RunFilter, Status, served_name

FEW = 20
"""Runs of which percentiles are taken one by one."""
ENDS = tuple(status for status in Status if status.ended)


class TypeVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a type as it was last registered. ``schema`` is the JSON Schema of its input, ``options`` what it
    declares, both as indented JSON. ``signals`` says in words what those take whose type is known. ``served``: a
    worker takes it up."""

    version: int
    queue: str
    build: str
    served: bool
    options: str | None
    schema: str | None
    signals: tuple[tuple[str, str], ...]


class TypeView(msgspec.Struct, frozen=True, kw_only=True):
    """A type. ``open`` counts its open runs by status. ``started``, ``ended`` and ``failed`` (dead letters too) are of
    the last day, as are ``p50`` and ``p95``: seconds from when a run was first taken up to its end,
    right to within a third. Of one type by itself they are exact where fewer than ``FEW`` runs have ended."""

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
    if 0 < found.ended < FEW:
        found = msgspec.structs.replace(found, **await _exactly(context, name))
    return TypeDetail(type=found, day=await activity(context, "24h", name))


async def _exactly(context: Context, name: str) -> dict[str, float]:
    """The percentiles of the few runs that have ended in the last day; nothing where none of them is there any more."""
    where = RunFilter(workflow=name, status=ENDS, ended_since=await context.now() - timedelta(days=1))
    ended = (await context.client.storage.list_runs(where, FEW)).runs
    took = sorted((run.ended_at - run.started_at).total_seconds() for run in ended if run.ended_at and run.started_at)
    # The one within which this share of them ended, as many as there are.
    return {of: took[math.ceil(share * len(took)) - 1] for of, share in (("p50", 0.5), ("p95", 0.95)) if took}


async def _types(context: Context) -> tuple[TypeView, ...]:
    known: defaultdict[str, list[Definition]] = defaultdict(list)
    for definition in await context.client.storage.definitions():
        known[definition.name].append(definition)
    found, who = await stats(context), await fleet(context)
    open_: defaultdict[str, Counter[Status]] = defaultdict(Counter)
    for depth in found.depths:
        open_[depth.name][depth.status] += depth.count
    day = {each.workflow: each for each in await by_workflow(context, found.at)}
    return tuple(
        _view(name, known[name], [_version(context, who, each) for each in known[name]], open_[name], day.get(name))
        for name in sorted(known.keys() | open_.keys())
    )


def _view(
    name: str, known: list[Definition], versions: list[TypeVersion], open_: Counter[Status], day: Throughput | None
) -> TypeView:
    return TypeView(
        name=name,
        kind=known[0].kind if known else None,
        versions=tuple(versions),
        served=any(each.served for each in versions),
        open=tuple(open_.items()),
        started=0 if day is None else day.started,
        ended=0 if day is None else day.completed + day.failed + day.dead_letter + day.cancelled,
        failed=0 if day is None else day.failed + day.dead_letter,
        p50=None if day is None else day.p50,
        p95=None if day is None else day.p95,
    )


def _version(context: Context, who: Fleet, definition: Definition) -> TypeVersion:
    spot = Spot("metadata", "", definition.name)
    options = None if definition.options is None else context.redact(spot, msgspec.json.decode(definition.options))
    schema = None if definition.schema is None else _without_defaults(msgspec.json.decode(definition.schema))
    return TypeVersion(
        version=definition.version,
        queue=definition.queue,
        build=definition.build,
        served=bool(who.serving(served_name(definition.kind, definition.name, definition.version))),
        options=_indented(options),
        schema=_indented(None if schema is None else {name: each for name, each in schema.items() if name != OURS}),
        signals=() if schema is None else Takes(schema).in_words(),
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
