"""``runnerq audit``: who did what, and what came of it."""

from __future__ import annotations

import click
import msgspec

from runnerq.cli.acting import context
from runnerq.cli.completing import known_runs
from runnerq.cli.filters import ON_A_PAGE, limit_option
from runnerq.cli.fleet_tables import audit_table
from runnerq.cli.output import Output, for_pipes, output_option, show_list
from runnerq.cli.picking import Pick, pick
from runnerq.cli.shared import Database, connected, takes_database
from runnerq.cli.telling import say
from runnerq.client.client import Client
from runnerq.console.api.fleet import list_audit
from runnerq.console.api.shapes import Audited, AuditParams
from runnerq.console.models.context import Context


@click.command()
@click.option("--run", metavar="ID", type=pick, shell_complete=known_runs, help="What was done to this run.")
@click.option("--principal", metavar="NAME", help="What somebody did.")
@click.option("--action", metavar="NAME", help="Such as cancel, start or queue-pause.")
@limit_option
@click.option("--cursor", help="The 'next_cursor' of the page before, with the same conditions.")
@output_option
@takes_database
def audit(
    *,
    run: Pick | None,
    principal: str | None,
    action: str | None,
    limit: int | None,
    cursor: str | None,
    output: Output,
    database: Database,
) -> None:
    """List what people did, newest first: through the console, its API or this command line."""

    async def work(client: Client) -> None:
        here = context(client)
        about = None if run is None else await run.find(client)
        wanted = AuditParams(run_id=about, principal=principal, action=action, limit=limit or ON_A_PAGE, cursor=cursor)
        found = await _show_page(here, wanted, output)
        while for_pipes(output) and limit is None and found.next_cursor is not None:
            found = await _show_page(here, msgspec.structs.replace(wanted, cursor=found.next_cursor), output)
        if found.next_cursor is not None:
            say(f"more: --cursor {found.next_cursor}")

    connected(database, work)


async def _show_page(here: Context, wanted: AuditParams, output: Output) -> Audited:
    found: Audited = await list_audit.do(here, wanted)
    show_list(output, found, found.items, name=lambda row: row.id, table=lambda: audit_table(found.items))
    return found
