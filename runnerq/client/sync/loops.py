"""Where the calls of a blocking client are carried out: an event loop in a thread of its own, or one that runs already.

Rules
- A call is a coroutine on that loop, in a copy of its caller's context. The caller's thread waits for it; what ends
  that wait early (Ctrl-C, a web server's signal) cancels it there.
- A call is handed over under the lock that an end takes first: so the loop knows of each call before it is told to end,
  and ends once the client is closed and they have all been answered.
- A signal's handler may call in the middle of all this, in the thread that holds the lock: what is open answers it, and
  what is just being opened says so. So the loop must never wait for a lock that a waiting thread may hold, a future's
  for instance: an answer comes through a ``SimpleQueue``, which has none.
- A thread serves one process. Of what a fork has copied nothing is touched: it is the parent's, with whom the child
  shares sockets and selector. The child begins anew at its first call.
- What is open in the parent is held by the frame of its loop's thread. In a child that frame is never left, so that
  nothing of it is ever torn down there: a driver that hangs up would unregister the parent's sockets.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from runnerq.client.client import Client
from runnerq.client.core import Core
from runnerq.errors import StorageUnavailable, UsageError
from runnerq.persistence.protocol import Storage

T = TypeVar("T")

Work: TypeAlias = Callable[[], Coroutine[Any, Any, T]]

PARTING = 10.0
"""Seconds that calls under way have to be answered, once their client is closed."""

LINGERING = 15.0
"""Seconds that a thread has to end: those, and some for what is cancelled then. Whoever ends it waits no longer."""

LOOK_UP = 1.0
"""Seconds after which a signal is handled that came just as a wait began, which it then does not end."""

_log = logging.getLogger("runnerq")


class Closed(UsageError):
    """The client was closed before this call."""


class Loop(Protocol):
    """An event loop on which calls of other threads are carried out."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def call(self, work: Work[T]) -> T:
        """The answer of this coroutine. It is made here and runs there."""
        ...


class LentLoop:
    """The loop that somebody's client is open on, and lives as long as that."""

    def __init__(self, client: Client) -> None:
        self._core = _core_of(client)
        self._pid = os.getpid()

    def open(self) -> None:
        raise UsageError("SyncClient.of(client) speaks for a client that somebody has opened: use it as it is")

    def close(self) -> None:
        raise UsageError("SyncClient.of(client) speaks for a client that somebody has opened, and who has, closes it")

    def call(self, work: Work[T]) -> T:
        loop = self._core.loop
        if loop is None:
            raise UsageError("the client of this SyncClient is not open: open it, and use it while it is")
        if self._pid != os.getpid():
            raise UsageError(
                "the client of this SyncClient is open in another process: use SyncClient(dsn) after a fork"
            )
        if _runs_here(loop):
            raise UsageError(
                "a SyncClient would wait here for ever, on the event loop that is to answer it: await the client's own "
                "verbs, or call it in another thread"
            )
        return _answered(_handed_over(work(), loop))


class OwnLoop:
    """A loop in a thread of its own, with the client open on it: from the first call in a process to ``close``.

    It is also closed when the process exits, and when nothing holds this object any more.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._threads: dict[int, _LoopThread] = {}
        weakref.finalize(self, _let_go, self._threads).atexit = False

    def open(self) -> None:
        self._here.open()

    def close(self) -> None:
        self._here.close()

    def call(self, work: Work[T]) -> T:
        return self._here.call(work)

    @property
    def _here(self) -> _LoopThread:
        """This process's thread."""
        pid = os.getpid()
        here = self._threads.get(pid)
        # Without a lock, which a fork may have copied as somebody held it.
        return here or self._threads.setdefault(pid, _LoopThread(self._client, forked=bool(self._threads)))


def _let_go(threads: dict[int, _LoopThread]) -> None:
    here = threads.get(os.getpid())
    if here is not None:
        here.let_go()


class _LoopThread:
    """The loop of one process."""

    def __init__(self, client: Client, *, forked: bool) -> None:
        self._client = client
        self._forked = forked
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._closed = False
        self._changing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._opened: Storage | None = None
        self._was_open = False

    def open(self) -> None:
        with self._lock:
            self._check_changing()
            self._closed = False
            self._begun()

    def call(self, work: Work[T]) -> T:
        self._check_thread()
        with self._lock:
            if self._closed:
                raise Closed("this client was closed: open it again, with `with client:` or client.open()")
            loop = self._begun()
            asked = _handed_over(work(), loop)
        return _answered(asked)

    def close(self) -> None:
        if self._pid != os.getpid():
            return  # the parent's, which closes it at its own exit
        self._check_thread()
        # Under the lock to the end: whoever opens it again has to find it closed.
        with self._lock:
            if self._closed and self._loop is None:
                return
            self._check_changing()
            self._closed = True
            loop = self._loop
            if loop is None:
                return
            with self._change():
                try:
                    self._loop = None
                    atexit.unregister(self.close)
                    _answered(_handed_over(self._close(), loop))
                finally:
                    self._end(loop)

    def let_go(self) -> None:
        """Close without waiting for it: nobody can call any more, and this may be any thread, the loop's own too."""
        if self._loop is not None:
            atexit.unregister(self.close)
            self._loop.call_soon_threadsafe(self._over.set)

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError(
                "a SyncClient cannot be called in its own background thread, which would have to answer it: call it "
                "after wait() has returned, not in what is given to it"
            )

    def _check_changing(self) -> None:
        if self._changing:
            raise UsageError(
                "this client is being opened or closed by the call that a signal has interrupted here: call it in the "
                "signal's handler while it is open"
            )

    # --- the thread's life; under the lock ----------------------------------------------------------------------------

    def _begun(self) -> asyncio.AbstractEventLoop:
        if self._loop is not None:
            return self._loop
        self._check_changing()
        with self._change():
            return self._begin()

    @contextmanager
    def _change(self) -> Iterator[None]:
        self._changing = True
        try:
            yield
        finally:
            self._changing = False

    def _begin(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._was_open = False
        self._thread = threading.Thread(
            target=self._run, args=(loop, self._over), name="runnerq-sync-client", daemon=True
        )
        if self._forked:
            # Before it is opened here: the copy says that it is open.
            _core_of(self._client).forget()
        try:
            self._thread.start()
            _answered(_handed_over(self._open(), loop))
            self._loop = loop
            atexit.register(self.close)
        except BaseException:
            self._loop = None
            self._end(loop)
            raise
        return loop

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(self._over.set)
        if self._thread is not None:
            # One whose start was broken off cannot be joined; it finds out, and ends.
            with suppress(RuntimeError):
                self._thread.join(LINGERING)
                if self._thread.is_alive():
                    _log.warning(
                        "the background thread of a SyncClient has not ended for %g s, and is left behind: something "
                        "that it carries out cannot be cancelled",
                        LINGERING,
                    )

    # --- on the loop --------------------------------------------------------------------------------------------------

    def _run(self, loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._until(over))

    async def _until(self, over: asyncio.Event) -> None:
        await over.wait()
        if not self._was_open:
            return  # what is still being opened is cancelled, as the loop ends
        await self._close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            # What is left then is cancelled.
            await asyncio.wait(rest, timeout=PARTING)

    async def _open(self) -> None:
        await self._client.open()
        self._opened = self._client.storage
        self._was_open = True

    async def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await self._client.close()


class _Asked(Generic[T]):
    """A call that is carried out on the loop, and what it comes to."""

    def __init__(self, call: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._call = call
        self._task: asyncio.Task[T] | None = None
        self.answers: SimpleQueue[asyncio.Task[T]] = SimpleQueue()
        loop.call_soon_threadsafe(self._begin)

    def give_up(self) -> bool:
        """Whether it will have no answer: its loop has ended. It may have been carried out all the same."""
        if not self._loop.is_closed() or not self.answers.empty():
            return False
        if self._task is None:
            self._call.close()
        return True

    def cancel(self) -> None:
        # Of a loop that has ended, nothing is left to be cancelled.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._call)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # seen, though nobody may wait for it any more
        self.answers.put(task)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _handed_over(call: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> _Asked[T]:
    asked, cause = None, None
    try:
        asked = _Asked(call, loop)
    except RuntimeError as error:
        cause = error
    # A signal's handler may end it between its look at itself and its taking the call, which raises nothing.
    if asked is None or asked.give_up():
        call.close()
        raise Closed("the event loop of this client has ended, and with it the client") from cause
    return asked


def _answered(asked: _Asked[T]) -> T:
    task = None
    try:
        while task is None and not asked.give_up():
            with suppress(Empty):
                task = asked.answers.get(timeout=LOOK_UP)
        if task is not None and not task.cancelled():
            return task.result()
    except BaseException:
        # Of what ended the wait; an answer that is there already is not changed by it.
        asked.cancel()
        raise
    finally:
        # An error's traceback leads here: what it is held by would never be let go.
        del asked, task
    raise StorageUnavailable("the client was closed while this was waited for")


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _core_of(client: Client) -> Core:
    return client._core.outside  # noqa: SLF001 - the other half of the client, in its thread
