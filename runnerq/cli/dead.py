"""``runnerq dead``: dead letters."""

from __future__ import annotations

import click

from runnerq.cli.acting import person, reason_option
from runnerq.cli.filters import Which, takes_filter
from runnerq.cli.masking import takes_reveal
from runnerq.cli.runs import print_page
from runnerq.cli.shared import Database, connected, output_option, print_json, run_id, say, takes_database
from runnerq.client.client import Client
from runnerq.console.actions.doing import Deed, Done, done
from runnerq.console.models.context import context_of
from runnerq.console.models.redaction import Redactor
from runnerq.persistence.records import RunFilter, Status


@click.group()
def dead() -> None:
    """Runs that used up their attempts."""


@dead.command("list")
@takes_filter
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", type=run_id, help="The 'next' of the page before.")
@takes_reveal
@output_option
@takes_database
def listing(*, which: Which, limit: int, cursor: str | None, redact: Redactor, output: str, database: Database) -> None:
    """List dead letters, newest first."""

    async def work(client: Client) -> None:
        dead_letters = await which.now(client.storage, Status.DEAD_LETTER)
        print_page(await client.list(dead_letters, limit, cursor), redact, output)

    connected(database, work)


@dead.command()
@click.argument("run_id", metavar="[ID]", type=run_id, required=False)
@takes_filter
@click.option("--all", "everything", is_flag=True, help="All dead letters there are.")
@click.option("--dry-run", is_flag=True, help="Only say how many would go on.")
@reason_option
@output_option
@takes_database
def redrive(
    *,
    run_id: str | None,
    which: Which,
    everything: bool,
    dry_run: bool,
    reason: str | None,
    output: str,
    database: Database,
) -> None:
    """Let a dead letter, or all that fit the options, go on from the entry that failed."""
    ways = (run_id is not None, which != Which(), everything)
    if sum(ways) != 1:
        one_of = "the ID of a dead letter, or options that say which, or --all"
        raise click.UsageError(f"give one of these, not {sum(ways)}: {one_of}" if any(ways) else f"give {one_of}")

    async def work(client: Client) -> None:
        where = await which.now(client.storage) if run_id is None else run_id
        if dry_run:
            count = await client.redrive(where, dry_run=True)
        else:
            count = await _redriven(client, where, run_id, reason)
        if output == "json":
            print_json({"count": count, "dry_run": dry_run})
        else:
            letters, goes = ("dead letter", "goes") if count == 1 else ("dead letters", "go")
            say(f"{count} {letters} " + ("would go on" if dry_run else f"{goes} on"))

    connected(database, work)


async def _redriven(client: Client, where: str | RunFilter, run_id: str | None, reason: str | None) -> int:
    """How many go on; who had them go on is kept in the audit."""

    async def work() -> Done:
        count = await client.redrive(where)
        return Done(message=f"{count} go on", changed=count > 0, count=count)

    which = None if isinstance(where, str) else {"which": where}
    target = None if run_id is not None else "all dead letters that fit"
    deed = Deed(action="redrive", run_id=run_id, target=target, reason=reason, request=which)
    return (await done(context_of(client, person()), deed, work)).count or 0
