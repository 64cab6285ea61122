"""The ``dev`` command."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from runnerq.cli.environment import PortOption
from runnerq.cli.shared import Database, takes_database
from runnerq.cli.worker_options import WorkerOptions, takes_worker_options


@click.command()
@takes_worker_options("3s")
@click.option(
    "--watch",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder to watch; may be given repeatedly.  [default: this folder]",
)
@click.option(
    "--port",
    cls=PortOption,
    type=click.IntRange(0, 65535),
    default=8787,
    show_default=True,
    help="The console's port; where it is taken, one that is free.",
)
@click.option("--no-console", is_flag=True, help="Serve no console.")
@click.option("--open", "opens", is_flag=True, envvar="RUNNERQ_DEV_OPEN", help="Open the console in the browser.")
@takes_database
def dev(
    options: WorkerOptions, watch: tuple[Path, ...], port: int, no_console: bool, opens: bool, database: Database
) -> None:
    """Develop in one terminal: Postgres, worker, console, and a log.

    Runs the workflows and activities of the MODULEs, such as shop.workflows. Whenever a Python file is saved, the
    worker is replaced: open runs go on under the new code, and those that do not follow it are told at once, with the
    line. One that is drained stays away until the next save. Ctrl-C stops all of it.
    """
    from runnerq.cli.dev.narrator import Logged, Narrator  # noqa: PLC0415 - rich
    from runnerq.cli.dev.session import Session, Wanted  # noqa: PLC0415 - as above

    wanted = Wanted(options=options, watch=watch, port=None if no_console else port, opens=opens, database=database)

    narrator = Narrator()
    logging.basicConfig(handlers=[Logged(narrator)], level=logging.WARNING)

    async def run() -> Session:
        session = Session(wanted, narrator)
        await session.run()
        return session

    asyncio.run(run()).stops.end_as_asked()
