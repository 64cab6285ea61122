"""``/runs``: which runs there are, as files too, and what is done to many of them."""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime
from io import StringIO

import msgspec
from litestar import Response

from runnerq.console.models.filters import BadFields, RunQuery, parse_leniently, parse_query
from runnerq.console.models.paging import BadCursor
from runnerq.console.models.runs import Count, RunRow, RunsPage, count, list_runs
from runnerq.console.pages.exporting import Export, attachment, gathered
from runnerq.console.pages.forms import Texts, bulk_verbs, pairs, texts
from runnerq.console.pages.views import BUILT_IN, LONGEST_NAME, View, is_shown, kept_views
from runnerq.console.web.context import Here
from runnerq.console.web.guards import view
from runnerq.console.web.rendering import go, page
from runnerq.errors import ReadTimeout
from runnerq.ids import check_run_id
from runnerq.persistence.records import Status

MORE = ("error", "meta", "since", "until", "ended_since", "ended_until", "version", "parent", "root", "roots")
"""Conditions that the list shows only when asked to, or when one of them is set."""
FIELDS = ("q", "workflow", "queue", "sort", "limit", *MORE)
"""What the form has fields for, beside the row of statuses."""
KEPT = ("fingerprint", "worker")
"""Conditions that no field of the form is for, kept while others are changed."""
MOMENTARY = ("waiting_for", "worker")
"""What of a row is true of a moment, and in no table that is kept."""
NOTHING = RunsPage(rows=(), next=None, previous=None, searched_to=None, now=datetime.min.replace(tzinfo=UTC))
"""What is listed where it is not clear which runs are meant."""


_FORMULA = re.compile(r"[\t\r]|[\s\0\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""How it begins what a spreadsheet computes, also behind blanks and in full width."""


class Condition(msgspec.Struct, frozen=True):
    """What a list is narrowed to, or was meant to be: its name and value, and the parameters without it."""

    name: str
    value: str
    rest: list[tuple[str, str]]


class StatusChoice(msgspec.Struct, frozen=True):
    """A status: whether it is one of those that are listed, and the conditions with it turned over."""

    status: Status
    on: bool
    params: list[tuple[str, str]]


class ViewChoice(msgspec.Struct, frozen=True):
    """A view that is offered: whether this browser keeps it, and whether it is the one that is shown."""

    view: View
    own: bool
    shown: bool


@view("/runs")
async def runs_page(here: Here) -> Response[str]:
    """A page of the runs that fit; a whole id leads to its run. Nothing is listed while a condition cannot be read:
    without it the list would be a wider one, and so would be what is done to all of it."""
    if (run_id := await _found_by_id(here)) is not None:
        return go(here, here.url(f"/runs/{run_id}"))
    query, wrong = parse_leniently(pairs(here.query))
    if not wrong and any("" in values for values in here.query.fields.values()):
        # A form sends its empty fields too: the address that is kept and shared is without them.
        return go(here, here.url("/runs", query.to_params()))
    try:
        found = None if wrong else await list_runs(here.context, query)
    except BadFields as error:
        found, wrong = None, error.errors
        query = parse_leniently(pairs(here.query, without=wrong))[0]
    except BadCursor:
        if not here.is_fragment:
            raise
        # An open page outlives the console that gave it its cursor: it goes on with the newest runs.
        query = query.with_()
        found = await list_runs(here.context, query)
    base = query.with_()
    # A view's link is without what is refused: it would be a way past it that does not say so.
    views = [] if wrong else _views(here, base)
    # They stay in all addresses of the page, each of which is refused as well until they are right or taken out.
    refused = [(name, value) for name, value in pairs(here.query) if name in wrong and value]
    return page(
        here,
        "runs.html",
        status_code=400 if wrong else 200,
        query=query,
        typed=texts(here.query),
        errors=Texts(wrong),
        errors_above={name: why for name, why in wrong.items() if name not in MORE},
        more_open=any(name in here.query and here.query.get(name) for name in MORE),
        views=views,
        can_save=bool(base.to_params()) and not wrong and not any(each.shown for each in views),
        longest_name=LONGEST_NAME,
        kept=_kept(here, base, refused),
        params=base.to_params() + refused,
        conditions=_conditions(base, refused),
        refused=refused,
        statuses=[_choice(base, status, refused) for status in Status],
        any_status=base.with_(status=()).to_params() + refused,
        names=await _names(here),
        verbs=bulk_verbs(here),
        page=found or NOTHING,
        anchored=base.to_params() + refused if found is None else _anchored(query, found),
        count=None if found is None else await _count(here, base),
    )


async def _found_by_id(here: Here) -> str | None:
    """The run whose whole id was typed where keys and beginnings of ids are looked for."""
    try:
        run_id = check_run_id(here.query.get("q"))
    except ValueError:
        return None
    return None if await here.context.client.storage.run(run_id) is None else run_id


@view("/runs/export.csv")
async def runs_csv(here: Here) -> Response[bytes]:
    """The newest runs that fit, as a table."""
    found = await _export(here)
    columns = [name for name in RunRow.__struct_fields__ if name not in MOMENTARY]
    out = StringIO()
    csv.writer(out).writerow(columns)
    # All in quotes: where `;` parts cells, a text with one in it would be two of them.
    table = csv.writer(out, quoting=csv.QUOTE_ALL)
    for row in found.rows:
        table.writerow([cell(msgspec.to_builtins(getattr(row, name))) for name in columns])
    return attachment(
        out.getvalue().encode("utf-8", "replace"), "text/csv; charset=utf-8", found.file_name("runs", "csv")
    )


@view("/runs/export.json")
async def runs_json(here: Here) -> Response[bytes]:
    """The newest runs that fit, as the API gives them."""
    found = await _export(here)
    body = msgspec.json.encode({"items": found.rows, "cut": found.cut})
    return attachment(body, "application/json", found.file_name("runs", "json"))


def cell(value: object) -> str:
    """A value in a table: what a spreadsheet would take for a formula is marked as a text."""
    text = "" if value is None else str(value)
    return f"'{text}" if _FORMULA.match(text) else text


async def _export(here: Here) -> Export[RunRow]:
    query = parse_query(pairs(here.query, without=("cursor", "limit"))).with_(limit=200)
    return await gathered(lambda cursor: list_runs(here.context, query.with_(cursor=cursor)))


async def _count(here: Here, query: RunQuery) -> Count | None:
    """How many fit; None where it takes too long to find out, or the newest that were looked at have none."""
    try:
        found = await count(here.context, query)
    except ReadTimeout:
        # The rows are there: a page without their number is better than none.
        return None
    return None if found.capped and not found.n else found


async def _names(here: Here) -> list[str]:
    """What workers have registered, to be offered while one types."""
    storage = here.context.client.storage
    known = await here.context.cache.get("names of types", storage.definitions, fresh=30.0)
    return sorted({definition.name for definition in known})


def _kept(here: Here, query: RunQuery, refused: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What the form's own fields do not hold: its field for metadata holds one condition, there may be several."""
    others = [pair for pair in query.to_params() if pair[0] in KEPT]
    others += [pair for pair in refused if pair[0] not in FIELDS]
    return others + [("meta", value) for value in here.query.all("meta")[:-1]]


def _anchored(query: RunQuery, found: RunsPage) -> list[tuple[str, str]]:
    return query.with_(cursor=query.cursor or found.again).to_params()


def _conditions(query: RunQuery, refused: list[tuple[str, str]]) -> list[Condition]:
    """Those that hold, then those that cannot be read; a status that can is shown by a row of its own."""
    read = [chip for chip in query.chips() if chip.name != "status"]
    return [Condition(chip.name, chip.value, chip.rest.to_params() + refused) for chip in read] + [
        Condition(name, value, query.to_params() + refused[:at] + refused[at + 1 :])
        for at, (name, value) in enumerate(refused)
    ]


def _views(here: Here, query: RunQuery) -> list[ViewChoice]:
    params = query.to_params()
    offered = [(each, False) for each in BUILT_IN] + [(each, True) for each in kept_views(here)]
    return [ViewChoice(each, own, is_shown(each, params)) for each, own in offered]


def _choice(query: RunQuery, status: Status, refused: list[tuple[str, str]]) -> StatusChoice:
    on = status in query.status
    others = tuple(one for one in query.status if one != status)
    return StatusChoice(status, on, query.with_(status=others if on else (*others, status)).to_params() + refused)


HANDLERS = [runs_page, runs_csv, runs_json]
