"""Watching one run: its status and its entries, as they come, until it has ended. And the command ``watch``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import TypeAlias, assert_never

import click
import msgspec

from runnerq.cli.acting import context
from runnerq.cli.ending import exit_of
from runnerq.cli.masking import takes_reveal
from runnerq.cli.output import Output, output_option, show_event
from runnerq.cli.picking import Pick, takes_run
from runnerq.cli.shared import Database, connected, takes_database
from runnerq.cli.sheets import Cell, Styled
from runnerq.cli.tables import entry_value, named, state_cell, status_cell, time_of_day, waits_for
from runnerq.client.client import Client
from runnerq.client.hub import Hub
from runnerq.console.models.context import Context
from runnerq.console.models.history import HistoryEntry, HistoryQuery, history
from runnerq.console.models.records import record_of
from runnerq.console.models.redaction import Redactor
from runnerq.console.models.runs import RunRow, row_with_reason
from runnerq.persistence.records import RunRecord, Status

LOOK_AGAIN = 1.0
"""Seconds after which a run of which nothing was heard is looked at all the same."""


class RunSeen(msgspec.Struct, frozen=True, tag_field="seen", tag="run"):
    """The run as it stands, when its status or what it waits for is another. ``at`` is when that came to be; where that
    is not known, when it was seen."""

    run: RunRow
    at: datetime


class EntrySeen(msgspec.Struct, frozen=True, tag_field="seen", tag="entry"):
    """An entry that is new, or has changed."""

    entry: HistoryEntry


Seen: TypeAlias = RunSeen | EntrySeen


async def watched(here: Context, run_id: str) -> AsyncGenerator[Seen, None]:
    """The run and its entries as they are, then what changes, each once; the last is the run that has ended. What is
    seen at one look comes in the order in which it happened.

    Raises RunNotFound, also where it is deleted meanwhile.
    """
    hub = Hub(here.client.storage)
    shown: dict[tuple[int, int], HistoryEntry] = {}
    stood: RunRow | None = None
    try:
        with hub.changes(run_id) as changes:
            while True:
                # The run first: entries that are read after its end are all that there are.
                now = await here.now()
                record = await record_of(here, run_id)
                row = await row_with_reason(here, record, now)
                news: list[Seen] = [EntrySeen(entry) for entry in await _changed(here, run_id, shown)]
                if stood is None or (row.status, row.waiting_for) != (stood.status, stood.waiting_for):
                    since = await _since(here, record, now, first=stood is None)
                    news.append(RunSeen(row, since))
                # Stable, so that the run stands behind the entries that made it what it is.
                for each in sorted(news, key=_time_of):
                    yield each
                if row.status.ended:
                    return
                stood = row
                await changes.next(LOOK_AGAIN)
    finally:
        await hub.close()


async def _since(here: Context, record: RunRecord, now: datetime, *, first: bool) -> datetime:
    """When the run came to stand as it does, as far as it is known."""
    match record.status:
        case Status.WAITING:
            known = record.parked_at
        case Status.BLOCKED:
            block = await here.client.storage.block(record.id)
            known = None if block is None else block.at
        case Status.PENDING | Status.SCHEDULED | Status.RETRYING:
            # One that has begun was woken, or has failed, since.
            known = record.created_at if first and record.started_at is None else None
        case Status.RUNNING:
            known = record.started_at if first else None
        case _:
            known = record.ended_at
    return known or now


def _time_of(seen: Seen) -> tuple[bool, datetime]:
    """Nothing comes after the end of a run."""
    if isinstance(seen, RunSeen):
        return seen.run.status.ended, seen.at
    return False, _entry_time(seen.entry)


def _entry_time(entry: HistoryEntry) -> datetime:
    return entry.answered_at or entry.asked_at


async def _changed(here: Context, run_id: str, shown: dict[tuple[int, int], HistoryEntry]) -> list[HistoryEntry]:
    """The entries that are new, or not as they were shown, which ``shown`` is told."""
    news: list[HistoryEntry] = []
    page, pages = 1, 1
    while page <= pages:
        found = await history(here, run_id, HistoryQuery(page=page))
        page, pages = page + 1, found.pages
        for entry in found.entries:
            place = (found.generation, entry.number)
            before = shown.get(place)
            if before is None or (before.state, before.attempts) != (entry.state, entry.attempts):
                news.append(entry)
            shown[place] = entry
    return news


async def follow(here: Context, run_id: str, output: Output) -> Status:
    """Print a run and its entries as they come, a line each, until it has ended; how it ended."""
    status = Status.PENDING
    async with aclosing(watched(here, run_id)) as news:
        async for each in news:
            match each:
                case RunSeen(run, at):
                    status = run.status
                    show_event(output, each, name=run.id, line=partial(_run_line, run, at))
                case EntrySeen(entry):
                    show_event(output, each, name=entry.position, line=partial(_entry_line, entry))
                case _:
                    assert_never(each)
    return status


async def follow_entries(here: Context, run_id: str, output: Output) -> None:
    """Print the entries of a run alone, as they come, until it has ended."""
    async with aclosing(watched(here, run_id)) as news:
        async for each in news:
            if isinstance(each, EntrySeen):
                entry = each.entry
                show_event(output, entry, name=entry.position, line=partial(_entry_line, entry))


def _run_line(run: RunRow, at: datetime) -> list[Cell]:
    why = run.error_line or waits_for(run.waiting_for, run.due_at) or ""
    return _told(time_of_day(at), named(run), status_cell(run.status), why)


def _entry_line(entry: HistoryEntry) -> list[Cell]:
    at = time_of_day(_entry_time(entry))
    return _told(at, entry.position, entry.kind, entry.name, state_cell(entry.state), entry_value(entry))


def _told(at: str, *cells: Cell) -> list[Cell]:
    return [Styled(at, "dim"), *(cell for cell in cells if cell)]


@click.command()
@takes_run
@takes_reveal
@output_option
@takes_database
def watch(*, run: Pick, redact: Redactor, output: Output, database: Database) -> None:
    """Follow a run until it ends: its status and its entries, as they come.

    Exit code 1 if it fails or is cancelled.
    """

    async def work(client: Client) -> int:
        return exit_of(await follow(context(client, redact), await run.find(client), output))

    click.get_current_context().exit(connected(database, work))
