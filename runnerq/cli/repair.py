"""The verbs that put a run right: terminate, retry, fork."""

from __future__ import annotations

import click

from runnerq.cli.acting import context, reason_option
from runnerq.cli.bulk import Asked, do, takes_runs
from runnerq.cli.output import Output, output_option, show_one
from runnerq.cli.picking import Pick, takes_run
from runnerq.cli.shared import Database, connected, takes_database
from runnerq.client.client import Client
from runnerq.console.actions import runs as actions


@click.command()
@takes_runs
def terminate(asked: Asked, output: Output, database: Database) -> None:
    """End a run at once as cancelled, without running any of its code."""
    do(database, "terminate", asked, output, lambda here, run_id: actions.terminate(here, run_id, reason=asked.reason))


@click.command()
@takes_runs
@click.option(
    "--accept",
    type=click.Choice(["arguments"]),
    help="Let one run that is blocked by changed arguments alone go on with those of today's code.",
)
def retry(asked: Asked, accept: str | None, output: Output, database: Database) -> None:
    """Let a failed, dead-lettered or blocked run go on, from the entry that failed."""
    if accept is not None and len(asked.picks) != 1:
        raise click.UsageError("--accept is for one run, which somebody has looked at: give its ID alone")
    do(
        database, "retry", asked, output,
        lambda here, run_id: actions.retry(here, run_id, accept=accept, reason=asked.reason),
    )  # fmt: skip


@click.command()
@takes_run
@click.option(
    "--from-entry", required=True, metavar="POSITION", help="The first entry to be done anew, as `history` shows it."
)
@reason_option
@output_option
@takes_database
def fork(*, run: Pick, from_entry: str, reason: str | None, output: Output, database: Database) -> None:
    """Start a new run with a copy of this one's journal up to an entry, and print its id."""

    async def work(client: Client) -> None:
        run_id = await run.find(client)
        forked = await actions.fork(context(client), run_id, from_entry=from_entry, reason=reason)
        new = str(forked.run_id)
        show_one(output, forked, name=new, table=lambda: new)

    connected(database, work)
