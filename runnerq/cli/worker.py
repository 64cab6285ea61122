"""``runnerq worker``: run the workflows and activities of some modules until told to stop."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from runnerq.cli.leash import LONGEST_STOP, Leash, taken_from_stdin
from runnerq.cli.processes import STOPPING, supervise
from runnerq.cli.shared import Database, Refused, say, takes_database
from runnerq.errors import ConfigurationError
from runnerq.runtime.collector import look_less_often
from runnerq.runtime.worker import Worker
from runnerq.workflow.declare import ActivityDeclaration, WorkflowDeclaration, declaration_of


class Found(msgspec.Struct, frozen=True):
    """What a worker registers."""

    workflows: tuple[Callable[..., Any], ...]
    activities: tuple[Callable[..., Any], ...]

    def __str__(self) -> str:
        return ", ".join(
            f"{declared.name}@{declared.version}" if isinstance(declared, WorkflowDeclaration) else declared.name
            for fn in (*self.workflows, *self.activities)
            if (declared := declaration_of(fn)) is not None
        )


@click.command()
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...")
@click.option(
    "-q", "--queue", "queues", multiple=True, help="Queue to serve; may be given repeatedly.  [default: default]"
)
@click.option("-c", "--concurrency", type=click.IntRange(min=1), default=10, show_default=True, help="Runs at once.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="So many worker processes, each with -c runs at once; one that ends is started again.",
)
@click.option("--until-stdin-closes", is_flag=True, hidden=True, help="Stop in order then; so a supervisor says it.")
@takes_database
@click.pass_context
def worker(
    ctx: click.Context,
    modules: Sequence[str],
    queues: Sequence[str],
    concurrency: int,
    processes: int | None,
    until_stdin_closes: bool,
    database: Database,
) -> None:
    """Run every workflow and activity found in the MODULEs, such as shop.workflows.

    SIGTERM and Ctrl-C stop it in order: it claims no more, gives steps their time to end, and gives back the rest. A
    second one ends it at once; what it ran is then taken up by another worker.
    """
    if processes is not None:
        ctx.exit(supervise(modules, queues, concurrency, processes, database))
    # Before anything of the user's is imported.
    leash = Leash(taken_from_stdin(), LONGEST_STOP) if until_stdin_closes else None
    # Beside others, each line has to say whose it is.
    whose = "%(process)d " if until_stdin_closes else ""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format=f"%(asctime)s {whose}%(levelname)s %(name)s: %(message)s"
    )
    found = find(modules)
    look_less_often()
    asyncio.run(_run(found, tuple(queues) or ("default",), concurrency, database, leash))


def find(modules: Sequence[str]) -> Found:
    """Every workflow and activity in these modules' namespaces, each once."""
    # As `python -m` has it: modules of the folder one stands in can be named.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    workflows: dict[int, Callable[..., Any]] = {}
    activities: dict[int, Callable[..., Any]] = {}
    for name in modules:
        for value in vars(_imported(name)).values():
            declared = declaration_of(value) if callable(value) and not isinstance(value, type) else None
            if isinstance(declared, WorkflowDeclaration):
                workflows[id(value)] = value
            elif isinstance(declared, ActivityDeclaration):
                activities[id(value)] = value
    if not workflows and not activities:
        raise ConfigurationError(
            f"there is no workflow and no activity in {', '.join(modules)}: "
            "decorate functions with @workflow or @activity"
        )
    return Found(tuple(workflows.values()), tuple(activities.values()))


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only the module that was named; what it fails to import itself deserves its own stack.
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise Refused(
            f"there is no module {name!r} to be imported: name it as in `import {name}`, from the folder it is in", 2
        ) from error


async def _run(
    found: Found, queues: tuple[str, ...], concurrency: int, database: Database, leash: Leash | None
) -> None:
    async with database.client() as client:
        serving = Worker(
            client,
            workflows=found.workflows,
            activities=found.activities,
            queues=queues,
            max_workers=concurrency,
        )
        running = asyncio.create_task(serving.run())
        stopped = _when_told(leash)
        say(f"worker {os.getpid()} serves {found} on {', '.join(queues)}; Ctrl-C stops it")
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            if leash is None:
                say("stopping: no more claims, running steps may end")
            await serving.stop()
        stopped.cancel()
        await running
    if leash is None:
        say("stopped")


def _when_told(leash: Leash | None) -> asyncio.Future[None]:
    """Done when a signal asks to stop, or the supervisor does; the next signal ends the process as if none were
    caught."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def stop() -> None:
        for number in STOPPING:
            loop.remove_signal_handler(number)
        # asyncio.run's own SIGINT handler would wait for the tasks again.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not told.done():
            told.set_result(None)

    def closed() -> None:
        # A signal that comes after this is the first, not the second.
        if not told.done():
            told.set_result(None)

    def tell(_: object) -> None:
        # In a thread; where the loop has ended, nobody is left to be told.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(closed)

    for number in STOPPING:
        loop.add_signal_handler(number, stop)
    if leash is not None:
        leash.closed.add_done_callback(tell)
    return told
