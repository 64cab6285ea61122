"""The verbs that put a run right: terminate, retry, fork."""

from __future__ import annotations

import click

from runnerq.cli.shared import (
    Database,
    Refused,
    connected,
    output_option,
    print_json,
    run_id,
    say_changed,
    takes_database,
)
from runnerq.client.client import Client


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@output_option
@takes_database
def terminate(run_id: str, output: str, database: Database) -> None:
    """End a run at once as cancelled, without running any of its code."""

    async def work(client: Client) -> None:
        changed = await client.terminate(run_id)
        status = (await client.info(run_id)).status
        said = f"terminated {run_id}" if changed else f"nothing changed: {run_id} is {status}"
        say_changed(output, said, changed=changed)

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.option(
    "--accept",
    type=click.Choice(["arguments"]),
    help="Let a run that is blocked by changed arguments alone go on with those of today's code.",
)
@output_option
@takes_database
def retry(*, run_id: str, accept: str | None, output: str, database: Database) -> None:
    """Let a failed, dead-lettered or blocked run go on, from the entry that failed."""

    async def work(client: Client) -> None:
        changed = await client.retry(run_id, accept="arguments" if accept else None)
        status = (await client.info(run_id)).status
        said = f"{run_id} goes on" if changed else f"nothing changed: {run_id} is {status} by now"
        say_changed(output, said, changed=changed)

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.option(
    "--from-entry", required=True, metavar="POSITION", help="The first entry to be done anew, as `history` shows it."
)
@output_option
@takes_database
def fork(run_id: str, from_entry: str, output: str, database: Database) -> None:
    """Start a new run with a copy of this one's journal up to an entry, and print its id."""

    async def work(client: Client) -> None:
        try:
            forked = await client.fork(run_id, from_entry=from_entry)
        except ValueError as error:
            raise Refused(str(error), 2) from error
        if output == "json":
            print_json({"id": forked.id, "forked_from": run_id})
        else:
            click.echo(forked.id)

    connected(database, work)
