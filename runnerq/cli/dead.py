"""``runnerq dead``: dead letters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from runnerq.cli.acting import context, reason_option
from runnerq.cli.bulk import Asked, do, takes_sureness
from runnerq.cli.commands import Noun
from runnerq.cli.completing import known_runs
from runnerq.cli.filters import takes_page, takes_query
from runnerq.cli.fleet_tables import failures_table, group_conditions
from runnerq.cli.masking import takes_reveal
from runnerq.cli.output import Output, output_option, show_list
from runnerq.cli.picking import Pick, pick
from runnerq.cli.runs import show_runs
from runnerq.cli.shared import Database, connected, takes_database
from runnerq.cli.telling import say
from runnerq.client.client import Client
from runnerq.console.actions import runs as actions
from runnerq.console.actions.doing import Done
from runnerq.console.models.context import Context
from runnerq.console.models.dead_letters import failures
from runnerq.console.models.filters import RunQuery
from runnerq.console.models.redaction import Redactor
from runnerq.errors import WrongState
from runnerq.persistence.records import Status

T = TypeVar("T")

DEAD = (Status.DEAD_LETTER,)


def takes_dead_letters(command: Callable[..., T]) -> Callable[..., T]:
    """Add the arguments ID, ``--key``, the options of a query and ``--all``, of which one is to be given, and what a
    batch takes;
    the command gets ``asked: Asked``, ``output`` and ``database``."""

    @click.argument("runs", metavar="[ID]...", type=pick, nargs=-1, shell_complete=known_runs)
    @takes_query
    @click.option("--key", help="In place of the ID: the run that holds this key, with --workflow alone.")
    @click.option("--all", is_flag=True, help="All dead letters there are.")
    @takes_sureness
    @reason_option
    @output_option
    @takes_database
    @functools.wraps(command)
    def with_dead_letters(
        *,
        runs: tuple[Pick, ...],
        query: RunQuery,
        key: str | None,
        yes: bool,
        dry_run: bool,
        reason: str | None,
        **options: Any,
    ) -> T:
        if key is not None:
            if not query.workflow or query != RunQuery(workflow=query.workflow):
                raise click.UsageError("--key and --workflow go together, and with no other condition")
            runs, query = (*runs, Pick(key=key, workflow=query.workflow)), RunQuery()
        ways = (bool(runs), query != RunQuery(), options.pop("all"))
        if sum(ways) != 1:
            one_of = "the IDs of dead letters, or options that say which, or --all"
            raise click.UsageError(f"give one of these, not {sum(ways)}: {one_of}" if any(ways) else f"give {one_of}")
        which = None if runs else msgspec.structs.replace(query, status=DEAD)
        return command(asked=Asked(picks=runs, query=which, reason=reason, yes=yes, dry_run=dry_run), **options)

    return with_dead_letters


@click.group(cls=Noun)
def dead() -> None:
    """Runs that used up their attempts."""


@dead.command("list")
@takes_query
@takes_page
@takes_reveal
@output_option
@takes_database
def listing(*, query: RunQuery, limited: bool, redact: Redactor, output: Output, database: Database) -> None:
    """List dead letters, newest first."""
    letters = msgspec.structs.replace(query, status=DEAD)
    connected(database, lambda client: show_runs(context(client, redact), letters, output, limited=limited))


@dead.command()
@takes_query
@takes_reveal
@output_option
@takes_database
def groups(*, query: RunQuery, redact: Redactor, output: Output, database: Database) -> None:
    """List dead letters by what they failed with, those alike together.

    `dead redrive --where 'workflow=... fingerprint=...'` is for all of one group.
    """

    async def work(client: Client) -> None:
        found = await failures(context(client, redact), query)
        some = found.groups
        show_list(output, found, some, name=group_conditions, table=lambda: failures_table(some))
        if found.capped:
            say("only the newest were looked at: there may be more")

    connected(database, work)


@dead.command()
@takes_dead_letters
def redrive(*, asked: Asked, output: Output, database: Database) -> None:
    """Let dead letters go on, each from the entry that failed."""
    do(database, "redrive", asked, output, lambda here, run_id: actions.redrive(here, run_id, reason=asked.reason))


@dead.command()
@takes_dead_letters
def discard(*, asked: Asked, output: Output, database: Database) -> None:
    """Delete dead letters for good, with all below them.

    What another run has started is deleted with that one alone.
    """
    if len(asked.picks) > 1:
        raise click.UsageError("give one ID, or options that say which: `runnerq delete` takes several IDs")
    do(database, "delete", asked, output, lambda here, run_id: _discarded(here, run_id, asked.reason))


async def _discarded(here: Context, run_id: str, reason: str | None) -> Done:
    record = await here.client.storage.run(run_id)
    if record is not None and record.status is not Status.DEAD_LETTER:
        raise WrongState(run_id, record.status, "discard", "`runnerq delete` is for any run that has ended")
    return await actions.delete(here, run_id, reason=reason)
