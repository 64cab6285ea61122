"""The verbs that change when and in what order a run is done, and whether it is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from runnerq.cli.acting import acted, reason_option
from runnerq.cli.filters import behind, moment
from runnerq.cli.shared import Database, connected, output_option, run_id, say_changed, takes_database
from runnerq.client.client import Client
from runnerq.persistence.records import Priority


@click.command("run-now")
@click.argument("run_id", metavar="ID", type=run_id)
@reason_option
@output_option
@takes_database
def run_now(*, run_id: str, reason: str | None, output: str, database: Database) -> None:
    """Have a delayed run, or the next attempt of one that failed, begin now."""

    async def work(client: Client) -> None:
        changed = await acted(client, "run-now", lambda: client.run_now(run_id), run_id=run_id, reason=reason)
        status = (await client.info(run_id)).status
        said = f"{run_id} is due now" if changed else f"nothing changed: {run_id} is {status}"
        say_changed(output, said, changed=changed)

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.argument("at", metavar="TIME", type=moment)
@reason_option
@output_option
@takes_database
def reschedule(*, run_id: str, at: datetime | timedelta, reason: str | None, output: str, database: Database) -> None:
    """Have a pending run become due at another TIME: 10m from now, or an ISO time (UTC unless it says otherwise)."""

    async def work(client: Client) -> None:
        due = await behind(client.storage, at)
        changed = await acted(
            client, "reschedule", lambda: client.reschedule(run_id, due),
            run_id=run_id, reason=reason, request={"at": due},
        )  # fmt: skip
        said = f"{run_id} is due at {due.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}" + ("" if changed else ", as it was")
        say_changed(output, said, changed=changed)

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.argument("level", type=click.Choice([each.name.lower() for each in Priority]))
@reason_option
@output_option
@takes_database
def priority(*, run_id: str, level: str, reason: str | None, output: str, database: Database) -> None:
    """Change the priority of a run that has not ended."""

    async def work(client: Client) -> None:
        changed = await acted(
            client, "priority", lambda: client.set_priority(run_id, Priority[level.upper()]),
            run_id=run_id, reason=reason, request={"priority": level},
        )  # fmt: skip
        said = f"{run_id} has priority {level}" + ("" if changed else ", as before")
        say_changed(output, said, changed=changed)

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@reason_option
@output_option
@takes_database
def delete(*, run_id: str, reason: str | None, output: str, database: Database) -> None:
    """Delete a run that has ended, with all below it, for good."""

    async def work(client: Client) -> None:
        changed = await acted(client, "delete", lambda: client.delete(run_id), run_id=run_id, reason=reason)
        said = f"deleted {run_id}" if changed else f"nothing changed: {run_id} is being deleted"
        say_changed(output, said, changed=changed)

    connected(database, work)
