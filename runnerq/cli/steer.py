"""The verbs that reach into a run, and change when and in what order it is done, and whether it is kept."""

from __future__ import annotations

from copy import copy
from datetime import datetime, timedelta
from typing import Any

import click

from runnerq.cli.acting import context, reason_option, unchecked_option
from runnerq.cli.bulk import Asked, change, do, takes_runs, takes_sureness
from runnerq.cli.completing import Found, completes, runs
from runnerq.cli.filters import behind, moment
from runnerq.cli.output import Output, output_option, show_done
from runnerq.cli.picking import Pick, pick, takes_key, takes_run_and_more
from runnerq.cli.shared import Database, connected, json_value, takes_database
from runnerq.client.client import Client
from runnerq.console.actions import runs as actions
from runnerq.console.actions.batches import BatchRequest, Selection
from runnerq.console.models.filters import RunQuery, parse_query
from runnerq.persistence.records import Priority, Status

ENDED = tuple(status.value for status in Status if status.ended)


async def _run_or_channel(client: Client, ctx: click.Context) -> Found:
    """Where the run is named already, what that waits for."""
    words: tuple[str, ...] = ctx.params.get("words") or ()
    key = ctx.params.get("key")
    if key is not None:
        named, behind = Pick(key=key, workflow=ctx.params["workflow"] or ""), words
    elif words:
        named, behind = pick(words[0]), words[1:]
    else:
        return await runs(client, ctx)
    record = None if behind else await client.storage.run(await named.find(client))
    return [] if record is None else [(channel, "it waits for this") for channel in record.waiting_signals]


@click.command()
@click.argument(
    "words", metavar="[ID] CHANNEL [JSON]", nargs=-1, required=True, shell_complete=completes(_run_or_channel)
)
@takes_key
@click.option("--dedup", help="Send it once: later signals of the same run, channel and dedup id are dropped.")
@unchecked_option
@reason_option
@output_option
@takes_database
def send(
    *,
    words: tuple[str, ...],
    by_key: Pick | None,
    dedup: str | None,
    unchecked: bool,
    reason: str | None,
    output: Output,
    database: Database,
) -> None:
    """Send a signal with a JSON value (null without one) to a run. Write -- before a negative number.

    The run is named by its ID, or in its place by --key and --workflow.
    """
    run, channel, value = _sent(words, by_key)

    async def work(client: Client) -> None:
        run_id = await run.find(client)
        done = await actions.send(
            context(client), run_id, channel, value, dedup=dedup or None, reason=reason, unchecked=unchecked
        )
        show_done(output, done, f"{run_id}: {done.told}", name=run_id)

    connected(database, work)


def _sent(words: tuple[str, ...], by_key: Pick | None) -> tuple[Pick, str, Any]:
    """To which run, on what channel, which value."""
    rest = words if by_key is not None else words[1:]
    if not 1 <= len(rest) <= 2:
        raise click.UsageError("give ID CHANNEL [JSON], or CHANNEL [JSON] with --key and --workflow")
    value = json_value(rest[1]) if len(rest) == 2 else None
    return by_key or pick(words[0]), rest[0], value


signal = copy(send)
"""The other name of it."""
signal.name, signal.help = "signal", "The same as `send`."


@click.command()
@takes_runs
def cancel(asked: Asked, output: Output, database: Database) -> None:
    """Ask a run to cancel; it may clean up first."""
    do(database, "cancel", asked, output, lambda here, run_id: actions.cancel(here, run_id, reason=asked.reason))


@click.command("run-now")
@takes_runs
def run_now(asked: Asked, output: Output, database: Database) -> None:
    """Have a delayed run, or the next attempt of one that failed, begin now."""
    do(database, "run-now", asked, output, lambda here, run_id: actions.run_now(here, run_id, reason=asked.reason))


@click.command()
@takes_run_and_more
@click.argument("at", metavar="TIME", type=moment)
@reason_option
@output_option
@takes_database
def reschedule(*, run: Pick, at: datetime | timedelta, reason: str | None, output: Output, database: Database) -> None:
    """Have a pending run become due at another TIME.

    A TIME is so long from now, such as 10m, or an ISO time (UTC unless it says otherwise).
    """

    async def work(client: Client) -> None:
        run_id = await run.find(client)
        due = await behind(client.storage, at)
        done = await actions.reschedule(context(client), run_id, due, reason=reason)
        show_done(output, done, f"{run_id}: {done.message}: {due:%Y-%m-%d %H:%M:%SZ}", name=run_id)

    connected(database, work)


@click.command()
@takes_runs
@click.argument("level", type=click.Choice([each.name.lower() for each in Priority]))
def priority(asked: Asked, level: str, output: Output, database: Database) -> None:
    """Change the priority of a run that has not ended."""
    do(
        database, "priority", asked, output,
        lambda here, run_id: actions.set_priority(here, run_id, level, reason=asked.reason), priority=level,
    )  # fmt: skip


@click.command()
@takes_runs
def delete(asked: Asked, output: Output, database: Database) -> None:
    """Delete a run that has ended, with all below it, for good."""
    do(database, "delete", asked, output, lambda here, run_id: actions.delete(here, run_id, reason=asked.reason))


def _older_than(_: click.Context, __: click.Parameter, text: str) -> RunQuery:
    if not text.strip():
        raise click.BadParameter("it is empty, and would mean all that has ended: say how long ago")
    return parse_query([("ended_until", text), ("roots", "1")])


@click.command()
@click.option(
    "--older-than",
    required=True,
    metavar="TIME",
    callback=_older_than,
    help="What ended so long ago, such as 30d, or before an ISO time.",
)
@click.option("--status", multiple=True, type=click.Choice(ENDED), help="How it ended.  [default: in any way]")
@takes_sureness
@reason_option
@output_option
@takes_database
def prune(
    *,
    older_than: RunQuery,
    status: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    reason: str | None,
    output: Output,
    database: Database,
) -> None:
    """Delete the runs that ended long ago, with all below them, for good.

    A worker does the same by itself, with Worker(retention=).
    """
    query = older_than.with_(status=tuple(map(Status, status)))
    asked = Asked(query=query, reason=reason, yes=yes, dry_run=dry_run)
    request = BatchRequest(action="delete", selection=Selection(query=query))
    code = connected(database, lambda client: change(context(client), request, asked, output))
    click.get_current_context().exit(code)
