"""The verbs that put a run right: terminate, retry, fork."""

from __future__ import annotations

import click

from runnerq.cli.acting import acted, person, reason_option
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
from runnerq.client.reopening import Accept
from runnerq.console.actions import runs as actions
from runnerq.console.models.context import context_of
from runnerq.console.models.filters import BadFields


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@reason_option
@output_option
@takes_database
def terminate(*, run_id: str, reason: str | None, output: str, database: Database) -> None:
    """End a run at once as cancelled, without running any of its code."""

    async def work(client: Client) -> None:
        changed = await acted(client, "terminate", lambda: client.terminate(run_id), run_id=run_id, reason=reason)
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
@reason_option
@output_option
@takes_database
def retry(*, run_id: str, accept: str | None, reason: str | None, output: str, database: Database) -> None:
    """Let a failed, dead-lettered or blocked run go on, from the entry that failed."""

    async def work(client: Client) -> None:
        accepted: Accept | None = "arguments" if accept else None
        changed = await acted(
            client, "retry", lambda: client.retry(run_id, accept=accepted),
            run_id=run_id, reason=reason, request={"accept": accepted} if accepted else None,
        )  # fmt: skip
        status = (await client.info(run_id)).status
        said = f"{run_id} goes on" if changed else f"nothing changed: {run_id} is {status} by now"
        say_changed(output, said, changed=changed)

    connected(database, work)


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@click.option(
    "--from-entry", required=True, metavar="POSITION", help="The first entry to be done anew, as `history` shows it."
)
@reason_option
@output_option
@takes_database
def fork(*, run_id: str, from_entry: str, reason: str | None, output: str, database: Database) -> None:
    """Start a new run with a copy of this one's journal up to an entry, and print its id."""

    async def work(client: Client) -> None:
        try:
            forked = await actions.fork(context_of(client, person()), run_id, from_entry=from_entry, reason=reason)
        except BadFields as error:
            raise Refused(error.errors["from_entry"], 2) from error
        if output == "json":
            print_json({"id": forked.run_id, "forked_from": run_id})
        else:
            click.echo(forked.run_id)

    connected(database, work)
