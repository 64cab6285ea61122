"""Which runs a command is about: the options of a RunFilter, and times as people write them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click
import msgspec

from runnerq.cli.shared import Refused, duration
from runnerq.client.filters import checked_filter
from runnerq.persistence.protocol import Reads
from runnerq.persistence.records import RunFilter, Status

T = TypeVar("T")

_CONDITIONS = ("workflow", "queue", "key_prefix", "id_prefix", "version", "roots", "error", "metadata")
_TIMES = ("since", "until", "ended_since", "ended_until")


class Which(msgspec.Struct, frozen=True):
    """The runs a command is about, as its options have it: times may be so long ago."""

    where: RunFilter = RunFilter()
    since: datetime | timedelta | None = None
    until: datetime | timedelta | None = None
    ended_since: datetime | timedelta | None = None
    ended_until: datetime | timedelta | None = None

    async def now(self, reads: Reads, status: Status | tuple[Status, ...] | None = None) -> RunFilter:
        """The filter, by the clock of the database, whose times it is compared with."""
        given = (self.since, self.until, self.ended_since, self.ended_until)
        since, until, ended_since, ended_until = [at if at is None else await before(reads, at) for at in given]
        return msgspec.structs.replace(
            self.where, since=since, until=until, ended_since=ended_since, ended_until=ended_until, status=status
        )


def moment(text: str) -> datetime | timedelta:
    """The type of an argument that is a time: a duration from now, or ISO text (UTC unless it says otherwise)."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            return timedelta(seconds=duration(text))
        except (click.BadParameter, OverflowError) as error:
            raise click.BadParameter(f"{text!r} is neither a duration such as 2h nor an ISO time") from error
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


async def before(reads: Reads, at: datetime | timedelta) -> datetime:
    """A time, or so long ago. Raises Refused."""
    return await behind(reads, -at if isinstance(at, timedelta) else at)


async def behind(reads: Reads, at: datetime | timedelta) -> datetime:
    """A time, or so long from now. Raises Refused."""
    if isinstance(at, datetime):
        return at
    try:
        return await reads.now() + at
    except OverflowError as error:
        raise Refused(f"{abs(at).days} days are too far off: there is no such date", 2) from error


def _pairs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Mapping[str, str] | None:
    pairs = dict[str, str]()
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        pairs[name] = text
    return pairs or None


def _checked(_: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """A condition of a filter under the option's own name, if it can be one."""
    if value is not None:
        try:
            checked_filter(msgspec.structs.replace(RunFilter(), **{str(option.name): value}))
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return value


metadata_option = click.option(
    "--metadata", multiple=True, metavar="NAME=VALUE", callback=_pairs, help="May be given repeatedly."
)


def takes_filter(command: Callable[..., T]) -> Callable[..., T]:
    """Add the options of a filter but for the status; the command gets them as ``which``."""

    @click.option("--workflow", help="Name of the workflow or activity.")
    @click.option("--queue")
    @click.option("--key-prefix")
    @click.option("--id", "id_prefix", metavar="PREFIX", callback=_checked, help="The beginning of the run's id.")
    @click.option("--version", type=click.IntRange(min=0), help="Version of the workflow.")
    @click.option("--roots", is_flag=True, help="Only runs that no run has started.")
    @click.option("--error", metavar="TEXT", callback=_checked, help="A piece of what the run failed with.")
    @metadata_option
    @click.option("--since", metavar="TIME", type=moment, help="Started since: 2h (so long ago), or an ISO time.")
    @click.option("--until", metavar="TIME", type=moment, help="Started before then.")
    @click.option("--ended-since", metavar="TIME", type=moment, help="Ended since then.")
    @click.option("--ended-until", metavar="TIME", type=moment, help="Ended before then.")
    @functools.wraps(command)
    def with_filter(**options: Any) -> T:
        where = RunFilter(**{name: options.pop(name) for name in _CONDITIONS})
        return command(which=Which(where, *(options.pop(name) for name in _TIMES)), **options)

    return with_filter


status_option = click.option(
    "--status", multiple=True, type=click.Choice([status.value for status in Status]), help="May be given repeatedly."
)


def statuses(names: tuple[str, ...]) -> tuple[Status, ...] | None:
    """The statuses of ``--status``; None for all."""
    return tuple(map(Status, names)) or None
