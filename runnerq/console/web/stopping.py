"""Whether the server is about to end: what waits for long looks here, so that it does not keep the server from it.

uvicorn ends an app's lifespan only when all answers have ended, and a stream has no end. Its handler of SIGTERM is a
method of the server, which says whether it was told to stop: it is only read. With other servers, streams end when they
are as old as they may be, or when the server cuts them.
"""

from __future__ import annotations

import asyncio
import signal

from runnerq.errors import RunnerQError

LOOK_EVERY = 0.25


class Stopping(RunnerQError):
    """What was asked for would have taken longer than this server goes on. ``retry_in`` is seconds."""

    retry_in = 1

    def __init__(self) -> None:
        super().__init__("this server is about to stop: ask again, and the next one answers")


def stopping() -> bool:
    """Whether this process's server was told to stop."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))


async def until_stopping() -> None:
    """Return when the server was told to stop."""
    while not stopping():  # noqa: ASYNC110 - a signal's handler that is not ours sets no event of ours
        await asyncio.sleep(LOOK_EVERY)
