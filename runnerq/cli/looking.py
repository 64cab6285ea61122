"""Looking at many runs: count, aggregate, tree, tail."""

from __future__ import annotations

from functools import partial
from typing import get_args

import click
import msgspec

from runnerq.cli.acting import context
from runnerq.cli.filters import status_option, takes_query
from runnerq.cli.masking import shown_event, takes_reveal
from runnerq.cli.output import Output, output_option, show_event, show_list, show_one
from runnerq.cli.picking import Pick, takes_run
from runnerq.cli.shared import Database, connected, takes_database
from runnerq.cli.sheets import Cell, Styled
from runnerq.cli.tables import STATUS_STYLES, groups_table, time_of_day, tree_sheet
from runnerq.cli.telling import say
from runnerq.client.client import Client
from runnerq.client.looks import CAP
from runnerq.client.values import Event
from runnerq.console.api.runs import get_tree
from runnerq.console.models import runs as models
from runnerq.console.models.filters import BadFields, RunQuery
from runnerq.console.models.redaction import Redactor
from runnerq.console.models.tree import TreeView
from runnerq.persistence.records import Group, GroupBy

MOST_COUNTED = 1_000_000_000
cap_option = click.option(
    "--cap", type=click.IntRange(1, MOST_COUNTED), default=CAP, show_default=True, help="Count so many runs at most."
)


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Runs counted by what they have in common; ``capped``: of the newest alone."""

    by: str
    groups: tuple[Group, ...]
    capped: bool


@click.command()
@status_option
@takes_query
@cap_option
@output_option
@takes_database
def count(*, query: RunQuery, cap: int, output: Output, database: Database) -> None:
    """Count runs."""

    async def work(client: Client) -> None:
        found = await models.count(context(client), query, cap)
        show_one(output, found, name=None, table=lambda: f"{found.n}+" if found.capped else str(found.n))

    connected(database, work)


@click.command()
@click.option("--by", type=click.Choice(get_args(GroupBy)), default="status", show_default=True)
@status_option
@takes_query
@cap_option
@output_option
@takes_database
def aggregate(*, by: GroupBy, query: RunQuery, cap: int, output: Output, database: Database) -> None:
    """Count runs by what they have in common, the newest of them."""

    async def work(client: Client) -> None:
        here = context(client)
        found = await client.aggregate(by, models.filter_of(here, query, await here.now()), cap)
        groups = tuple(found.groups)
        answer = Groups(by=by, groups=groups, capped=found.capped)
        show_list(output, answer, groups, name=lambda group: group.value, table=lambda: groups_table(by, groups))
        if found.capped:
            say(f"of the newest {cap:,} runs")

    connected(database, work)


@click.command()
@takes_run
@takes_reveal
@output_option
@takes_database
def tree(*, run: Pick, redact: Redactor, output: Output, database: Database) -> None:
    """Show the tree that a run lies in: the runs that started each other."""

    async def work(client: Client) -> None:
        found: TreeView = await get_tree.do(context(client, redact), await run.find(client))
        show_list(output, found, found.nodes, name=lambda node: node.run.id, table=lambda: tree_sheet(found.nodes))
        if not found.whole:
            say(f"it is too large to be shown whole: its runs are `runnerq list --root {found.nodes[0].run.id}`")

    connected(database, work)


@click.command()
@click.option("--after", metavar="CURSOR", help="Go on behind this event's cursor.  [default: from now on]")
@click.option("--limit", type=click.IntRange(min=1), help="End after so many events.  [default: go on for ever]")
@output_option
@takes_database
def tail(*, after: str | None, limit: int | None, output: Output, database: Database) -> None:
    """Print what happens, as it happens.

    A line each; with -o json each line is the event as JSON.
    """

    async def work(client: Client) -> None:
        left = limit
        try:
            async for happened in client.events(after):
                event = shown_event(happened)
                show_event(output, event, name=event.run_id, line=partial(_line, event))
                left = None if left is None else left - 1
                if left == 0:
                    return
        except ValueError as error:
            raise BadFields({"after": str(error)}) from error

    connected(database, work)


def _line(event: Event) -> list[Cell]:
    of = (event.run_id, event.workflow, None if event.queue is None else f"on {event.queue}")
    kind = Styled(f"{event.kind:<11}", STATUS_STYLES.get(event.kind, "bold"))
    return [Styled(time_of_day(event.at), "dim"), kind, *(each for each in of if each)]
