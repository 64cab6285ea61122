"""``start``: a run of a workflow or an activity, by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, get_args

import click

from runnerq.cli.acting import context, reason_option, unchecked_option
from runnerq.cli.completing import known_queues, known_workflows
from runnerq.cli.ending import Wait, ended, wait_option
from runnerq.cli.filters import behind, metadata_option, moment
from runnerq.cli.masking import takes_reveal
from runnerq.cli.output import Output, output_option, show_one
from runnerq.cli.shared import Database, Refused, connected, duration, json_value, parsed, takes_database
from runnerq.cli.telling import say
from runnerq.client.client import Client
from runnerq.console.actions import runs as actions
from runnerq.console.actions.runs import StartRequest
from runnerq.console.models.redaction import Redactor
from runnerq.persistence.records import OnDuplicate, Priority

MOST_NEAR = 2
_PARAMETER = re.compile(r"(?P<name>[^\W\d]\w*)(?P<sign>:?=)(?P<text>.*)", re.DOTALL)


def _parameters(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Mapping[str, Any]:
    """Keyword arguments: ``name=text``, and ``name:=json`` for what is no text."""
    given = dict[str, Any]()
    for value in values:
        match = _PARAMETER.fullmatch(value)
        if match is None:
            raise click.BadParameter(f"{value!r} is neither NAME=TEXT nor NAME:=JSON")
        if match["name"] in given:
            raise click.BadParameter(f"{match['name']!r} is given more than once")
        try:
            given[match["name"]] = match["text"] if match["sign"] == "=" else parsed(match["text"])
        except ValueError as error:
            raise click.BadParameter(f"{value!r}: what stands behind := is not JSON ({error})") from error
    return given


def _limit(scope: str | None, key: str | None) -> tuple[str, ...] | str | None:
    if key is not None and scope is None:
        raise click.UsageError("--limit-key is of a --limit: give that as well")
    return scope if scope is None or key is None else (scope, key)


async def _meant(client: Client, name: str) -> str:
    """What else may have been meant by a name that nobody has registered."""
    known = {each.name for each in await client.storage.definitions()}
    # It may have been registered just now.
    near = get_close_matches(name, sorted(known - {name}), MOST_NEAR)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


@click.command()
@click.argument("name", shell_complete=known_workflows)
@click.argument("arguments", metavar="[JSON]...", nargs=-1, type=json_value)
@click.option(
    "-P",
    "--parameter",
    multiple=True,
    metavar="NAME=TEXT",
    callback=_parameters,
    help="A keyword argument; NAME:=JSON for a number, a list and the like. May be given repeatedly.",
)
@click.option("--key", help="Idempotency key: one run for each.")
@click.option(
    "--on-duplicate", type=click.Choice(get_args(OnDuplicate)), help="If a run has the key.  [default: return_existing]"
)
@click.option("--queue", help="Queue to start it on.", shell_complete=known_queues)
@click.option("--delay", type=duration, metavar="DURATION", help="Start it so much later: 30s, 5m, 2h.")
@click.option("--at", type=moment, metavar="TIME", help="Start it at this time: an ISO time, or so long from now.")
@click.option("--priority", type=click.Choice([each.name.lower() for each in Priority]), help="Who goes first.")
@click.option(
    "--timeout", type=duration, metavar="DURATION", help="Cancel it if it is not done so long after its start."
)
@click.option("--limit", metavar="SCOPE", help="The limit that it counts against.")
@click.option("--limit-key", metavar="KEY", help="Its key, where the limit is one for each key.")
@metadata_option
@wait_option
@unchecked_option
@reason_option
@takes_reveal
@output_option
@takes_database
def start(
    *,
    name: str,
    arguments: tuple[Any, ...],
    parameter: Mapping[str, Any],
    key: str | None,
    on_duplicate: OnDuplicate | None,
    queue: str | None,
    delay: float | None,
    at: datetime | timedelta | None,
    priority: str | None,
    timeout: float | None,
    limit: str | None,
    limit_key: str | None,
    metadata: Mapping[str, str] | None,
    wait: Wait | None,
    unchecked: bool,
    reason: str | None,
    redact: Redactor,
    output: Output,
    database: Database,
) -> None:
    """Start the workflow or activity NAME, and print its id.

    Each JSON is one argument; @file reads one from a file. Write -- before a negative number.
    """
    if key == "":
        raise click.UsageError("--key is empty: leave it out to start a run without one")
    if on_duplicate is not None and key is None:
        raise click.UsageError("--on-duplicate says what to do with a key that is taken: give --key as well")
    counts_against = _limit(limit, limit_key)

    async def work(client: Client) -> int:
        due = None if at is None else await behind(client.storage, at)
        request = StartRequest(
            name=name, args=arguments, kwargs=parameter, key=key, on_duplicate=on_duplicate, queue=queue or None,
            delay=delay, at=due, priority=priority, timeout=timeout, metadata=metadata, limit=counts_against,
            unchecked=unchecked,
        )  # fmt: skip
        here = context(client, redact)
        try:
            run = await actions.start(here, request, reason=reason)
        except ValueError as error:  # such as a key that no database keeps
            raise Refused(str(error), 2) from error
        if not run.created:
            say(f"key {key!r} is held by this run, which was there before")
        if run.warning is not None:
            say(run.warning + await _meant(client, name))
        run_id = str(run.run_id)
        if wait is None:
            show_one(output, run, name=run_id, table=lambda: run_id)
            return 0
        say(f"started {run_id}")
        return await ended(here, run_id, wait, output)

    click.get_current_context().exit(connected(database, work, migrate=True))
