"""The threads in which sync steps and activities run: our own, and daemons, so that a stuck one never holds up exit.

Rules
- All bookkeeping is done on the event loop. A thread does one thing at a time, which the loop puts into its own queue,
  and reports back; there is no lock.
- A thread cannot be cancelled. One that nobody waits for any more goes on, counts against the limit until it returns,
  and is counted as stuck; its late return is ignored and counted.
- Threads are made on demand and used again, the last one used first; those that were idle for half a minute end.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

IDLE = 30.0
"""Seconds after which a thread without work ends."""

Ended: TypeAlias = Callable[[Any, BaseException | None], None]


class NeverBegan(Exception):
    """What the end of a call is told with that was never made: it still waited for a thread when the worker stopped, or
    nothing may begin any more."""


class Lent(Generic[T]):
    """One call in a thread, or waiting for one."""

    __slots__ = ("_threads", "abandoned", "began", "context", "ended", "fn", "over", "started")

    def __init__(
        self, threads: Threads, fn: Callable[[], T], context: Context, began: Callable[[], None] | None, ended: Ended
    ) -> None:
        self._threads = threads
        self.fn = fn
        self.context = context
        self.began = began
        self.ended = ended
        self.started = False
        self.abandoned = False
        self.over = False

    def abandon(self) -> None:
        """Nobody waits for it any more: ``ended`` is not called. What has not begun never will."""
        if not self.abandoned and not self.over:
            self.abandoned = True
            self._threads.left(self)


class _Thread:
    __slots__ = ("idle_since", "work")

    def __init__(self) -> None:
        self.work: SimpleQueue[Lent[Any] | None] = SimpleQueue()
        self.idle_since = 0.0


class Threads:
    """At most ``limit`` threads; whatever is more waits in order. Made on the event loop that it works for."""

    def __init__(self, limit: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._idle: list[_Thread] = []
        self._waiting: deque[Lent[Any]] = deque()
        self._closed = False
        self._thinning = False
        self._made = 0
        self.busy = 0
        self.stuck = 0
        self.late = 0

    @property
    def waiting(self) -> int:
        """How many calls wait for a thread."""
        return len(self._waiting)

    def start(
        self,
        fn: Callable[[], T],
        ended: Ended,
        *,
        context: Context | None = None,
        began: Callable[[], None] | None = None,
    ) -> Lent[T]:
        """Run ``fn`` in a thread; ``began`` is told when it gets one, ``ended(value, error)`` when it has returned.

        Both are called on the event loop and must not raise; ``ended`` is never called from within this call.
        """
        lent = Lent(self, fn, copy_context() if context is None else context, began, ended)
        if self.busy < self._limit:
            self._begin(lent)
        else:
            self._waiting.append(lent)
        return lent

    def stop(self) -> None:
        """Call nothing of what still waits for a thread: the end of each is told with NeverBegan."""
        waiting, self._waiting = self._waiting, deque()
        for lent in waiting:
            lent.over = True
            self._loop.call_soon(lent.ended, None, NeverBegan())

    def close(self) -> None:
        """Let the threads end, each when it has nothing to do. What waits for one is dropped."""
        self._closed = True
        self._waiting.clear()
        for thread in self._idle:
            thread.work.put(None)
        self._idle.clear()

    # --- on the event loop --------------------------------------------------------------------------------------------

    def left(self, lent: Lent[Any]) -> None:
        """A call was abandoned; see ``Lent.abandon``."""
        if lent.started:
            self.stuck += 1
        else:
            self._waiting.remove(lent)

    def _begin(self, lent: Lent[Any]) -> None:
        self.busy += 1
        lent.started = True
        if lent.began is not None:
            lent.began()
        if self._idle:
            thread = self._idle.pop()
        else:
            thread = _Thread()
            self._made += 1
            name = f"runnerq-{self._made}"
            try:
                threading.Thread(target=_work, args=(self, thread), name=name, daemon=True).start()
            except RuntimeError as error:
                # The system gives no more threads: the call ends with that.
                self._loop.call_soon(self._returned, None, lent, None, error)
                return
        thread.work.put(lent)

    def _returned(self, thread: _Thread | None, lent: Lent[Any], value: Any, error: BaseException | None) -> None:
        self.busy -= 1
        lent.over = True
        if thread is None:
            pass
        elif self._closed:
            thread.work.put(None)
        else:
            thread.idle_since = self._loop.time()
            self._idle.append(thread)
            self._thin_later()
        if self._waiting and self.busy < self._limit:
            self._begin(self._waiting.popleft())
        if lent.abandoned:
            self.stuck -= 1
            self.late += 1
        else:
            lent.ended(value, error)

    def _thin_later(self) -> None:
        if not self._thinning:
            self._thinning = True
            self._loop.call_at(self._idle[0].idle_since + IDLE, self._thin)

    def _thin(self) -> None:
        self._thinning = False
        long_ago = self._loop.time() - IDLE
        # The threads used least lie at the bottom.
        while self._idle and self._idle[0].idle_since <= long_ago:
            self._idle.pop(0).work.put(None)
        if self._idle:
            self._thin_later()


def _work(threads: Threads, thread: _Thread) -> None:
    """What a thread does, until it is told to end."""
    loop = threads._loop  # noqa: SLF001 - the other half of the class, in its thread
    while (lent := thread.work.get()) is not None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = lent.context.run(lent.fn)
        except BaseException as raised:  # noqa: BLE001 - it is told to whoever waits for it
            error = raised
        try:
            loop.call_soon_threadsafe(threads._returned, thread, lent, value, error)  # noqa: SLF001 - as above
        except RuntimeError:
            # The event loop is closed: nobody hears of it any more.
            return
        # Nothing of one call may live until the next.
        del lent, value, error
