"""``runnerq worker``: run the workflows and activities of some modules until told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import assert_never

import click

from runnerq.cli.codecs import listener_named
from runnerq.cli.exits import NO_RIGHT, exit_code
from runnerq.cli.following import tell_codeless, tell_divergences
from runnerq.cli.leash import Leash, taken_from_stdin
from runnerq.cli.leashed import DRAINED, NOT_YET, environment_of
from runnerq.cli.modules import Found, find
from runnerq.cli.processes import supervise
from runnerq.cli.shared import Database, takes_database
from runnerq.cli.stops import SIGNALS, on_hangup
from runnerq.cli.telling import log_to_stderr, say
from runnerq.cli.worker_options import Keeper, Loop, WorkerOptions, takes_worker_options
from runnerq.errors import StorageUnavailable
from runnerq.runtime.collector import look_less_often
from runnerq.runtime.worker import Worker
from runnerq.telemetry.listeners import Listener
from runnerq.telemetry.optional import with_prometheus

LAST_PORT = 65535
MARGIN = 30.0
"""Seconds that a worker gets beside its drain timeout, to give back the rest and to sign off."""
_KEPT = {
    "processes": "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s",  # beside others
    "reload": "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s",
    "dev": "%(levelname)s %(name)s: %(message)s",  # what prints it says when
}


@click.command(short_help="Run the workflows and activities of the MODULEs, such as shop.workflows.")
@takes_worker_options("30s")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="So many worker processes, each with -c runs at once; one that ends is started again, unless it was drained.",
)
@click.option(
    "--reload",
    "reloads",
    is_flag=True,
    envvar="RUNNERQ_WORKER_RELOAD",
    help="Replace the worker whenever a Python file is saved.",
)
@click.option(
    "--watch",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --reload: a folder to watch; may be given repeatedly.  [default: this folder]",
)
@click.option(
    "--kept-by",
    type=click.Choice(sorted(_KEPT)),
    hidden=True,
    allow_from_autoenv=False,
    help="Who says stop, by closing stdin.",
)
@takes_database
@click.pass_context
def worker(
    ctx: click.Context,
    options: WorkerOptions,
    processes: int | None,
    reloads: bool,
    watch: tuple[Path, ...],
    kept_by: Keeper | None,
    database: Database,
) -> None:
    """Run every workflow and activity found in the MODULEs, such as shop.workflows.

    SIGTERM and Ctrl-C stop it in order: it claims no more, gives steps their time to end, and gives back the rest. A
    second one ends it at once; what it ran is then taken up by another worker. A terminal that is closed stops it in
    order, too.
    """
    if processes is not None and reloads:
        raise click.UsageError("--processes and --reload exclude each other")
    if processes is not None:
        if options.http is not None and options.http[1] + processes - 1 > LAST_PORT:
            raise click.UsageError(f"--http: there are not {processes} ports from {options.http[1]} on")
        commands = [options.command("processes", place) for place in range(processes)]
        ctx.exit(supervise(commands, environment_of(database)))
    if reloads:
        from runnerq.cli.reloading import reload  # noqa: PLC0415 - for developers alone

        reload(options.command("reload"), environment_of(database), watch)
        return
    # Before anything of the user's is imported.
    leash = None if kept_by is None else Leash(taken_from_stdin(), options.drain_timeout + MARGIN)
    shape = "%(asctime)s %(levelname)s %(name)s: %(message)s" if kept_by is None else _KEPT[kept_by]
    log_to_stderr(logging.INFO, shape)
    if kept_by == "dev":
        # It has said itself where the database is.
        logging.getLogger("runnerq.embedded").setLevel(logging.WARNING)
    with _nothing_to_stop(leash):
        found = find(options.modules)
    look_less_often()
    try:
        with asyncio.Runner(loop_factory=_new_loop(options.loop)) as runner:
            drained = runner.run(_run(found, options, kept_by, database, leash))
    except StorageUnavailable as error:
        if kept_by in {"processes", None} or exit_code(error) == NO_RIGHT:
            raise
        say(f"Error: {error}")
        ctx.exit(NOT_YET)
    if drained and kept_by is not None:
        ctx.exit(DRAINED)


def _nothing_to_stop(leash: Leash | None) -> AbstractContextManager[None]:
    """Have the process end at once where it is told to stop meanwhile: an import, or a server, may last for long."""
    return nullcontext() if leash is None else leash.nothing_to_stop()


def _new_loop(loop: Loop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes it; None for what asyncio makes by itself."""
    match loop:
        case "asyncio":
            return None
        case "uvloop":
            import uvloop  # noqa: PLC0415 - an extra

            return uvloop.new_event_loop
        case _:
            assert_never(loop)


async def _run(
    found: Found, options: WorkerOptions, kept_by: Keeper | None, database: Database, leash: Leash | None
) -> bool:
    """Serve until told to stop. Whether that was a drain, and neither a signal nor the keeper."""
    listeners: Sequence[Listener] = [*map(listener_named, options.listener), *_listeners(kept_by)]
    if options.http is not None:
        # Behind what is the user's own, which may keep these metrics, and they can be kept once.
        listeners = with_prometheus(listeners)
    # Of the client too, so that they hear of what steps start with it.
    async with AsyncExitStack() as clients:
        with _nothing_to_stop(leash):
            client = await clients.enter_async_context(database.client(listeners=listeners))
        if kept_by in {"reload", "dev"}:
            await tell_divergences(client, found.workflows)
            await tell_codeless(client, found.names)
        serving = Worker(
            client,
            workflows=found.workflows,
            activities=found.activities,
            queues=options.queue or ("default",),
            only=options.only or None,
            max_workers=options.concurrency,
            max_steps=options.max_steps,
            max_threads=options.max_threads,
            shutdown_grace=options.drain_timeout,
            poll_interval=options.poll_interval,
            listeners=listeners,
            http=options.http,
        )
        running = asyncio.create_task(serving.run())
        stopped = _when_told(leash)
        await asyncio.sleep(0)  # it has begun then, and listens
        # Where it was to listen and does not, running ends with why.
        if options.http is None or serving.http_address is not None:
            queues = ", ".join(options.queue) or "default"
            say(f"worker {os.getpid()} serves {found} on {queues}{_health(serving)}{_how_to_stop(leash)}")
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        told = stopped.done()
        if told:
            if leash is None:
                say("stopping: no more claims, running steps may end")
            await serving.stop()
        stopped.cancel()
        await running
    if leash is None:
        say("stopped" if told else "drained, and stopped")
    return not told


def _listeners(kept_by: Keeper | None) -> list[Listener]:
    if kept_by != "dev":
        return []
    from runnerq.cli.dev.listening import Tells  # noqa: PLC0415 - for developers alone

    return [Tells()]


def _health(serving: Worker) -> str:
    if serving.http_address is None:
        return ""
    host, port = serving.http_address
    return f"; health and metrics at http://{f'[{host}]' if ':' in host else host}:{port}"


def _how_to_stop(leash: Leash | None) -> str:
    return "; Ctrl-C stops it" if leash is None else ""


def _when_told(leash: Leash | None) -> asyncio.Future[None]:
    """Done when a signal asks to stop, or the supervisor does; the next signal ends the process as if none were
    caught."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def stop() -> None:
        for number in SIGNALS:
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

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    on_hangup(loop, closed)
    if leash is not None:
        leash.closed.add_done_callback(tell)
    return told
