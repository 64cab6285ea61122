"""``runnerq limits``: how many runs of a scope are held at once, and admitted in a span of time."""

from __future__ import annotations

import click

from runnerq.cli.acting import acted
from runnerq.cli.shared import (
    Database,
    connected,
    duration,
    output_option,
    print_json,
    say,
    say_changed,
    takes_database,
)
from runnerq.client.client import Client


def rate_of(text: str) -> tuple[int, float]:
    """The type of an argument that is a rate: ``100/1m``, ``5/s``."""
    number, slash, span = text.partition("/")
    if not slash or not number.strip().isdecimal():
        raise click.BadParameter(f"{text!r} is not a rate such as 100/1m or 5/s")
    span = span.strip()
    return int(number), duration(span if span[:1].isdecimal() else f"1{span}")


@click.group()
def limits() -> None:
    """How many runs of a scope are held at once, and admitted in a span of time."""


@limits.command("list")
@output_option
@takes_database
def listing(output: str, database: Database) -> None:
    """List the limits, with how many runs hold a place and how many keys wait for one."""

    async def work(client: Client) -> None:
        found = await client.limits.list()
        if output == "json":
            print_json(found)
        else:
            from runnerq.cli.tables import console, limits_table  # noqa: PLC0415 - rich

            console().print(limits_table(found))

    connected(database, work)


@limits.command("set")
@click.argument("scope")
@click.option("--concurrency", type=click.IntRange(min=0), metavar="N", help="At most N at once; 0 lets nothing in.")
@click.option("--rate", type=rate_of, metavar="N/SPAN", help="At most N in any span of this length: 100/1m, 5/s.")
@click.option("--per-key", is_flag=True, help="For each key of the scope by itself, else for all together.")
@output_option
@takes_database
def setting(
    *,
    scope: str,
    concurrency: int | None,
    rate: tuple[int, float] | None,
    per_key: bool,
    output: str,
    database: Database,
) -> None:
    """Limit the runs of SCOPE, in place of the limit that it has. What is held already is let finish."""
    if concurrency is None and rate is None:
        raise click.UsageError("give --concurrency, or --rate, or both; `limits delete` ends a limit")

    async def work(client: Client) -> None:
        given = {"concurrency": concurrency, "rate": rate, "per_key": per_key}

        async def set_it() -> bool:
            await client.limits.set(scope, concurrency=concurrency, rate=rate, per_key=per_key)
            return True

        await acted(client, "limit-set", set_it, target=scope, request=given)
        if output == "json":
            print_json(await client.limits.get(scope))
        else:
            say(f"limited {scope!r}")

    connected(database, work)


@limits.command()
@click.argument("scope")
@output_option
@takes_database
def delete(scope: str, output: str, database: Database) -> None:
    """End the limit of SCOPE: its runs wait for a worker alone."""

    async def work(client: Client) -> None:
        changed = await acted(client, "limit-delete", lambda: client.limits.delete(scope), target=scope)
        said = f"{scope!r} is limited no more" if changed else f"nothing changed: {scope!r} is not limited"
        say_changed(output, said, changed=changed)

    connected(database, work)
