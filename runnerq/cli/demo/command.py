"""The ``demo`` command: its folder, its signals, its exit code."""

from __future__ import annotations

import asyncio
import signal
import sys

import click


@click.command()
def demo() -> None:
    """An order that survives kill -9, in half a minute.

    Starts an embedded Postgres and a worker, kills the worker with SIGKILL after it charged a card, starts another,
    approves the order from a third process, prints the journal, and counts the charges outside the database.
    """
    sys.exit(asyncio.run(_demo()))


async def _demo() -> int:
    # The story brings rich and the embedded server, which no other command should wait for.
    from runnerq.cli.demo.story import own_folder, tell  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    received: list[int] = []

    def interrupt(number: int) -> None:
        # Once: what cleans up after the first must not be interrupted by the second.
        if not received:
            received.append(number)
            telling.cancel()

    with own_folder() as folder:
        telling = asyncio.create_task(tell(folder))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, interrupt, number)
        try:
            return 0 if await telling else 1
        except asyncio.CancelledError:
            if not received:
                raise
            click.echo("interrupted: every process of the demo is gone", err=True)
            return 128 + received[0]
