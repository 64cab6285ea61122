"""The verbs about runs: start, send, show, history, list, cancel, result."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, get_args

import click
import msgspec

from runnerq.cli.acting import acted, person
from runnerq.cli.filters import Which, behind, metadata_option, moment, status_option, statuses, takes_filter
from runnerq.cli.masking import shown_entry, shown_info, takes_reveal
from runnerq.cli.shared import (
    Database,
    Refused,
    connected,
    duration,
    json_value,
    output_option,
    print_json,
    run_id,
    say,
    say_changed,
    takes_database,
)
from runnerq.cli.shown import look
from runnerq.client.client import Client
from runnerq.client.info import Page, RunInfo
from runnerq.console.actions import runs as actions
from runnerq.console.actions.runs import StartRequest
from runnerq.console.models.context import context_of
from runnerq.console.models.redaction import Redactor
from runnerq.errors import ResultTimeout
from runnerq.persistence.records import OnDuplicate, Priority

FOREVER = "forever"


class Wait(msgspec.Struct, frozen=True):
    """A wait for a result: so many seconds, or, where None, until it is there."""

    limit: float | None


def _waiting(_: click.Context, __: click.Parameter, text: str | None) -> Wait | None:
    if text is None or text == FOREVER:
        return None if text is None else Wait(None)
    try:
        return Wait(duration(text))
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message}; put --wait last, or write --wait=30s") from error


wait_option = click.option(
    "--wait",
    metavar="[DURATION]",
    is_flag=False,
    flag_value=FOREVER,
    callback=_waiting,
    help="Wait for the result, and print it as JSON; --wait=30s waits so long (exit code 124 after it).",
)


@click.command()
@click.argument("name")
@click.argument("arguments", metavar="[JSON]...", nargs=-1, type=json_value)
@click.option("--key", help="Idempotency key: one run for each.")
@click.option(
    "--on-duplicate", type=click.Choice(get_args(OnDuplicate)), help="If a run has the key.  [default: return_existing]"
)
@click.option("--queue", help="Queue to start it on.")
@click.option("--delay", type=duration, metavar="DURATION", help="Start it so much later: 30s, 5m, 2h.")
@click.option("--at", type=moment, metavar="TIME", help="Start it at this time: an ISO time, or so long from now.")
@click.option("--priority", type=click.Choice([each.name.lower() for each in Priority]), help="Who goes first.")
@click.option(
    "--timeout", type=duration, metavar="DURATION", help="Cancel it if it is not done so long after its start."
)
@metadata_option
@wait_option
@output_option
@takes_database
def start(
    *,
    name: str,
    arguments: tuple[Any, ...],
    key: str | None,
    on_duplicate: OnDuplicate | None,
    queue: str | None,
    delay: float | None,
    at: datetime | timedelta | None,
    priority: str | None,
    timeout: float | None,
    metadata: Mapping[str, str] | None,
    wait: Wait | None,
    output: str,
    database: Database,
) -> None:
    """Start the workflow or activity NAME, and print its id.

    Each JSON is one argument; @file reads one from a file. Options go first, and -- before a negative number.
    """
    if key == "":
        raise click.UsageError("--key is empty: leave it out to start a run without one")
    if on_duplicate is not None and key is None:
        raise click.UsageError("--on-duplicate says what to do with a key that is taken: give --key as well")

    async def work(client: Client) -> None:
        due = None if at is None else await behind(client.storage, at)
        request = StartRequest(
            name=name, args=arguments, key=key, on_duplicate=on_duplicate, queue=queue or None, delay=delay, at=due,
            priority=priority, timeout=timeout, metadata=metadata,
        )  # fmt: skip
        run = await actions.start(context_of(client, person()), request)
        if not run.created:
            say(f"key {key!r} is held by this run, which was there before")
        if wait is None:
            if output == "json":
                print_json({"id": run.run_id, "created": run.created})
            else:
                click.echo(run.run_id)
        else:
            say(f"started {run.run_id}")
            print_json(await client.handle(str(run.run_id)).result(wait.limit))

    connected(database, work, migrate=True)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.argument("channel")
@click.argument("value", metavar="[JSON]", type=json_value, required=False)
@click.option("--dedup", help="Send it once: later signals of the same run, channel and dedup id are dropped.")
@takes_database
def send(run_id: str, channel: str, value: Any, dedup: str | None, database: Database) -> None:
    """Send a signal with a JSON value (null without one) to a run. Write -- before a negative number."""

    async def work(client: Client) -> None:
        sent = await acted(
            client, "send", lambda: client.send(run_id, channel, value, dedup=dedup or None),
            run_id=run_id, request={"channel": channel, "value": value, "dedup": dedup or None},
        )  # fmt: skip
        said = f"sent {channel!r} to {run_id}"
        say(said if sent else f"nothing changed: {channel!r} was sent to {run_id} with --dedup {dedup!r} before")

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@takes_reveal
@output_option
@takes_database
def show(run_id: str, redact: Redactor, output: str, database: Database) -> None:
    """Show a run: what it is, what it does, what it waits for, how it ended."""

    async def work(client: Client) -> None:
        shown = await look(client, run_id, redact)
        if output == "json":
            print_json({**msgspec.structs.asdict(shown.info), **shown.beside()})
        else:
            from runnerq.cli.tables import console, run_table  # noqa: PLC0415 - rich

            console().print(run_table(shown))

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.option("--generation", type=click.IntRange(min=1), help="An earlier generation.")
@takes_reveal
@output_option
@takes_database
def history(run_id: str, generation: int | None, redact: Redactor, output: str, database: Database) -> None:
    """Print a run's journal: what it asked for, and what came of it."""

    async def work(client: Client) -> None:
        try:
            entries = await client.history(run_id, generation)
        except ValueError as error:
            raise Refused(str(error), 2) from error
        workflow = (await client.info(run_id)).workflow
        entries = [shown_entry(redact, run_id, workflow, entry) for entry in entries]
        if output == "json":
            print_json(entries)
        else:
            from runnerq.cli.tables import console, history_table  # noqa: PLC0415 - rich

            console().print(history_table(entries))

    connected(database, work)


@click.command("list")
@status_option
@takes_filter
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", type=run_id, help="The 'next' of the page before.")
@takes_reveal
@output_option
@takes_database
def listing(
    *,
    status: tuple[str, ...],
    which: Which,
    limit: int,
    cursor: str | None,
    redact: Redactor,
    output: str,
    database: Database,
) -> None:
    """List runs, newest first."""

    async def work(client: Client) -> None:
        wanted = await which.now(client.storage, statuses(status))
        print_page(await client.list(wanted, limit, cursor), redact, output)

    connected(database, work)


def print_page(found: Page[RunInfo], redact: Redactor, output: str) -> None:
    """Some of a listing without what is masked, and how to get the rest."""
    page = Page([shown_info(redact, info) for info in found.items], found.next)
    if output == "json":
        print_json(page)
        return
    from runnerq.cli.tables import console, runs_table  # noqa: PLC0415 - rich

    console().print(runs_table(page.items))
    if not page.items:
        say("no runs")
    if page.next is not None:
        say(f"more: --cursor {page.next}")


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.option("--reason", help="Kept with the run.")
@output_option
@takes_database
def cancel(*, run_id: str, reason: str | None, output: str, database: Database) -> None:
    """Ask a run to cancel; it may clean up first."""

    async def work(client: Client) -> None:
        changed = await acted(client, "cancel", lambda: client.cancel(run_id, reason), run_id=run_id, reason=reason)
        status = (await client.info(run_id)).status
        before = "" if status.ended else ", and was asked before"
        said = f"asked {run_id} to cancel" if changed else f"nothing changed: {run_id} is {status}{before}"
        say_changed(output, said, changed=changed)

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@wait_option
@takes_database
def result(run_id: str, wait: Wait | None, database: Database) -> None:
    """Print a run's result as JSON. Without --wait, a run that goes on is exit code 124."""

    async def work(client: Client) -> None:
        try:
            print_json(await client.handle(run_id).result(0 if wait is None else wait.limit))
        except ResultTimeout as error:
            if wait is None:
                raise Refused(f"run {run_id} is {error.status}: add --wait to wait for its result", 124) from error
            raise

    connected(database, work)
