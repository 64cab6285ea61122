"""``runnerq schedule``: rules that start runs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from datetime import datetime, timedelta
from typing import Any, get_args

import click

from runnerq.cli.acting import context, reason_option
from runnerq.cli.commands import Noun
from runnerq.cli.completing import known_queues, known_schedules, known_workflows
from runnerq.cli.filters import before, metadata_option, moment
from runnerq.cli.fleet import act
from runnerq.cli.fleet_tables import schedule_fields, schedules_table
from runnerq.cli.masking import takes_reveal
from runnerq.cli.output import Output, output_option, show_done, show_list, show_one
from runnerq.cli.shared import Database, connected, duration, json_value, takes_database
from runnerq.client.client import Client
from runnerq.console.actions import fleet as actions
from runnerq.console.actions.fleet import ScheduleRequest
from runnerq.console.models.redaction import Redactor
from runnerq.console.models.schedules import schedule as read_schedule
from runnerq.console.models.schedules import schedules as read_schedules
from runnerq.persistence.records import Missed, Overlap, Priority


@click.group(cls=Noun)
def schedule() -> None:
    """Schedules: rules that start runs, by cron expressions or at intervals."""


# --- looking ----------------------------------------------------------------------------------------------------------


@schedule.command("list")
@takes_reveal
@output_option
@takes_database
def listing(redact: Redactor, output: Output, database: Database) -> None:
    """List the schedules."""

    async def work(client: Client) -> None:
        found = await read_schedules(context(client, redact))
        show_list(output, found, found, name=lambda each: each.name, table=lambda: schedules_table(found))

    connected(database, work)


@schedule.command()
@click.argument("name", shell_complete=known_schedules)
@takes_reveal
@output_option
@takes_database
def show(name: str, redact: Redactor, output: Output, database: Database) -> None:
    """Show schedule NAME: what it starts and when, its next ticks and its last runs."""

    async def work(client: Client) -> None:
        found = await read_schedule(context(client, redact), name)
        show_one(output, found, name=found.name, table=lambda: schedule_fields(found))

    connected(database, work)


# --- changing ---------------------------------------------------------------------------------------------------------


@schedule.command("create")
@click.argument("name", shell_complete=known_schedules)
@click.argument("workflow", shell_complete=known_workflows)
@click.argument("arguments", metavar="[JSON]...", nargs=-1, type=json_value)
@click.option("--cron", metavar="EXPRESSION", help="Five fields: '30 3 * * MON-FRI'.")
@click.option("--every", type=duration, metavar="DURATION", help="In place of --cron: 10s, 5m, 2h.")
@click.option("--zone", default="UTC", show_default=True, help="Time zone of --cron, such as Europe/Berlin.")
@click.option(
    "--missed",
    type=click.Choice(get_args(Missed)),
    default="once",
    show_default=True,
    help="Ticks that nobody was up for.",
)
@click.option(
    "--overlap", type=click.Choice(get_args(Overlap)), default="skip", show_default=True,
    help="A tick while an earlier run is open.",
)  # fmt: skip
@click.option("--jitter", type=duration, metavar="DURATION", help="Begin each run up to so much later.")
@click.option("--queue", help="Queue of its runs.", shell_complete=known_queues)
@click.option("--priority", type=click.Choice([each.name.lower() for each in Priority]), help="Who goes first.")
@click.option(
    "--timeout", type=duration, metavar="DURATION", help="Cancel a run that is not done so long after its start."
)
@metadata_option
@click.option("--unchecked", is_flag=True, help="Also where no registered version of WORKFLOW takes these arguments.")
@reason_option
@output_option
@takes_database
def create(
    *,
    name: str,
    workflow: str,
    arguments: tuple[Any, ...],
    cron: str | None,
    every: float | None,
    zone: str,
    missed: Missed,
    overlap: Overlap,
    jitter: float | None,
    queue: str | None,
    priority: str | None,
    timeout: float | None,
    metadata: Mapping[str, str] | None,
    unchecked: bool,
    reason: str | None,
    output: Output,
    database: Database,
) -> None:
    """Make schedule NAME, which starts the workflow or activity WORKFLOW, or replace it.

    Each JSON is one argument of its runs; @file reads one from a file. Write -- before a negative number.
    """
    request = ScheduleRequest(
        name=name, workflow=workflow, args=arguments, cron=cron, every=every, zone=zone, missed=missed, overlap=overlap,
        jitter=jitter, queue=queue or None, priority=priority, timeout=timeout, metadata=metadata, unchecked=unchecked,
    )  # fmt: skip

    async def work(client: Client) -> None:
        done = await actions.put_schedule(context(client), request, reason=reason)
        show_done(output, done, done.told, name=name)

    connected(database, work, migrate=True)


put = copy(create)
"""The other name of it."""
put.name, put.help = "put", "The same as `create`."
schedule.add_command(put)


@schedule.command()
@click.argument("name", shell_complete=known_schedules)
@reason_option
@output_option
@takes_database
def pause(*, name: str, reason: str | None, output: Output, database: Database) -> None:
    """Have schedule NAME start nothing until `resume`; its runs go on."""
    act(database, output, name, lambda here: actions.pause_schedule(here, name, reason=reason))


@schedule.command()
@click.argument("name", shell_complete=known_schedules)
@reason_option
@output_option
@takes_database
def resume(*, name: str, reason: str | None, output: Output, database: Database) -> None:
    """End the pause of schedule NAME; it goes on with the next tick from now."""
    act(database, output, name, lambda here: actions.resume_schedule(here, name, reason=reason))


@schedule.command()
@click.argument("name", shell_complete=known_schedules)
@reason_option
@output_option
@takes_database
def trigger(*, name: str, reason: str | None, output: Output, database: Database) -> None:
    """Start one run of schedule NAME now, and print its id."""

    async def work(client: Client) -> None:
        done = await actions.trigger_schedule(context(client), name, reason=reason)
        run_id = str(done.run_id)
        show_one(output, done, name=run_id, table=lambda: run_id)

    connected(database, work)


@schedule.command()
@click.argument("name", shell_complete=known_schedules)
@click.option("--since", type=moment, metavar="TIME", required=True, help="From 2d (so long ago), or an ISO time, on.")
@click.option("--until", type=moment, metavar="TIME", help="Ticks before then.  [default: now]")
@reason_option
@output_option
@takes_database
def backfill(
    *,
    name: str,
    since: datetime | timedelta,
    until: datetime | timedelta | None,
    reason: str | None,
    output: Output,
    database: Database,
) -> None:
    """Start a run of schedule NAME for each tick of a span that has none."""

    async def work(client: Client) -> None:
        begin, end = [await before(client.storage, at) for at in (since, until or timedelta())]
        done = await actions.backfill_schedule(context(client), name, begin, end, reason=reason)
        show_done(output, done, done.told, name=name)

    connected(database, work)


@schedule.command()
@click.argument("name", shell_complete=known_schedules)
@reason_option
@output_option
@takes_database
def delete(*, name: str, reason: str | None, output: Output, database: Database) -> None:
    """Delete schedule NAME; its runs go on."""
    act(database, output, name, lambda here: actions.delete_schedule(here, name, reason=reason))
