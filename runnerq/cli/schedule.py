"""``runnerq schedule``: rules that start runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast, get_args

import click

from runnerq.cli.acting import acted, person, reason_option
from runnerq.cli.filters import before, metadata_option, moment
from runnerq.cli.masking import shown_schedule, takes_reveal
from runnerq.cli.shared import (
    Database,
    connected,
    duration,
    json_value,
    output_option,
    print_json,
    say,
    say_changed,
    takes_database,
)
from runnerq.client.client import Client
from runnerq.client.schedule import Schedule, ScheduleOptions
from runnerq.console.actions import fleet
from runnerq.console.models.context import context_of
from runnerq.console.models.redaction import Redactor
from runnerq.errors import ScheduleNotFound
from runnerq.persistence.records import Missed, Overlap, Priority


@click.group()
def schedule() -> None:
    """Schedules: rules that start runs, by cron expressions or at intervals."""


@schedule.command("list")
@takes_reveal
@output_option
@takes_database
def listing(redact: Redactor, output: str, database: Database) -> None:
    """List the schedules."""

    async def work(client: Client) -> None:
        found = [shown_schedule(redact, each) for each in await client.schedules.list()]
        if output == "json":
            print_json(found)
        else:
            from runnerq.cli.tables import console, schedules_table  # noqa: PLC0415 - rich

            console().print(schedules_table(found))

    connected(database, work)


@schedule.command()
@click.argument("name")
@takes_reveal
@output_option
@takes_database
def show(name: str, redact: Redactor, output: str, database: Database) -> None:
    """Show schedule NAME: what it starts and when, its next ticks and its last runs."""

    async def work(client: Client) -> None:
        found = await client.schedules.get(name)
        if found is None:
            raise ScheduleNotFound(name)
        found = shown_schedule(redact, found)
        if output == "json":
            print_json(found)
        else:
            from runnerq.cli.tables import console, schedule_table  # noqa: PLC0415 - rich

            console().print(schedule_table(found))

    connected(database, work)


@schedule.command("create")
@click.argument("name")
@click.argument("workflow")
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
@click.option("--queue", help="Queue of its runs.")
@click.option("--priority", type=click.Choice([each.name.lower() for each in Priority]), help="Who goes first.")
@click.option(
    "--timeout", type=duration, metavar="DURATION", help="Cancel a run that is not done so long after its start."
)
@metadata_option
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
    output: str,
    database: Database,
) -> None:
    """Make schedule NAME, which starts the workflow or activity WORKFLOW, or replace it.

    Each JSON is one argument of its runs; @file reads one from a file. Options go first, and -- before a negative
    number.
    """
    rank = None if priority is None else Priority[priority.upper()]
    given = {"queue": queue or None, "priority": rank, "timeout": timeout, "metadata": metadata}
    options = cast("ScheduleOptions", {key: value for key, value in given.items() if value is not None})
    made = Schedule(
        name, workflow, arguments, cron=cron, every=every, zone=zone, missed=missed, overlap=overlap, jitter=jitter,
        options=options,
    )  # fmt: skip

    async def work(client: Client) -> None:
        rule = {"workflow": workflow, "args": arguments, "cron": cron, "every": every, "zone": zone, "options": given}
        changed = await acted(client, "schedule-put", lambda: client.schedules.put(made), target=name, request=rule)
        said = f"put schedule {name!r}" if changed else f"nothing changed: schedule {name!r} is just like that"
        say_changed(output, said, changed=changed)

    connected(database, work, migrate=True)


schedule.add_command(create, "put")


@schedule.command()
@click.argument("name")
@reason_option
@output_option
@takes_database
def pause(*, name: str, reason: str | None, output: str, database: Database) -> None:
    """Have schedule NAME start nothing until `resume`; its runs go on."""

    async def work(client: Client) -> None:
        changed = await acted(
            client, "schedule-pause", lambda: client.schedules.pause(name), target=name, reason=reason
        )
        said = f"paused schedule {name!r}" if changed else f"nothing changed: schedule {name!r} is paused"
        say_changed(output, said, changed=changed)

    connected(database, work)


@schedule.command()
@click.argument("name")
@reason_option
@output_option
@takes_database
def resume(*, name: str, reason: str | None, output: str, database: Database) -> None:
    """End the pause of schedule NAME; it goes on with the next tick from now."""

    async def work(client: Client) -> None:
        changed = await acted(
            client, "schedule-resume", lambda: client.schedules.resume(name), target=name, reason=reason
        )
        said = f"resumed schedule {name!r}" if changed else f"nothing changed: schedule {name!r} is not paused"
        say_changed(output, said, changed=changed)

    connected(database, work)


@schedule.command()
@click.argument("name")
@reason_option
@output_option
@takes_database
def trigger(*, name: str, reason: str | None, output: str, database: Database) -> None:
    """Start one run of schedule NAME now, and print its id."""

    async def work(client: Client) -> None:
        run = await fleet.trigger_schedule(context_of(client, person()), name, reason=reason)
        if output == "json":
            print_json({"id": run.run_id})
        else:
            click.echo(run.run_id)

    connected(database, work)


@schedule.command()
@click.argument("name")
@click.option("--since", type=moment, metavar="TIME", required=True, help="From 2d (so long ago), or an ISO time, on.")
@click.option("--until", type=moment, metavar="TIME", help="Ticks before then.  [default: now]")
@output_option
@takes_database
def backfill(
    name: str, since: datetime | timedelta, until: datetime | timedelta | None, output: str, database: Database
) -> None:
    """Start a run of schedule NAME for each tick of a span that has none."""

    async def work(client: Client) -> None:
        begin, end = [await before(client.storage, at) for at in (since, until or timedelta())]
        count = (await fleet.backfill_schedule(context_of(client, person()), name, begin, end)).count or 0
        if output == "json":
            print_json({"count": count})
        else:
            say(f"started {count} run{'' if count == 1 else 's'} of schedule {name!r}")

    connected(database, work)


@schedule.command()
@click.argument("name")
@reason_option
@output_option
@takes_database
def delete(*, name: str, reason: str | None, output: str, database: Database) -> None:
    """Delete schedule NAME; its runs go on."""

    async def work(client: Client) -> None:
        changed = await acted(
            client, "schedule-delete", lambda: client.schedules.delete(name), target=name, reason=reason
        )
        said = f"deleted schedule {name!r}" if changed else f"nothing changed: there is no schedule {name!r}"
        say_changed(output, said, changed=changed)

    connected(database, work)
