"""Looking at runs: list, show, history, result."""

from __future__ import annotations

from typing import Literal, TypeAlias

import click
import msgspec

from runnerq.cli.acting import context
from runnerq.cli.ending import Wait, ended, wait_option
from runnerq.cli.filters import MOST_ON_A_PAGE, status_option, takes_page, takes_query
from runnerq.cli.masking import shown_entry, takes_reveal
from runnerq.cli.output import Output, for_pipes, output_option, print_json, print_line, show_list, show_one
from runnerq.cli.picking import Pick, takes_run
from runnerq.cli.shared import Database, connected, takes_database
from runnerq.cli.tables import history_table, rows_table, run_fields, runs_table
from runnerq.cli.telling import say
from runnerq.cli.watching import follow_entries
from runnerq.client.client import Client
from runnerq.console.api.runs import get_history, get_run, runs_of
from runnerq.console.api.shapes import HistoryParams, Runs
from runnerq.console.models import runs as models
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields, RunQuery
from runnerq.console.models.history import HistoryPage
from runnerq.console.models.redaction import Redactor
from runnerq.console.models.run import RunDetail
from runnerq.persistence.records import Status

View: TypeAlias = Literal["compact", "full", "json"]


@click.command("list")
@status_option
@takes_query
@takes_page
@takes_reveal
@output_option
@takes_database
def listing(*, query: RunQuery, limited: bool, redact: Redactor, output: Output, database: Database) -> None:
    """List runs, newest first."""
    connected(database, lambda client: show_runs(context(client, redact), query, output, limited=limited))


async def show_runs(here: Context, query: RunQuery, output: Output, *, limited: bool) -> None:
    """A page of the runs that fit, and on stderr how to get the rest; for a pipe, all of them."""
    whole = for_pipes(output) and not limited
    if whole:
        query = msgspec.structs.replace(query, limit=MOST_ON_A_PAGE)
    found = await _show_page(here, query, output)
    while whole and found.next_cursor is not None:
        found = await _show_page(here, msgspec.structs.replace(query, cursor=found.next_cursor), output)
    if found.searched_to is not None:
        say(f"searched down to {found.searched_to:%Y-%m-%d %H:%M:%SZ}, where so many runs had been looked at")
    elif not found.items and query.cursor is None:
        say("no runs")
    if found.next_cursor is not None:
        say(f"more: --cursor {found.next_cursor}")


async def _show_page(here: Context, query: RunQuery, output: Output) -> Runs:
    found = runs_of(await models.list_runs(here, query))
    show_list(output, found, found.items, name=lambda run: run.id, table=lambda: runs_table(found.items, found.now))
    return found


@click.command()
@takes_run
@takes_reveal
@output_option
@takes_database
def show(*, run: Pick, redact: Redactor, output: Output, database: Database) -> None:
    """Show a run: what it is, what it does, what it waits for, how it ended."""

    async def work(client: Client) -> None:
        found: RunDetail = await get_run.do(context(client, redact), await run.find(client))
        show_one(output, found, name=found.run.id, table=lambda: run_fields(found))

    connected(database, work)


@click.command()
@takes_run
@click.option("--generation", type=click.IntRange(min=1), help="An earlier generation.")
@click.option(
    "--view",
    type=click.Choice(["compact", "full", "json"]),
    default="compact",
    show_default=True,
    help="Entries, one a command; rows, as they are stored; or entries as JSON with their values uncut.",
)
@click.option(
    "--page",
    type=click.IntRange(min=1),
    help="Of 500 entries or rows.  [default: 1; all of them with -o id and -o jsonl]",
)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended, an entry a line.")
@takes_reveal
@output_option
@takes_database
def history(
    *,
    run: Pick,
    generation: int | None,
    view: View,
    page: int | None,
    follow: bool,
    redact: Redactor,
    output: Output,
    database: Database,
) -> None:
    """Print a run's journal: what it asked for, and what came of it."""
    if follow and (view != "compact" or generation is not None or page is not None):
        raise click.UsageError("--follow shows the entries of the present generation from the first on, no others")

    async def work(client: Client) -> None:
        here, run_id = context(client, redact), await run.find(client)
        if follow:
            await follow_entries(here, run_id, output)
        elif view == "json":
            await _print_whole(here, run_id, generation, output)
        else:
            wanted = HistoryParams(generation=generation, view=view, page=page or 1)
            found: HistoryPage = await get_history.do(here, run_id, wanted)
            _show_history(found, output)
            while for_pipes(output) and page is None and wanted.page < found.pages:
                wanted = msgspec.structs.replace(wanted, page=wanted.page + 1)
                found = await get_history.do(here, run_id, wanted)
                _show_history(found, output)
            record = await client.storage.run(run_id)
            if record is not None and record.status is Status.BLOCKED:
                say(f"it is blocked, and goes no further: `runnerq why {run_id}` says by what")

    connected(database, work)


def _show_history(found: HistoryPage, output: Output) -> None:
    if found.view == "full":
        show_list(output, found, found.rows, name=lambda row: row.position, table=lambda: rows_table(found.rows))
    else:
        entries = found.entries
        show_list(output, found, entries, name=lambda entry: entry.position, table=lambda: history_table(entries))
    if found.sealed is not None:
        say(found.sealed)
    elif not (found.rows or found.entries):
        say("nothing is on record: `runnerq why ID` says what it waits for, and which attempts an activity has made")
    if found.page < found.pages and not for_pipes(output):
        say(f"more: --page {found.page + 1} of {found.pages}")


async def _print_whole(here: Context, run_id: str, generation: int | None, output: Output) -> None:
    try:
        entries = await here.client.history(run_id, generation)
    except ValueError as error:
        raise BadFields({"generation": str(error)}) from error
    workflow = (await here.client.info(run_id)).workflow
    shown = [shown_entry(here.redact, run_id, workflow, entry) for entry in entries]
    if output == "jsonl":
        for entry in shown:
            print_line(entry)
    else:
        print_json(shown)


@click.command()
@takes_run
@wait_option
@takes_reveal
@output_option
@takes_database
def result(*, run: Pick, wait: Wait | None, redact: Redactor, output: Output, database: Database) -> None:
    """Print a run's result as JSON.

    Without --wait, a run that goes on is exit code 124. With -o json it is the API's answer, which says how the run
    ended as well, and masks.
    """

    async def work(client: Client) -> int:
        return await ended(context(client, redact), await run.find(client), wait, output)

    click.get_current_context().exit(connected(database, work))
