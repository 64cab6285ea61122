"""Keeps a worker's leases, from a thread and a connection of its own, so that a blocked event loop keeps them too.

Rules
- One row a worker is beaten, every ``interval``; the reply goes to the worker's event loop.
- A worker that cannot beat fences itself, a margin before its lease runs out by the clock of its last good beat, taken
  when that beat was sent. One that is told that it was reaped is fenced at once.
- A worker whose connection is gone is taken for gone itself VISIBLY_GONE seconds after its last beat. It cannot know
  whether its own is, so it begins nothing while its last good beat is nearly as old as that.
- A fenced heart never beats again: a late beat would keep the leases of runs that nobody works on.
- While the event loop has not turned for STALLED seconds, nothing is beaten: such a worker is as good as gone. Long
  before, the watchdog says what holds it up.
- A beat that is given up drops its connection, and the next one opens another. After an error the storage knows whether
  its connection can still be used: dropping it would tell the others that this worker is gone.
- A beat carries what the worker has in hand and what its attempts say of themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from runnerq.persistence.protocol import Heart
from runnerq.persistence.records import VISIBLY_GONE, Load, Pulse
from runnerq.runtime.callbacks import Fail, log, report
from runnerq.runtime.heartbeats import Heartbeats
from runnerq.runtime.watchdog import Watchdog

STALLED = 900.0
SURE = 0.5
"""Seconds before VISIBLY_GONE from which a worker is no longer sure of its runs."""
CLOSING = 1.0
"""Seconds that closing a connection may take."""
STOPPING = 3.0
"""Seconds that the thread may take to stop."""
AGAIN = 0.1
"""Seconds after a beat that failed at which it is tried again, doubling up to the interval: a connection that was cut
must not make this worker look gone."""
LAST_WORDS = 2.0
"""Seconds that a worker in good order waits for what its attempts have said to be written."""


def margin(lease: float) -> float:
    """Seconds before the end of a lease at which a worker that cannot beat gives up."""
    return min(5.0, lease / 4)


def patience(interval: float, lease: float) -> float:
    """Seconds after which a beat without a reply is given up: a silent connection leaves time for another."""
    return max(2 * interval, lease / 6)


class HeartThread:
    """Beats for one worker id. Made on the event loop that is told; both callbacks are called there.

    ``heart`` makes the thread's own way to the storage (``storage.heart``). ``on_fence(reason)`` is told once, and
    nothing after it. ``load`` is called in the thread. ``since`` is the monotonic time just before the worker
    registered.
    """

    def __init__(
        self,
        heart: Callable[[], Heart],
        *,
        worker_id: int,
        interval: float,
        lease: float,
        on_pulse: Callable[[Pulse], None],
        on_fence: Callable[[str], None],
        fail: Fail,
        load: Callable[[], Load],
        beats: Heartbeats,
        since: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._make = heart
        self._worker_id = worker_id
        self._interval = interval
        self._lease = lease
        self._on_pulse = on_pulse
        self._on_fence = on_fence
        self._fail = fail
        self._load = load
        self._beats = beats
        self._beaten = asyncio.Event()
        self._clock = clock
        self._beaten_at = clock() if since is None else since
        self._holds_until = self._beaten_at + lease - margin(lease)
        self._surely_until = self._sure_for(self._beaten_at)
        self._turned_at = clock()
        self._watchdog = Watchdog(worker_id)
        self._good = 0
        self._failures = 0
        self._fenced = False
        self._fence_told = False
        self._stopped = False
        self._began = False
        self._heart: Heart | None = None
        self._beating: asyncio.Task[None] | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._hurried = asyncio.Event()
        self._thread = threading.Thread(target=self._work, name="runnerq-heart", daemon=True)

    @property
    def good_beats(self) -> int:
        """How many beats in a row have succeeded, without a gap between them."""
        return self._good

    def holds(self) -> bool:
        """Whether the lease surely holds now, by the clock of the last good beat; from any thread."""
        return self._clock() < self._holds_until

    def surely_holds(self) -> bool:
        """Whether nobody can have taken this worker for gone yet; from any thread."""
        return self._clock() < self._surely_until

    def start(self) -> None:
        """Begin to beat."""
        self._began = True
        self._thread.start()

    def hurry(self) -> None:
        """Beat now, and so hear at once what has come for the runs that are held."""
        if self._own_loop is not None:
            with contextlib.suppress(RuntimeError):
                self._own_loop.call_soon_threadsafe(self._hurried.set)

    async def last_words(self) -> None:
        """Return when what attempts have said is written, or will not be soon."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                while self._began and not self._fenced and self._beats.waiting:
                    self._beaten.clear()
                    self.hurry()
                    await self._beaten.wait()
                    if self._beats.waiting:
                        # Somebody holds a row: not as fast as the storage answers.
                        await asyncio.sleep(self._interval / 10)

    async def stop(self) -> None:
        """Beat no more; return when the connection is closed, or will not be."""
        self._stopped = True
        if not self._began:
            return
        if self._own_loop is not None:
            with contextlib.suppress(RuntimeError):
                # The thread may have ended by itself in this moment.
                self._own_loop.call_soon_threadsafe(self._cancel)
        try:
            async with asyncio.timeout(STOPPING):
                await self._over.wait()
        except TimeoutError:
            log.warning("the heart of worker %d does not stop; its thread is left behind", self._worker_id)

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            asyncio.run(self._beat_on())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - a thread has nobody else to tell
            log.error("the heart of worker %d failed: %r", self._worker_id, error, exc_info=error)
            self._give_up(f"the heartbeat failed: {error!r}")
        self._tell(self._over.set)

    def _cancel(self) -> None:
        if self._beating is not None:
            self._beating.cancel()

    async def _beat_on(self) -> None:
        self._own_loop = asyncio.get_running_loop()
        self._beating = asyncio.current_task()
        try:
            while not self._stopped and not self._fenced:
                began = self._clock()
                self._tell(self._turned)
                self._watchdog.look(began - self._turned_at)
                if began - self._turned_at > STALLED:
                    self._good = 0
                else:
                    await self._beat(began)
                left = self._holds_until - self._clock()
                if left <= 0:
                    self._give_up("no beat succeeded for nearly as long as its lease")
                else:
                    await self._rest(min(max(0.0, began + self._pause() - self._clock()), left))
        finally:
            await self._drop()

    def _pause(self) -> float:
        """Seconds from the beginning of one beat to the next."""
        return min(self._interval, AGAIN * 2.0 ** (self._failures - 1)) if self._failures else self._interval

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurried.wait()
        self._hurried.clear()

    async def _beat(self, began: float) -> None:
        left = self._holds_until - began
        if left <= 0:
            # The process stood still: too late, whatever a beat would say.
            return
        said = self._beats.take()
        try:
            async with asyncio.timeout(min(left, patience(self._interval, self._lease))):
                if self._heart is None:
                    heart = self._make()
                    await heart.open()
                    self._heart = heart
                pulse = await self._heart.beat(self._worker_id, self._load(), said)
        except Exception as error:  # noqa: BLE001 - whatever it was, the next beat tries again, until the fence
            log.warning("worker %d could not beat: %r", self._worker_id, error)
            self._beats.lost(said)
            self._good = 0
            self._failures = min(self._failures + 1, 60)
            if isinstance(error, TimeoutError):
                await self._drop()
            return
        self._failures = 0
        self._beats.written(said, pulse.held_back)
        if not pulse.alive:
            self._give_up("reaped")
            return
        steady = began - self._beaten_at < max(3 * self._interval, self._lease / 4)
        self._good = self._good + 1 if steady else 1
        self._beaten_at = began
        self._holds_until = began + self._lease - margin(self._lease)
        self._surely_until = self._sure_for(began)
        self._tell(self._pulse, pulse)

    def _sure_for(self, beaten_at: float) -> float:
        # One that beats as seldom as that relies on its connection, as whoever set it so.
        return beaten_at + min(max(VISIBLY_GONE - SURE, 2 * self._interval), self._lease - margin(self._lease))

    async def _drop(self) -> None:
        heart, self._heart = self._heart, None
        if heart is not None:
            try:
                async with asyncio.timeout(CLOSING):
                    await heart.close()
            except Exception as error:  # noqa: BLE001 - it was broken anyway
                log.debug("closing a broken heart: %r", error)

    def _give_up(self, reason: str) -> None:
        if self._fenced:
            return
        self._fenced = True
        self._good = 0
        # From now on nothing begins, whatever the event loop does before it hears why.
        self._holds_until = float("-inf")
        self._tell(self._fence, reason)

    def _tell(self, told: Callable[..., Any], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):
            # The worker's event loop may be closed: then there is nobody to tell.
            self._loop.call_soon_threadsafe(told, *args)

    # --- on the worker's event loop -----------------------------------------------------------------------------------

    def _turned(self) -> None:
        self._turned_at = self._clock()

    def _pulse(self, pulse: Pulse) -> None:
        self._beaten.set()
        if self._stopped or self._fenced:
            return
        try:
            self._on_pulse(pulse)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the heart beats on
            report(error, "taking a heartbeat's reply failed", self._fail)

    def _fence(self, reason: str) -> None:
        if self._stopped or self._fence_told:
            return
        self._fence_told = True
        try:
            self._on_fence(reason)
        except BaseException as error:  # noqa: BLE001 - as in _pulse
            report(error, "fencing the worker failed", self._fail)
