"""A verb for one run, for several, or for all that fit a query: the last two are a batch, as the console has it.

Rules
- A batch says how many runs it is about, shows the first of them, and asks; ``--yes`` answers that, ``--dry-run`` ends
  there. Nothing was changed before the answer.
- It goes on where a run cannot be changed, says so at the end, and ends with exit code 1.
- Ctrl-C ends it after the run that it is at: what is changed by then stays so.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import click
import msgspec

from runnerq.cli.acting import context, reason_option
from runnerq.cli.completing import known_runs
from runnerq.cli.filters import where_query
from runnerq.cli.output import Output, output_option, show_done, show_list
from runnerq.cli.picking import Pick, pick, takes_key
from runnerq.cli.shared import Database, Refused, connected, takes_database
from runnerq.cli.tables import runs_table
from runnerq.cli.telling import on_a_line, say
from runnerq.client.client import Client
from runnerq.console.actions.batches import BatchRequest, Preview, Selection, preview, start_batch
from runnerq.console.actions.doing import Done
from runnerq.console.api.shapes import Batched
from runnerq.console.models.batches import BatchView
from runnerq.console.models.context import Context
from runnerq.console.models.filters import RunQuery
from runnerq.console.models.runs import Count

T = TypeVar("T")
One: TypeAlias = Callable[[Context, str], Awaitable[Done]]

LOOK = 0.05
"""Seconds between two looks at how far a batch is."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs a verb is for, and how sure whoever asks is: ``yes`` asks nobody, ``dry_run`` changes nothing."""

    picks: tuple[Pick, ...] = ()
    query: RunQuery | None = None
    reason: str | None = None
    yes: bool = False
    dry_run: bool = False


def takes_sureness(command: Callable[..., T]) -> Callable[..., T]:
    """Add ``--yes``, ``--dry-run``."""
    # Whoever says yes has read the question: a variable would answer the next one as well.
    yes = click.option("-y", "--yes", is_flag=True, allow_from_autoenv=False, help="Of several: do not ask.")
    dry_run = click.option("--dry-run", is_flag=True, help="Only count them, and show the first.")
    return yes(dry_run(command))


def takes_runs(command: Callable[..., T]) -> Callable[..., T]:
    """Add the arguments ID, ``--key`` with ``--workflow``, and ``--where``, of which one is to be given, ``--yes``,
    ``--dry-run``, ``--reason``, ``-o`` and the database's options; the command gets ``asked: Asked``, ``output`` and
    ``database``."""

    @click.argument("runs", metavar="[ID]...", type=pick, nargs=-1, shell_complete=known_runs)
    @click.option(
        "--where",
        metavar="CONDITIONS",
        help="In place of IDs all that fit, in the words of the API: 'status=failed workflow=order since=2h'.",
    )
    @takes_key
    @takes_sureness
    @reason_option
    @output_option
    @takes_database
    @functools.wraps(command)
    def with_runs(
        *,
        runs: tuple[Pick, ...],
        by_key: Pick | None,
        where: str | None,
        yes: bool,
        dry_run: bool,
        reason: str | None,
        **options: Any,
    ) -> T:
        if sum((bool(runs), by_key is not None, where is not None)) != 1:
            raise click.UsageError("give the IDs of runs, or --key and --workflow, or --where with conditions")
        picks = runs if by_key is None else (by_key,)
        query = None if where is None else where_query(where)
        return command(asked=Asked(picks=picks, query=query, reason=reason, yes=yes, dry_run=dry_run), **options)

    return with_runs


def do(database: Database, action: str, asked: Asked, output: Output, one: One, *, priority: str | None = None) -> None:
    """Do ``one`` to the run that is asked for, or the batch action of this name to all of them, and answer."""

    async def work(client: Client) -> int:
        here = context(client)
        ids = [await each.find(client) for each in asked.picks]
        if len(ids) == 1 and not asked.dry_run:
            done = await one(here, ids[0])
            show_done(output, done, f"{ids[0]}: {done.told}", name=ids[0])
            return 0
        selection = Selection(ids=tuple(dict.fromkeys(ids)), query=asked.query)
        request = BatchRequest(action=action, selection=selection, priority=priority)
        return await change(here, request, asked, output)

    click.get_current_context().exit(connected(database, work))


async def change(here: Context, request: BatchRequest, asked: Asked, output: Output) -> int:
    """Change all of a selection, if whoever is asked agrees; the exit code."""
    shown = await preview(here, request)
    # Those that are named are tried all the same, so that it is said of each why not.
    if asked.dry_run or not (shown.count.n or request.selection.ids):
        _answer_dry(output, shown, await here.now())
        say("no run fits" if not shown.count.n else f"{request.action} would look at {_runs(shown.count)}")
        return 0
    if shown.count.n and not asked.yes and not _agreed(here, request, shown):
        say("nothing was changed")
        return 1
    # Only what was there when it was counted: somebody may have been asked for an hour.
    view = await _followed(here, await start_batch(here, request, reason=asked.reason, as_of=shown.at))
    told = f"{request.action}: {view.done:,} looked at, {view.changed:,} changed, {view.failed:,} could not be"
    show_done(output, Batched(count=Count(view.total, view.capped), sample=(), batch=view), told)
    for failure in view.failures:
        say(on_a_line(f"{failure.run_id}: {failure.message}"))
    if view.message is not None:
        say(on_a_line(f"it ended early: {view.message}"))
    return 0 if view.state == "done" and not view.failed else 1


def _answer_dry(output: Output, shown: Preview, now: datetime) -> None:
    answer = Batched(count=shown.count, sample=shown.sample, batch=None)
    show_list(output, answer, shown.sample, name=lambda run: run.id, table=lambda: runs_table(shown.sample, now))


def _agreed(here: Context, request: BatchRequest, shown: Preview) -> bool:
    say(f"{request.action} {_runs(shown.count)} at {here.client.place}:")
    for run in shown.sample:
        say(on_a_line(f"  {run.id}  {run.workflow}  {run.status}" + (f"  {run.key}" if run.key else "")))
    if shown.count.capped or shown.count.n > len(shown.sample):
        say("  …")
    return _confirmed()


def _confirmed() -> bool:
    """What is answered. Raises Refused where nobody answers, KeyboardInterrupt on Ctrl-C."""
    interrupts: list[int] = []

    def interrupt(number: int, _: object) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    # asyncio's own handler would wait for the answer before it ends anything.
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        return click.confirm("Go on?", err=True)
    except click.Abort:
        say("")
        if interrupts:
            raise KeyboardInterrupt from None
        raise Refused("nothing was changed, since nobody is here to be asked: say --yes", 2) from None
    finally:
        signal.signal(signal.SIGINT, before)


async def _followed(here: Context, view: BatchView) -> BatchView:
    """The batch at its end. Where this is cancelled the batch is stopped first."""
    with _bar(view) as bar:
        try:
            while (view := here.batches.get(view.id)).state == "running":
                bar(view)
                await asyncio.sleep(LOOK)
            bar(view)
        except asyncio.CancelledError:
            await here.batches.close()
            view = here.batches.get(view.id)
            say(f"stopped: {view.done:,} were looked at, {view.changed:,} of them were changed")
            raise
    return view


def _bar(view: BatchView) -> Any:
    if not sys.stderr.isatty():
        return nullcontext(lambda _: None)
    from runnerq.cli.progress import bar  # noqa: PLC0415 - rich, where there is somebody to see it

    return bar(view.action)


def _runs(count: Count) -> str:
    return f"{count} run{'' if count == Count(1) else 's'}"
