"""Which runs a list shows: read from the parameters of a URL, and written as such. Pages and API share them.

``status`` (several), ``workflow``, ``queue``, ``q`` (the beginning of an id or of a key), ``key`` (that of a key),
``meta`` (``name=value``, several), ``error`` (a piece of its text), ``fingerprint``, ``since`` and ``until`` (when it
was started), ``ended_since``, ``ended_until``, ``version``, ``roots``, ``parent``, ``root``, ``worker`` (the id of
who has it claimed); ``limit``, ``cursor``, ``sort``.
Times are ISO text, or so long ago: ``2h``, ``30m``, ``7d``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from runnerq.client.filters import checked_filter
from runnerq.cron import zone_of
from runnerq.errors import ConfigurationError, RunnerQError
from runnerq.ids import check_run_id
from runnerq.persistence.records import RunFilter, Status

Sort: TypeAlias = Literal["newest", "oldest"]
Fields: TypeAlias = Iterable[tuple[str, str]]
MOST = 200
"""Runs of a page."""
LONGEST = 1_000
"""Characters of a value."""
MOST_VALUES = 20
"""Values of one parameter."""

TIMES = ("since", "until", "ended_since", "ended_until")
SEVERAL = ("status", "meta")
NOT_CONDITIONS = ("limit", "cursor", "sort")

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"([0-9]{1,6})\s?([smhdw])")
# Ids of these decades begin with 01, as they begin with their time: what does not is the beginning of a key.
_ID_PREFIX = re.compile(r"01[0-9a-f]{6}[0-9a-f-]{0,28}", re.IGNORECASE)
_FARTHEST_VERSION = 2**31 - 1
_LARGEST_ID = 2**63 - 1


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs, in which order, from where on. Times are as they were written."""

    status: tuple[Status, ...] = ()
    workflow: str | None = None
    queue: str | None = None
    q: str | None = None
    key: str | None = None
    meta: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    fingerprint: str | None = None
    since: str | None = None
    until: str | None = None
    ended_since: str | None = None
    ended_until: str | None = None
    version: int | None = None
    roots: bool = False
    parent: str | None = None
    root: str | None = None
    worker: int | None = None
    limit: int = 50
    cursor: str | None = None
    sort: Sort = "newest"

    def to_params(self) -> list[tuple[str, str]]:
        """Names and values of the URL that means this, in one order: what is as by default is left out."""
        return [(name, text) for name in self.__struct_fields__ for text in self._texts(name)]

    def with_(self, **changes: Any) -> RunQuery:
        """The same from its beginning on (without a cursor, unless one is given), with these changed."""
        return msgspec.structs.replace(self, **{"cursor": None, **changes})

    def without(self, name: str, value: str | None = None) -> RunQuery:
        """The same without this condition, or, of one that has several values, without this value."""
        kept = () if value is None else tuple(each for each in getattr(self, name) if _text(name, each) != value)
        return self.with_(**{name: kept if name in SEVERAL else _by_default(name)})

    def chips(self) -> tuple[Chip, ...]:
        """Each condition with what is left without it, to show what a list is narrowed to."""
        return tuple(
            Chip(name, text, self.without(name, text if name in SEVERAL else None))
            for name in self.__struct_fields__
            if name not in NOT_CONDITIONS
            for text in self._texts(name)
        )

    @property
    def narrowed(self) -> bool:
        """Whether there is any condition."""
        return bool(self.chips())

    @property
    def listing(self) -> str:
        """What a cursor of it belongs to: all but the cursor and the size of a page."""
        return msgspec.json.encode(("runs", self.with_(limit=0).to_params())).decode()

    def to_filter(self, now: datetime, zone: str = "UTC") -> RunFilter:
        """The same for the storage. ``now`` is database time, ``zone`` that of times which are written without one."""
        times: dict[str, Any] = {
            name: _time(name, text, now, zone) for name in TIMES if (text := getattr(self, name)) is not None
        }
        where = RunFilter(
            status=self.status or None,
            workflow=self.workflow,
            queue=self.queue,
            metadata=dict(self.meta) or None,
            error=self.error,
            fingerprint=self.fingerprint,
            version=self.version,
            roots=self.roots,
            parent=self.parent,
            root=self.root,
            worker=self.worker,
            **self._sought(),
            **times,
        )
        try:
            return checked_filter(where)
        except ValueError as error:  # all else was checked when it was read
            raise BadFields({"q": str(error)}) from error

    def _sought(self) -> dict[str, Any]:
        by_id = self.q is not None and _ID_PREFIX.fullmatch(self.q) is not None
        return {"id_prefix": self.q if by_id else None, "key_prefix": self.key if by_id else self.key or self.q}

    def _texts(self, name: str) -> list[str]:
        value = getattr(self, name)
        if value == _by_default(name):
            return []
        return [_text(name, each) for each in value] if name in SEVERAL else [_text(name, value)]


class Chip(msgspec.Struct, frozen=True):
    """One condition of a query: its name and value for the eye, and the query without it."""

    name: str
    value: str
    rest: RunQuery


class BadFields(RunnerQError):
    """What was entered cannot be taken. ``errors`` says why, by the name of the field."""

    __match_args__ = ("errors",)

    def __init__(self, errors: Mapping[str, str]) -> None:
        self.errors = dict(errors)
        super().__init__("; ".join(f"{name}: {why}" for name, why in self.errors.items()))


def parse_query(params: Fields, *, ignore: Iterable[str] = ()) -> RunQuery:
    """The query that these parameters mean. Empty values count as none; ``ignore`` are names of somebody else's.

    Raises BadFields, with an error for each parameter that cannot be read or that there is not.
    """
    query, errors = parse_leniently(params, ignore=ignore)
    if errors:
        raise BadFields(errors)
    return query


def parse_leniently(params: Fields, *, ignore: Iterable[str] = ()) -> tuple[RunQuery, dict[str, str]]:
    """The query without what cannot be read, and the errors by name: a page shows both."""
    given: dict[str, list[str]] = {}
    for name, text in params:
        if name not in ignore and text.strip():
            given.setdefault(name, []).append(text.strip())
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, texts in given.items():
        try:
            values[name] = _parsed(name, texts)
        except ValueError as error:
            errors[name] = str(error)
    return RunQuery(**values), errors


def _parsed(name: str, texts: list[str]) -> Any:
    if name not in _PARSERS:
        raise ValueError(f"there is no such parameter: there are {', '.join(_PARSERS)}")
    if any(len(text) > LONGEST for text in texts):
        raise ValueError(f"it has more than {LONGEST:,} characters")
    if name in SEVERAL:
        if len(texts) > MOST_VALUES:
            raise ValueError(f"it is given {len(texts)} times, and {MOST_VALUES} are the most")
        return tuple(dict.fromkeys(_PARSERS[name](text) for text in texts))
    if len(texts) > 1:
        raise ValueError("it is given more than once")
    return _PARSERS[name](texts[0])


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no status: there are {', '.join(Status)}") from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text!r} is not name=value")
    return name, value


def _moment(text: str) -> str:
    if _AGO.fullmatch(text) is None:
        try:
            datetime.fromisoformat(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is neither so long ago, such as 2h, nor an ISO time") from error
    return text


def _fit(name: str) -> Callable[[str], str]:
    """A parser of what the client checks."""

    def fit(text: str) -> str:
        given: dict[str, Any] = {name: text}
        checked_filter(RunFilter(**given))
        return text

    return fit


def _number(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 20 and 1 <= int(text) <= most):
            raise ValueError(f"{text!r} is no whole number from 1 to {most:,}")
        return int(text)

    return number


def _flag(text: str) -> bool:
    found = {"1": True, "true": True, "on": True, "0": False, "false": False}.get(text.lower())
    if found is None:
        raise ValueError(f"{text!r} is neither 1 nor 0")
    return found


def _sort(text: str) -> str:
    if text not in ("newest", "oldest"):
        raise ValueError(f"{text!r} is no order: newest or oldest (first)")
    return text


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "status": _status,
    "workflow": str,
    "queue": str,
    "q": str,
    "key": str,
    "meta": _pair,
    "error": _fit("error"),
    "fingerprint": _fit("fingerprint"),
    "since": _moment,
    "until": _moment,
    "ended_since": _moment,
    "ended_until": _moment,
    "version": _number(_FARTHEST_VERSION),
    "roots": _flag,
    "parent": check_run_id,
    "root": check_run_id,
    "worker": _number(_LARGEST_ID),
    "limit": _number(MOST),
    "cursor": str,
    "sort": _sort,
}


def _text(name: str, value: Any) -> str:
    if name == "meta":
        return f"{value[0]}={value[1]}"
    return "1" if value is True else str(value)


def _time(name: str, text: str, now: datetime, zone: str) -> datetime:
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        at = datetime.fromisoformat(text)
        return at if at.tzinfo is not None else at.replace(tzinfo=zone_of(zone))
    except (OverflowError, ConfigurationError, ValueError) as error:
        raise BadFields({name: f"{text!r} is no time: {error}"}) from error


_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(RunQuery)}


def _by_default(name: str) -> Any:
    return _DEFAULTS[name]
