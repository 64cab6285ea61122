"""``runnerq dead``: dead letters."""

from __future__ import annotations

import click
import msgspec

from runnerq.cli.filters import takes_filter
from runnerq.cli.runs import print_page
from runnerq.cli.shared import Database, connected, output_option, print_json, run_id, say, takes_database
from runnerq.client.client import Client
from runnerq.persistence.records import RunFilter, Status


@click.group()
def dead() -> None:
    """Runs that used up their attempts."""


@dead.command("list")
@takes_filter
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", type=run_id, help="The 'next' of the page before.")
@output_option
@takes_database
def listing(*, where: RunFilter, limit: int, cursor: str | None, output: str, database: Database) -> None:
    """List dead letters, newest first."""
    dead_letters = msgspec.structs.replace(where, status=Status.DEAD_LETTER)

    async def work(client: Client) -> None:
        print_page(await client.list(dead_letters, limit, cursor), output)

    connected(database, work)


@dead.command()
@click.argument("run_id", metavar="[ID]", type=run_id, required=False)
@takes_filter
@click.option("--all", "everything", is_flag=True, help="All dead letters there are.")
@click.option("--dry-run", is_flag=True, help="Only say how many would go on.")
@output_option
@takes_database
def redrive(
    *, run_id: str | None, where: RunFilter, everything: bool, dry_run: bool, output: str, database: Database
) -> None:
    """Let a dead letter, or all that fit the options, go on from the entry that failed."""
    ways = (run_id is not None, where != RunFilter(), everything)
    if sum(ways) != 1:
        raise click.UsageError("give the ID of a dead letter, or options that say which, or --all")

    async def work(client: Client) -> None:
        count = await client.redrive(where if run_id is None else run_id, dry_run=dry_run)
        if output == "json":
            print_json({"count": count, "dry_run": dry_run})
        else:
            letters = "dead letter" if count == 1 else "dead letters"
            say(f"{count} {letters} " + ("would go on" if dry_run else "go on"))

    connected(database, work)
