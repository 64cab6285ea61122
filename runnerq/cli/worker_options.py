"""What a worker process is to do: the options of ``runnerq worker``, and the command line that says them again."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import click
import msgspec

from runnerq.cli.completing import known_modules, known_queues, known_workflows
from runnerq.cli.shared import duration
from runnerq.errors import ConfigurationError
from runnerq.telemetry.http import address_of

T = TypeVar("T")

Keeper: TypeAlias = Literal["processes", "reload", "dev"]
"""Who keeps a worker process, which stops when its stdin closes. For the latter two it looks at open runs first."""
Loop: TypeAlias = Literal["asyncio", "uvloop"]
"""The event loop that it runs on."""


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker runs, and how."""

    modules: tuple[str, ...]
    queue: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    concurrency: int = 10
    max_steps: int = 100
    max_threads: int = 32
    drain_timeout: float = 30.0
    poll_interval: float = 5.0
    loop: Loop = "asyncio"
    http: tuple[str, int] | None = None
    listener: tuple[str, ...] = ()

    def command(self, keeper: Keeper, place: int = 0) -> list[str]:
        """The command line of such a process. One of several answers HTTP so many ports further on."""
        words = [sys.executable, "-m", "runnerq", "worker", *self.modules, "--kept-by", keeper]
        for option, value in (
            ("-c", self.concurrency),
            ("--max-steps", self.max_steps),
            ("--max-threads", self.max_threads),
            # Never as 1e-05, which is no duration.
            ("--drain-timeout", f"{self.drain_timeout:.9f}"),
            ("--poll-interval", f"{self.poll_interval:.9f}"),
            ("--loop", self.loop),
        ):
            words += [option, str(value)]
        for name in self.queue:
            words += ["-q", name]
        for name in self.only:
            words += ["--only", name]
        for name in self.listener:
            words += ["--listener", name]
        if self.http is not None:
            host, first = self.http
            port = first and first + place  # 0 is any that is free
            words += ["--http", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
        return words


def _address(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, int] | None:
    try:
        return None if text is None else address_of(text)
    except ConfigurationError as error:
        raise click.BadParameter(f"{text!r}: expected a port, or HOST:PORT") from error


def _loop(_: click.Context, __: click.Parameter, name: Loop) -> Loop:
    if find_spec(name) is None:
        raise click.BadParameter(f"{name} is not installed here: the extra '{name}' of runnerq brings it")
    return name


def takes_worker_options(drain_timeout: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add the modules and the options of a worker, with this default; the command gets them as ``options``."""

    def add(command: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(command)
        def with_options(*args: Any, **given: Any) -> T:
            options = WorkerOptions(**{name: given.pop(name) for name in WorkerOptions.__struct_fields__})
            return command(*args, options=options, **given)

        drain = click.option(
            "--drain-timeout",
            type=duration,
            default=drain_timeout,
            show_default=True,
            help="What steps that run get to end, when it is to stop; they begin again elsewhere then.",
        )
        taking: Callable[..., T] = with_options
        for option in reversed((*_OPTIONS, drain)):
            taking = option(taking)
        return taking

    return add


_OPTIONS = (
    click.argument("modules", nargs=-1, required=True, metavar="MODULE...", shell_complete=known_modules),
    click.option(
        "-q",
        "--queue",
        multiple=True,
        shell_complete=known_queues,
        help="Queue to serve; may be given repeatedly.  [default: default]",
    ),
    click.option(
        "--only",
        multiple=True,
        metavar="NAME",
        shell_complete=known_workflows,
        help="Claim only runs of this workflow or activity; repeatedly.",
    ),
    click.option(
        "-c", "--concurrency", type=click.IntRange(min=1), default=10, show_default=True, help="Runs at once."
    ),
    click.option(
        "--max-steps", type=click.IntRange(min=1), default=100, show_default=True, help="Async steps at once."
    ),
    click.option(
        "--max-threads", type=click.IntRange(min=1), default=32, show_default=True, help="Sync steps at once."
    ),
    click.option(
        "--poll-interval",
        type=duration,
        default="5s",
        show_default=True,
        help="Look for runs this often where no wake-up is heard.",
    ),
    click.option(
        "--loop",
        type=click.Choice(get_args(Loop)),
        default="asyncio",
        show_default=True,
        callback=_loop,
        help="The event loop: asyncio's own, or uvloop, which is quicker and an extra.",
    ),
    click.option(
        "--http",
        metavar="[HOST:]PORT",
        callback=_address,
        help="Answer /healthz, /readyz and /metrics there; process N of --processes so many ports further on.",
    ),
    click.option(
        "--listener",
        multiple=True,
        metavar="MODULE:NAME",
        help="What hears of events, such as shop.telemetry:listener; may be given repeatedly.",
    ),
)
