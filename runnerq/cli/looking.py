"""Looking at many runs: count, aggregate, tree, tail."""

from __future__ import annotations

from typing import get_args

import click
import msgspec

from runnerq.cli.filters import Which, status_option, statuses, takes_filter
from runnerq.cli.masking import shown_event, shown_tree, takes_reveal
from runnerq.cli.shared import Database, Refused, connected, output_option, print_json, run_id, say, takes_database
from runnerq.client.client import Client
from runnerq.client.looks import CAP
from runnerq.client.values import Event
from runnerq.console.models.redaction import Redactor
from runnerq.persistence.records import GroupBy

cap_option = click.option(
    "--cap", type=click.IntRange(min=1), default=CAP, show_default=True, help="Look at so many runs at most."
)


@click.command()
@status_option
@takes_filter
@cap_option
@output_option
@takes_database
def count(*, status: tuple[str, ...], which: Which, cap: int, output: str, database: Database) -> None:
    """Count runs."""

    async def work(client: Client) -> None:
        wanted = await which.now(client.storage, statuses(status))
        # One more than is said, to know whether there are more.
        number = await client.count(wanted, cap + 1)
        capped, number = number > cap, min(number, cap)
        if output == "json":
            print_json({"count": number, "capped": capped})
        else:
            click.echo(f"{number}+" if capped else number)

    connected(database, work)


@click.command()
@click.option("--by", type=click.Choice(get_args(GroupBy)), default="status", show_default=True)
@status_option
@takes_filter
@cap_option
@output_option
@takes_database
def aggregate(*, by: GroupBy, status: tuple[str, ...], which: Which, cap: int, output: str, database: Database) -> None:
    """Count runs by what they have in common, the newest of them."""

    async def work(client: Client) -> None:
        wanted = await which.now(client.storage, statuses(status))
        found = await client.aggregate(by, wanted, cap)
        if output == "json":
            print_json(found)
            return
        from runnerq.cli.tables import console, groups_table  # noqa: PLC0415 - rich

        console().print(groups_table(by, found.groups))
        if found.capped:
            say(f"of the newest {cap:,} runs")

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@takes_reveal
@output_option
@takes_database
def tree(run_id: str, redact: Redactor, output: str, database: Database) -> None:
    """Show a run and all that was started below it."""

    async def work(client: Client) -> None:
        top = shown_tree(redact, await client.tree(run_id))
        if output == "json":
            print_json(top)
        else:
            from runnerq.cli.tables import console, tree_of  # noqa: PLC0415 - rich

            console().print(tree_of(top))

    connected(database, work)


@click.command()
@click.option("--after", metavar="CURSOR", help="Go on behind this event's cursor.  [default: from now on]")
@click.option("--limit", type=click.IntRange(min=1), help="End after so many events.  [default: go on for ever]")
@output_option
@takes_database
def tail(*, after: str | None, limit: int | None, output: str, database: Database) -> None:
    """Print what happens, as it happens, a line each; as JSON with -o json."""

    async def work(client: Client) -> None:
        seen = 0
        try:
            async for happened in client.events(after):
                event = shown_event(happened)
                click.echo(msgspec.json.encode(event).decode() if output == "json" else _line(event))
                seen += 1
                if seen == limit:
                    return
        except ValueError as error:
            raise Refused(str(error), 2) from error

    connected(database, work)


def _line(event: Event) -> str:
    of = (event.run_id, event.workflow, None if event.queue is None else f"on {event.queue}")
    return " ".join([f"{event.at:%H:%M:%S.%f}"[:-3], f"{event.kind:<11}", *(each for each in of if each)])
