"""``runnerq limits``: how many runs of a scope are held at once, and admitted in a span of time."""

from __future__ import annotations

import click

from runnerq.cli.acting import context, reason_option
from runnerq.cli.commands import Noun
from runnerq.cli.completing import known_limits
from runnerq.cli.fleet import act
from runnerq.cli.fleet_tables import limits_table
from runnerq.cli.output import Output, output_option, show_list
from runnerq.cli.shared import Database, connected, duration, takes_database
from runnerq.client.client import Client
from runnerq.console.actions import fleet as actions
from runnerq.console.actions.fleet import LimitRequest
from runnerq.console.models.limits import limits as read_limits


def rate_of(text: str) -> tuple[int, float]:
    """The type of an argument that is a rate: ``100/1m``, ``5/s``."""
    number, slash, span = text.partition("/")
    if not slash or not number.strip().isdecimal():
        raise click.BadParameter(f"{text!r} is not a rate such as 100/1m or 5/s")
    span = span.strip()
    return int(number), duration(span if span[:1].isdecimal() else f"1{span}")


@click.group(cls=Noun)
def limits() -> None:
    """How many runs of a scope are held at once, and admitted in a span of time."""


@limits.command("list")
@output_option
@takes_database
def listing(output: Output, database: Database) -> None:
    """List the limits, with how many runs hold a place and how many keys wait for one."""

    async def work(client: Client) -> None:
        found = await read_limits(context(client))
        show_list(output, found, found, name=lambda each: each.scope, table=lambda: limits_table(found))

    connected(database, work)


@limits.command("set")
@click.argument("scope", shell_complete=known_limits)
@click.option("--concurrency", type=click.IntRange(min=0), metavar="N", help="At most N at once; 0 lets nothing in.")
@click.option("--rate", type=rate_of, metavar="N/SPAN", help="At most N in any span of this length: 100/1m, 5/s.")
@click.option("--per-key", is_flag=True, help="For each key of the scope by itself, else for all together.")
@reason_option
@output_option
@takes_database
def setting(
    *,
    scope: str,
    concurrency: int | None,
    rate: tuple[int, float] | None,
    per_key: bool,
    reason: str | None,
    output: Output,
    database: Database,
) -> None:
    """Limit the runs of SCOPE, in place of the limit that it has. What is held already is let finish."""
    if concurrency is None and rate is None:
        raise click.UsageError("give --concurrency, or --rate, or both; `limits delete` ends a limit")
    number, per = (None, None) if rate is None else rate
    request = LimitRequest(scope=scope, concurrency=concurrency, rate=number, per=per, per_key=per_key)
    act(database, output, scope, lambda here: actions.set_limit(here, request, reason=reason))


@limits.command()
@click.argument("scope", shell_complete=known_limits)
@reason_option
@output_option
@takes_database
def delete(*, scope: str, reason: str | None, output: Output, database: Database) -> None:
    """End the limit of SCOPE: its runs wait for a worker alone."""
    act(database, output, scope, lambda here: actions.delete_limit(here, scope, reason=reason))
