"""``why``: what a run waits for, in words, and what to do about it."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TypeAlias, assert_never

import click
import msgspec

from runnerq.cli.acting import context
from runnerq.cli.masking import takes_reveal
from runnerq.cli.output import Output, output_option, show_one
from runnerq.cli.picking import Pick, takes_run
from runnerq.cli.shared import Database, connected, takes_database
from runnerq.cli.sheets import Fields, Styled, fields
from runnerq.cli.tables import clock_text, named, status_cell
from runnerq.client.client import Client
from runnerq.console.models.attempts import AttemptRow, attempts
from runnerq.console.models.fleet import HeldBy
from runnerq.console.models.redaction import Redactor
from runnerq.console.models.run import BlockView, RunDetail, Waiting, run_detail
from runnerq.console.models.runs import RunRow
from runnerq.persistence.records import Status

Told: TypeAlias = tuple[list[str], list[str]]
"""Why it stands where it does, and what to do about it."""
MOST_CHILDREN = 5


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run stands where it does: ``because`` in words, a sentence each, and ``advice``, what may be done about it.

    ``waiting``, ``block`` and ``attempts`` are what that was made of: attempts are those that failed of what is open.
    """

    run_id: str
    workflow: str
    status: Status
    because: tuple[str, ...]
    advice: tuple[str, ...]
    waiting: Waiting | None
    block: BlockView | None
    attempts: tuple[AttemptRow, ...]


def why_of(found: RunDetail, failed: tuple[AttemptRow, ...]) -> Why:
    """What there is to say of a run as it stands. ``failed`` are attempts that failed at what is not answered yet."""
    because, advice = _told(found)
    because += [_attempts_words(each) for each in failed]
    return Why(
        run_id=found.run.id,
        workflow=named(found.run),
        status=found.run.status,
        because=tuple(because),
        advice=tuple(advice),
        waiting=found.waiting,
        block=found.block,
        attempts=failed,
    )


def _told(found: RunDetail) -> Told:
    run, waiting = found.run, found.waiting
    match run.status:
        case Status.COMPLETED:
            return [f"it waits for nothing: it completed{_at(run.ended_at)}"], [
                f"see its result: runnerq result {run.id}"
            ]
        case Status.FAILED | Status.DEAD_LETTER | Status.CANCELLED:
            return _ended(found)
        case Status.BLOCKED:
            return _blocked(found)
        case Status.RUNNING:
            return _running(run)
        case Status.PENDING:
            return _pending(found)
        case Status.WAITING:
            return _parked(found)
        case Status.SCHEDULED:
            until = None if waiting is None else waiting.until
            return [f"it is to begin{_at(until)}"], [f"have it begin now: runnerq run-now {run.id}"]
        case Status.RETRYING:
            # Which attempt failed, with what, and when the next begins, is on record beside it.
            return [], [f"have the next attempt begin at once: runnerq run-now {run.id}"]


def _ended(found: RunDetail) -> Told:
    run = found.run
    because = [f"it waits for nothing: it ended as {run.status}{_at(run.ended_at)}"]
    if run.error_line is not None:
        because.append(run.error_line)
    if found.reason is not None:
        because.append(f"the reason on record is {found.reason!r}")
    if run.status is Status.CANCELLED:
        return because, []
    again = found.action("retry")
    if again is None or again.enabled:
        return because, [f"let it go on from what failed: runnerq retry {run.id}"]
    return because, [f"it cannot go on: {again.why_not}"]


def _blocked(found: RunDetail) -> Told:
    run, block = found.run, found.block
    diverged = block is not None and (block.recorded is not None or block.asked is not None)
    because = [
        "it is blocked: the code does not do again what is on record"
        if diverged
        else "it is blocked: what its code raised looks like a fault of the code"
    ]
    if block is not None:
        because += [block.message, *([f"it stands at {block.line}"] if block.line else [])]
        if block.retry_at is not None:
            because.append(f"it is tried again by itself{_at(block.retry_at)}")
    advice = [
        "deploy code that its journal fits, which takes it up by itself; ctx.patched keeps the old way for such runs"
        if diverged
        else "repair the code and deploy it: a worker with another build takes it up by itself"
    ]
    if block is not None and block.arguments_differ:
        advice.append(f"or, if the difference does no harm: runnerq retry {run.id} --accept arguments")
    advice.append(f"have workers try it again that could not follow it: runnerq retry {run.id}")
    return because, advice


def _running(run: RunRow) -> Told:
    held = run.worker
    if held is None:
        return ["it waits for nothing: a worker is at it"], [f"see what it does: runnerq watch {run.id}"]
    if held.silent_for is None:
        return [f"it waits for nothing: a worker is at it, {held.words}"], [f"see what it does: runnerq watch {run.id}"]
    queue = shlex.quote(run.queue)
    return [f"the worker that has it is not heard of: {held.words}"], [
        f"have another worker serve {run.workflow}, if none does: runnerq worker MODULE -q {queue}",
        f"it is taken up there when the lease of the silent one has run out, or before: runnerq workers show {held.id}",
    ]


def _pending(found: RunDetail) -> Told:
    run, waiting = found.run, found.waiting
    because = [
        "it is ready, and waits for a worker" if waiting is None else f"it is ready, and waits for {waiting.what}"
    ]
    held_up = None if waiting is None else waiting.obstacle
    if held_up is None:
        return because, ["nothing keeps it: it is taken up as soon as its turn comes"]
    return [*because, held_up], _remedies(run, None if waiting is None else waiting.held_by)


def _remedies(run: RunRow, held_by: HeldBy | None) -> list[str]:
    queue = shlex.quote(run.queue)
    match held_by:
        case "pause":
            return [f"end the pause: runnerq queue resume {queue}"]
        case "limit":
            return ["see what its limit lets through: runnerq limits list"]
        case "slots" | None:
            return ["see what takes the slots: runnerq workers list", f"or start another worker on queue {queue}"]
        case "worker":
            return [
                f"have a worker serve it: runnerq worker MODULE -q {queue}, with the MODULE that {run.workflow} is in",
                "see who serves what: runnerq workers list",
                f"or end it: runnerq terminate {run.id}",
            ]
        case _:
            assert_never(held_by)


def _parked(found: RunDetail) -> Told:
    run, waiting = found.run, found.waiting
    if waiting is None:
        return ["it is parked"], []
    since = "" if waiting.since is None else f", since {clock_text(waiting.since)}"
    because = [f"its code waits for {waiting.what}{since}{_until(waiting.until)}"]
    if waiting.line is not None:
        because.append(f"it stands at {waiting.line}")
    takes = {channel: f", where JSON is {words}" for channel, words in found.expects}
    advice = [
        f"send what it waits for: runnerq send {run.id} {channel} JSON{takes.get(channel, '')}"
        for channel in waiting.channels
    ]
    open_children = [child for child in waiting.children if child.status is None or not child.status.ended]
    advice += [f"see what a child waits for: runnerq why {child.id}" for child in open_children[:MOST_CHILDREN]]
    more = waiting.children_count - min(len(open_children), MOST_CHILDREN)
    if open_children and more > 0:
        advice.append(f"see the other {more:,} children: runnerq list --parent {run.id}")
    return because, advice


def _attempts_words(row: AttemptRow) -> str:
    times = "once" if row.count == 1 else f"{row.count:,} times"
    where = f"{row.name}, entry {row.position}," if row.position else row.name
    why = "" if row.error is None else f": {row.error.line}"
    return f"{where} has failed {times}{why}" + (
        "" if row.next_at is None else f"; the next attempt begins{_at(row.next_at)}"
    )


def _at(at: datetime | None) -> str:
    return "" if at is None else f" at {clock_text(at)}"


def _until(at: datetime | None) -> str:
    return "" if at is None else f", until {clock_text(at)}"


def why_fields(told: Why) -> Fields:
    """The same for people."""
    return fields(
        [
            ("run", told.run_id),
            ("workflow", told.workflow),
            ("status", status_cell(told.status)),
            ("why", "\n".join(told.because)),
            ("to do", Styled("\n".join(told.advice), "bold") if told.advice else None),
        ]
    )


@click.command()
@takes_run
@takes_reveal
@output_option
@takes_database
def why(*, run: Pick, redact: Redactor, output: Output, database: Database) -> None:
    """Say what a run waits for, and what to do about it."""

    async def work(client: Client) -> None:
        here, run_id = context(client, redact), await run.find(client)
        found = await run_detail(here, run_id)
        rows = () if found.run.status.ended else (await attempts(here, run_id)).rows
        failed = tuple(row for row in rows if row.state == "asked" and row.error is not None)
        told = why_of(found, failed)
        show_one(output, told, name=told.run_id, table=lambda: why_fields(told))

    connected(database, work)
