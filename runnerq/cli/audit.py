"""``runnerq audit``: who did what, and what came of it."""

from __future__ import annotations

import click
import msgspec

from runnerq.cli.shared import Database, connected, output_option, print_json, run_id, say, takes_database
from runnerq.client.audit import AuditEntry
from runnerq.client.client import Client
from runnerq.console.models.redaction import Spot, mask


@click.command()
@click.option("--run", "of_run", metavar="ID", type=run_id, help="What was done to this run.")
@click.option("--principal", metavar="NAME", help="What somebody did.")
@click.option("--action", metavar="NAME", help="Such as cancel, start or queue-pause.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", type=run_id, help="The 'next' of the page before.")
@output_option
@takes_database
def audit(
    *,
    of_run: str | None,
    principal: str | None,
    action: str | None,
    limit: int,
    cursor: str | None,
    output: str,
    database: Database,
) -> None:
    """List what people did through the console, its API or this command line, newest first."""

    async def work(client: Client) -> None:
        page = await client.audit.list(limit, cursor, run_id=of_run, principal=principal, action=action)
        if output == "json":
            # Whoever wrote it may not have masked it.
            print_json(msgspec.structs.replace(page, items=[_shown(entry) for entry in page.items]))
            return
        from runnerq.cli.tables import audit_table, console  # noqa: PLC0415 - rich

        console().print(audit_table(page.items))
        if page.next is not None:
            say(f"more: --cursor {page.next}")

    connected(database, work)


def _shown(entry: AuditEntry) -> AuditEntry:
    request = mask(Spot("signal", entry.run_id or "", entry.target or ""), entry.request)
    return msgspec.structs.replace(entry, request=request)
