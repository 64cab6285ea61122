"""Queues, workers, and how everything is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import click

from runnerq.cli.acting import context, reason_option
from runnerq.cli.commands import Noun
from runnerq.cli.completing import known_queues
from runnerq.cli.fleet_tables import overview_sheet, queue_sheet, queues_table, worker_fields, workers_table
from runnerq.cli.output import Output, output_option, show_done, show_list, show_one
from runnerq.cli.shared import Database, Refused, connected, duration, takes_database
from runnerq.cli.telling import say
from runnerq.client.client import Client
from runnerq.console.actions import fleet as actions
from runnerq.console.actions.doing import Done
from runnerq.console.models.context import Context
from runnerq.console.models.overview import overview
from runnerq.console.models.queues import queue as read_queue
from runnerq.console.models.queues import queues as read_queues
from runnerq.console.models.workers import worker as read_worker
from runnerq.console.models.workers import workers as read_workers

LOOK = 0.1
"""Seconds between two looks at a worker that is to leave."""

_CAPPED = "more runs are open than were counted: there may be more of each, and on other queues"


def act(database: Database, output: Output, name: str, action: Callable[[Context], Awaitable[Done]]) -> None:
    """Do it as the console does, and tell what came of it; ``name`` is what it is done to."""

    async def work(client: Client) -> None:
        done = await action(context(client))
        show_done(output, done, done.told, name=done.run_id or name)

    connected(database, work)


# --- queues -----------------------------------------------------------------------------------------------------------


@click.group(cls=Noun)
def queue() -> None:
    """Queues: what is in them, and whether it is taken up."""


@queue.command("list")
@output_option
@takes_database
def queues(output: Output, database: Database) -> None:
    """List the queues that have open runs, a living worker or a pause."""

    async def work(client: Client) -> None:
        found = await read_queues(context(client))
        show_list(output, found, found, name=lambda each: each.name, table=lambda: queues_table(found))
        if any(each.capped for each in found):
            say(_CAPPED)

    connected(database, work)


@queue.command("show")
@click.argument("name", shell_complete=known_queues)
@output_option
@takes_database
def queue_show(name: str, output: Output, database: Database) -> None:
    """Show queue NAME: what is open on it by type, and who works on it."""

    async def work(client: Client) -> None:
        found = await read_queue(context(client), name)
        show_one(output, found, name=name, table=lambda: queue_sheet(found))
        if found.queue.capped:
            say(_CAPPED)

    connected(database, work)


@queue.command()
@click.argument("name", shell_complete=known_queues)
@reason_option
@output_option
@takes_database
def pause(*, name: str, reason: str | None, output: Output, database: Database) -> None:
    """Have no run of queue NAME taken up until `resume`; what is being worked on goes on."""
    act(database, output, name, lambda here: actions.pause_queue(here, name, reason=reason))


@queue.command()
@click.argument("name", shell_complete=known_queues)
@reason_option
@output_option
@takes_database
def resume(*, name: str, reason: str | None, output: Output, database: Database) -> None:
    """End the pause of queue NAME."""
    act(database, output, name, lambda here: actions.resume_queue(here, name, reason=reason))


# --- workers ----------------------------------------------------------------------------------------------------------


@click.group(cls=Noun)
def workers() -> None:
    """The processes that do the work."""


@workers.command("list")
@click.option("--alive", is_flag=True, help="Only those that live.")
@output_option
@takes_database
def worker_list(*, alive: bool, output: Output, database: Database) -> None:
    """List the workers on record, those that live first."""

    async def work(client: Client) -> None:
        all_ = await read_workers(context(client))
        found = tuple(worker for worker in all_ if worker.state == "alive" or not alive)
        show_list(output, found, found, name=lambda each: each.id, table=lambda: workers_table(found))

    connected(database, work)


@workers.command("show")
@click.argument("worker_id", metavar="ID")
@output_option
@takes_database
def worker_show(worker_id: str, output: Output, database: Database) -> None:
    """Show worker ID: what it serves, what it has in hand, and how it is."""

    async def work(client: Client) -> None:
        found = await read_worker(context(client), worker_id)
        show_one(output, found, name=found.id, table=lambda: worker_fields(found))

    connected(database, work)


@workers.command()
@click.argument("worker_id", metavar="ID")
@click.option(
    "--wait", type=duration, metavar="DURATION", help="Until it has left; exit code 124 if it has not by then."
)
@reason_option
@output_option
@takes_database
def drain(*, worker_id: str, wait: float | None, reason: str | None, output: Output, database: Database) -> None:
    """Have worker ID stop in order: it claims no more, lets what runs end, and gives back the rest.

    Its next beat tells it, so within a second or two. It stays away: `worker --processes` starts none in its place,
    `worker --reload` and `dev` start one at the next save. What starts whatever ends, such as Kubernetes, does so here.
    """

    async def drained(here: Context) -> Done:
        done = await actions.drain_worker(here, worker_id, reason=reason)
        if wait is not None:
            await _left(here, worker_id, wait)
        return done

    act(database, output, worker_id, drained)


async def _left(here: Context, worker_id: str, patience: float) -> None:
    try:
        async with asyncio.timeout(patience):
            while (await read_worker(here, worker_id)).state in {"alive", "silent"}:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(LOOK)
    except TimeoutError:
        raise Refused(f"worker {worker_id} was asked to stop, and has not left within {patience:g} s", 124) from None


# --- all --------------------------------------------------------------------------------------------------------------


@click.command()
@output_option
@takes_database
def stats(output: Output, database: Database) -> None:
    """Show how much is open, who works on it, and what needs somebody."""

    async def work(client: Client) -> None:
        found = await overview(context(client))
        show_one(output, found, name=None, table=lambda: overview_sheet(found))
        for alert in found.alerts:
            say(f"{alert.level}: {alert.text}")

    connected(database, work)
