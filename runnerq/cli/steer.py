"""The verbs that change when and in what order a run is done, and whether it is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from runnerq.cli.filters import moment
from runnerq.cli.shared import Database, connected, run_id, say, takes_database
from runnerq.client.client import Client
from runnerq.persistence.records import Priority


@click.command("run-now")
@click.argument("run_id", metavar="ID", type=run_id)
@takes_database
def run_now(run_id: str, database: Database) -> None:
    """Have a delayed run, or the next attempt of one that failed, begin now."""

    async def work(client: Client) -> None:
        if await client.run_now(run_id):
            say(f"{run_id} is due now")
        else:
            say(f"nothing changed: {run_id} is {(await client.info(run_id)).status}")

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.argument("at", metavar="TIME", type=moment)
@takes_database
def reschedule(run_id: str, at: datetime | timedelta, database: Database) -> None:
    """Have a pending run become due at another TIME: 10m from now, or an ISO time (UTC unless it says otherwise)."""

    async def work(client: Client) -> None:
        due = await client.storage.now() + at if isinstance(at, timedelta) else at
        changed = await client.reschedule(run_id, due)
        say(f"{run_id} is due at {due.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}" + ("" if changed else ", as it was"))

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.argument("level", type=click.Choice([each.name.lower() for each in Priority]))
@takes_database
def priority(run_id: str, level: str, database: Database) -> None:
    """Change the priority of a run that has not ended."""

    async def work(client: Client) -> None:
        changed = await client.set_priority(run_id, Priority[level.upper()])
        say(f"{run_id} has priority {level}" + ("" if changed else ", as before"))

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@takes_database
def delete(run_id: str, database: Database) -> None:
    """Delete a run that has ended, with all below it, for good."""

    async def work(client: Client) -> None:
        if await client.delete(run_id):
            say(f"deleted {run_id}")
        else:
            say(f"nothing changed: {run_id} is being deleted")

    connected(database, work)
