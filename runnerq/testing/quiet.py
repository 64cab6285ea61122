"""Whether anything is going on: exactly, from what the event loop and the threads of this process are about to do.

Rules
- The loop is at rest when nothing is ready to run; seen from within the only callback of a turn.
- Something may still come by itself if a timer of the loop is due soon, a socket is watched, or a thread that somebody
  gave a function to has not returned. A timer further off is a guard (``asyncio.timeout(20)`` around a test), and a
  thread that was busy before the test began is somebody else's: neither is what a test wants to wait for.
- This reads what asyncio's own loops keep to themselves; another loop is refused, with a message that says so.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from types import FrameType
from typing import Any

from runnerq.errors import ConfigurationError

SOON = 5.0
"""Seconds, of real time, within which a timer of the loop is waited for."""


def check_loop(loop: Any) -> None:
    """Raise ConfigurationError for an event loop that does not let itself be looked at."""
    if not hasattr(loop, "_ready") or not hasattr(loop, "_scheduled"):
        raise ConfigurationError(
            f"Environment needs one of asyncio's own event loops to see when all is at rest, "
            f"not {type(loop).__name__}: run these tests without uvloop"
        )


async def at_rest(loop: Any) -> None:
    """Return once nothing is ready to run but the caller, and others who wait for the same."""
    rested: asyncio.Future[None] = loop.create_future()
    loop.call_soon(_see, loop, rested)
    await rested


def _see(loop: Any, rested: asyncio.Future[None]) -> None:
    # What else ran in this turn has run, or stands behind this: with an empty queue there is nothing.
    if rested.done():
        return
    try:
        ready = tuple(loop._ready)  # noqa: SLF001 - see the rules
    except RuntimeError:  # a thread has added to it meanwhile
        ready = (None,)
    if all(handle is not None and handle._callback is _see for handle in ready):  # noqa: SLF001 - see the rules
        rested.set_result(None)
    else:
        loop.call_soon(_see, loop, rested)


def next_timer(loop: Any) -> float | None:
    """When the next timer of the loop that may be waited for is due, by the loop's time."""
    times = [timer.when() for timer in loop._scheduled if not timer.cancelled()]  # noqa: SLF001 - see the rules
    soon = min(times, default=None)
    return soon if soon is not None and soon < loop.time() + SOON else None


def may_come(loop: Any, elsewhere: frozenset[int]) -> bool:
    """Whether something may still happen by itself. ``elsewhere`` are threads that do nothing for this test."""
    return next_timer(loop) is not None or _watches(loop) or not busy_threads() <= elsewhere


def _watches(loop: Any) -> bool:
    selector = getattr(loop, "_selector", None)
    if selector is None or not hasattr(selector, "get_map"):
        return False
    files = selector.get_map() or {}
    own = getattr(loop, "_ssock", None)
    return any(key.fileobj is not own and key.fd != (own.fileno() if own else None) for key in files.values())


def busy_threads() -> frozenset[int]:
    """The threads of pools that are in something they were given."""
    me = threading.get_ident()
    frames = sys._current_frames().items()  # noqa: SLF001 - its name
    return frozenset(ident for ident, frame in frames if ident != me and _works(frame))


def _works(frame: FrameType) -> bool:
    """Whether this thread of a pool is in something that it was given."""
    called, at = "", frame
    while True:
        module, function = at.f_globals.get("__name__"), at.f_code.co_name
        if function == "run" and module == "concurrent.futures.thread":
            return True
        if function == "run" and module == "anyio._backends._asyncio":
            # Waiting for something to do, it is in its queue.
            return called != "queue"
        if at.f_back is None:
            return False
        called, at = str(module), at.f_back
