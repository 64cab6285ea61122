"""Queues, workers, and how much there is to do."""

from __future__ import annotations

import click

from runnerq.cli.acting import acted, reason_option
from runnerq.cli.shared import Database, connected, output_option, print_json, say, say_changed, takes_database
from runnerq.client.client import Client
from runnerq.client.values import worker_of

_CAPPED = "more runs are open than were counted: there may be more of each, and on other queues"


@click.group()
def queue() -> None:
    """Queues: what is in them, and whether it is taken up."""


@queue.command("list")
@output_option
@takes_database
def queues(output: str, database: Database) -> None:
    """List the queues that have open runs, a living worker or a pause."""

    async def work(client: Client) -> None:
        found = await client.queues.list()
        if output == "json":
            print_json(found)
        else:
            from runnerq.cli.tables import console, queues_table  # noqa: PLC0415 - rich

            console().print(queues_table(found))
            if any(each.capped for each in found):
                say(_CAPPED)

    connected(database, work)


@queue.command()
@click.argument("name")
@reason_option
@output_option
@takes_database
def pause(*, name: str, reason: str | None, output: str, database: Database) -> None:
    """Have no run of queue NAME taken up until `resume`; what is being worked on goes on."""

    async def work(client: Client) -> None:
        changed = await acted(client, "queue-pause", lambda: client.queues.pause(name), target=name, reason=reason)
        said = f"paused {name!r}" if changed else f"nothing changed: {name!r} is paused"
        say_changed(output, said, changed=changed)

    connected(database, work)


@queue.command()
@click.argument("name")
@reason_option
@output_option
@takes_database
def resume(*, name: str, reason: str | None, output: str, database: Database) -> None:
    """End the pause of queue NAME."""

    async def work(client: Client) -> None:
        changed = await acted(client, "queue-resume", lambda: client.queues.resume(name), target=name, reason=reason)
        said = f"resumed {name!r}" if changed else f"nothing changed: {name!r} is not paused"
        say_changed(output, said, changed=changed)

    connected(database, work)


@click.group()
def workers() -> None:
    """The processes that do the work."""


@workers.command("list")
@output_option
@takes_database
def worker_list(output: str, database: Database) -> None:
    """List the workers on record, those that live first."""

    async def work(client: Client) -> None:
        found = [worker_of(record) for record in await client.storage.workers()]
        if output == "json":
            print_json(found)
        else:
            from runnerq.cli.tables import console, workers_table  # noqa: PLC0415 - rich

            console().print(workers_table(found))

    connected(database, work)


@click.command()
@output_option
@takes_database
def stats(output: str, database: Database) -> None:
    """Show how much is open: by status, workflow, queue and priority, and who works on it."""

    async def work(client: Client) -> None:
        found = await client.stats()
        if output == "json":
            print_json(found)
            return
        from runnerq.cli.tables import console, depths_table  # noqa: PLC0415 - rich

        console().print(depths_table(found))
        alive = len(found.workers)
        say(f"{alive} worker{'' if alive == 1 else 's'}")
        if found.capped:
            say(_CAPPED)

    connected(database, work)
