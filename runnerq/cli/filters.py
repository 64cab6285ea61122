"""Which runs a command is about: the words of the console's lists and of the API's ``GET /runs``, as options or as one
text, ``--where 'status=failed workflow=order since=2h'``; and times as people write them."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click
import msgspec

from runnerq.cli.completing import known_queues, known_workflows
from runnerq.cli.shared import Refused, duration
from runnerq.console.models.filters import BadFields, RunQuery, Sort, parse_query
from runnerq.persistence.protocol import Reads
from runnerq.persistence.records import Status

T = TypeVar("T")

PAGING = ("limit", "cursor", "sort")
ON_A_PAGE = 50
MOST_ON_A_PAGE = 200
_WHERE = "where"
_OPTIONS: Mapping[str, str] = {
    "status": "status",
    "workflow": "workflow",
    "queue": "queue",
    "key_prefix": "key",
    "version": "version",
    "roots": "roots",
    "error": "error",
    "metadata": "meta",
    "parent": "parent",
    "root": "root",
    "worker": "worker",
    "since": "since",
    "until": "until",
    "ended_since": "ended_since",
    "ended_until": "ended_until",
}
"""Parameters of a query by the names of options."""


# --- which runs -------------------------------------------------------------------------------------------------------


def where_query(text: str) -> RunQuery:
    """The query that a text such as ``status=failed workflow=order since=2h`` means: the parameters of ``GET /runs``,
    with quotes around what has spaces. Raises BadFields, also where they leave out nothing, as ``roots=0`` does: a
    variable of a shell that is empty must not mean all runs."""
    query = parse_query(_words(text))
    if query == RunQuery():
        raise BadFields({_WHERE: "it has no condition, and would mean all runs: say which"})
    return query


def _words(text: str) -> list[tuple[str, str]]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadFields({_WHERE: f"{text!r} cannot be read: {error}"}) from error
    pairs = [word.partition("=") for word in words]
    for (name, _, value), word in zip(pairs, words, strict=True):
        if not value or name in PAGING:
            how = "write name=value, such as status=failed, with no space around the ="
            raise BadFields({_WHERE: f"{word!r} is no condition: {how}"})
    return [(name, value) for name, _, value in pairs]


def _query(where: str | None, options: Mapping[str, Any]) -> RunQuery:
    """All conditions hold, those of the options and those of the text."""
    given = [] if where is None else _words(where)
    for option, name in _OPTIONS.items():
        value = options[option]
        values = value if isinstance(value, tuple) else () if value in (None, False) else (value,)
        given += [(name, "1" if each is True else str(each)) for each in values]
    return _by_id(parse_query(given), options["id"])


def _by_id(query: RunQuery, prefix: str | None) -> RunQuery:
    if prefix is None:
        return query
    if query.q is not None:
        raise BadFields({"id": "q= says the beginning of an id already"})
    sought = query.with_(q=prefix)
    if sought.to_filter(datetime.now(UTC)).id_prefix is None:
        raise BadFields({"id": f"{prefix!r} is not the beginning of a run's id: it takes 8 hexadecimal digits or more"})
    return sought


def _checked(option: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """The value of an option, if it can be one of this parameter."""

    def check(_: click.Context, __: click.Parameter, value: Any) -> Any:
        for each in value if isinstance(value, tuple) else () if value is None else (value,):
            if each == "":
                raise click.BadParameter("it is empty: it must have some characters, or be left out")
            try:
                parse_query([(option, str(each))])
            except BadFields as error:
                raise click.BadParameter("; ".join(error.errors.values())) from error
        return value

    return check


where_option = click.option(
    "--where",
    metavar="CONDITIONS",
    help="All of them as one text, in the words of the API: 'status=failed workflow=order since=2h'.",
)
status_option = click.option(
    "--status", multiple=True, type=click.Choice([status.value for status in Status]), help="May be given repeatedly."
)


def takes_query(command: Callable[..., T]) -> Callable[..., T]:
    """Add the options of a query but for the status; the command gets them, with ``--where``, as ``query: RunQuery``.

    With ``status_option`` above it the status is in it as well.
    """

    @where_option
    @click.option(
        "--workflow",
        help="Name of the workflow or activity.",
        callback=_checked("workflow"),
        shell_complete=known_workflows,
    )
    @click.option("--queue", callback=_checked("queue"), shell_complete=known_queues)
    @click.option("--key-prefix", help="The beginning of the run's key.", callback=_checked("key"))
    @click.option("--id", metavar="PREFIX", help="The beginning of the run's id.")
    @click.option("--version", type=click.IntRange(min=1), help="Version of the workflow.")
    @click.option("--roots", is_flag=True, help="Only runs that no run has started.")
    @click.option("--error", metavar="TEXT", callback=_checked("error"), help="A piece of what the run failed with.")
    @click.option(
        "--metadata",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_checked("meta"),
        help="What its metadata has. May be given repeatedly.",
    )
    @click.option("--parent", metavar="ID", callback=_checked("parent"), help="Only what this run has started.")
    @click.option("--root", metavar="ID", callback=_checked("root"), help="Only the tree that this run is the root of.")
    @click.option("--worker", metavar="ID", callback=_checked("worker"), help="Only what this worker works on.")
    @click.option("--since", metavar="TIME", callback=_checked("since"), help="Started since: 2h ago, or an ISO time.")
    @click.option("--until", metavar="TIME", callback=_checked("until"), help="Started before then.")
    @click.option("--ended-since", metavar="TIME", callback=_checked("ended_since"), help="Ended since then.")
    @click.option("--ended-until", metavar="TIME", callback=_checked("ended_until"), help="Ended before then.")
    @functools.wraps(command)
    def with_query(*, where: str | None, **options: Any) -> T:
        conditions = {name: options.pop(name, ()) for name in (*_OPTIONS, "id")}
        return command(query=_query(where, conditions), **options)

    return with_query


limit_option = click.option(
    "--limit",
    type=click.IntRange(1, MOST_ON_A_PAGE),
    help=f"So many at most.  [default: {ON_A_PAGE}; all there are with -o id and -o jsonl]",
)
"""Adds ``--limit``; the command gets it as ``limit: int | None``."""


def takes_page(command: Callable[..., T]) -> Callable[..., T]:
    """Add ``--limit``, ``--cursor``, ``--oldest-first``: they go into the ``query`` of the ``takes_query`` above it.
    The command gets ``limited`` as well: whether a limit was given."""

    @limit_option
    @click.option("--cursor", help="The 'next_cursor' of the page before, with the same conditions.")
    @click.option("--oldest-first", is_flag=True, help="In place of the newest.")
    @functools.wraps(command)
    def with_page(*, query: RunQuery, limit: int | None, cursor: str | None, oldest_first: bool, **options: Any) -> T:
        sort: Sort = "oldest" if oldest_first else "newest"
        paged = msgspec.structs.replace(query, limit=limit or ON_A_PAGE, cursor=cursor, sort=sort)
        return command(query=paged, limited=limit is not None, **options)

    return with_page


# --- times ------------------------------------------------------------------------------------------------------------


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


# --- pairs ------------------------------------------------------------------------------------------------------------


def _pairs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Mapping[str, str] | None:
    pairs = dict[str, str]()
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        pairs[name] = text
    return pairs or None


metadata_option = click.option(
    "--metadata", multiple=True, metavar="NAME=VALUE", callback=_pairs, help="May be given repeatedly."
)
