"""Claims ready runs into free slots, one claim at a time.

Rules
- The truth is polling: every ``poll_interval``, jittered. A wake that names one of our queues, a run that falls due and
  a full claim only make it look sooner. After news it looks again soon and then ever less often, because a claim may
  have skipped what others held for a moment.
- What is news while a claim is out leads to another claim: the first one may have looked before.
- With many slots it waits until a quarter of them (at most 100) is free, so that claims are batches; but never longer
  than 10 ms, because the held runs may be long ones.
- Where more is ready and slots are left, the next claim is sent before the runs of the last one are begun: the server
  works on one while Python works on the other.
- At the time of the next due run, which the last claim's reply or ``expect`` named, it makes what is due ready, then
  claims. A rate that lets in the next run counts as such a time.
- A claim that has no answer may have asked for more than can be read in time: the next one is for a quarter of it, and
  each that has one lets the next be twice as large.
- Between claims, about once a second, it gives back what carries this worker's id under a token that is not held. So a
  claim whose reply was lost or late leaves no run stuck: its token is simply forgotten. A claim is never out meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from runnerq.errors import SchemaError, StorageUnavailable
from runnerq.ids import new_token
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Claim, ClaimRequest, Wake
from runnerq.runtime.callbacks import Fail, away, doubling, jittered, log, report
from runnerq.runtime.reading import SLACK
from runnerq.runtime.timers import Timers

LARGEST_CLAIM = 500
PATIENCE = 0.01
"""Seconds after a claim for which it waits for more free slots."""
FIRST_LOOK = 0.02
"""Seconds after news at which it looks again; doubling to the poll interval."""
DUE_BATCH = 500
RELEASE_INTERVAL, RELEASE_MOST = 1.0, 30.0
"""Seconds between two givings back; where they fail (a run's row may be held by somebody's transaction), doubling."""

_NEVER = float("inf")
T = TypeVar("T")

Request: TypeAlias = Callable[[int, int], ClaimRequest]
Take: TypeAlias = Callable[[Claim], Callable[[], None]]


class _Sent(msgspec.Struct, frozen=True):
    """A claim that is out."""

    number: int
    limit: int
    reply: asyncio.Task[Claim]


class Claimer:
    """Claims for one worker id. ``free`` says how many slots are free, ``held`` which tokens the worker holds.

    ``request(limit, token)`` makes the request, ``take(claim)`` puts what was claimed into slots, and answers with what
    begins it. ``held`` must name the token of every run that the worker still has any business with, a run it is
    reaping included.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        worker_id: int,
        slots: int,
        queues: Collection[str],
        request: Request,
        free: Callable[[], int],
        held: Callable[[], Sequence[int]],
        take: Take,
        fail: Fail,
        timers: Timers,
        poll_interval: float = 5.0,
        token: Callable[[], int] = new_token,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._timers = timers
        self._storage = storage
        self._worker_id = worker_id
        self._slots = slots
        self._enough = min(100, max(1, slots // 4))
        self._queues = frozenset(queues)
        self._request = request
        self._free = free
        self._held = held
        self._take = take
        self._fail = fail
        self._poll_interval = poll_interval
        self._token = token
        self._asleep: asyncio.Future[None] | None = None
        self._out: _Sent | None = None
        self._stopping = False
        self._began = False
        self._ended = asyncio.Event()
        now = self._timers.time()
        self._look_at = now
        self._due_at = _NEVER
        self._release_at = now + jittered(RELEASE_INTERVAL)
        self._not_before = now
        self._claimed_at = now - PATIENCE
        self._pause = FIRST_LOOK
        self._heard = False
        self._expected = _NEVER
        self._vain = 0
        self._thirsty: list[tuple[int, asyncio.Future[None]]] = []
        self._most = LARGEST_CLAIM
        self._failures = 0
        self._unexpected = 0
        """Since a claim brought runs. What nothing can be made of is given back, and comes again after empty claims."""
        self._unreleased = 0
        self.claims = 0

    @property
    def fails(self) -> bool:
        """Whether the last claim had no answer, or was refused."""
        return self._failures > 0

    # --- news ---------------------------------------------------------------------------------------------------------

    def freed(self) -> None:
        """A slot has become free. Cheap: called for every run."""
        if self._asleep is not None:
            free = self._free()
            if free >= self._enough or free == 1:
                self._wake()

    def look(self) -> None:
        """Something may be claimed for again that could not be a moment ago, and may be ready."""
        self._heard = True
        self._look_at = self._timers.time()
        self._wake()

    def expect(self, seconds: float) -> None:
        """A run falls due in so many seconds: one that was just parked, say, which no claim's reply has named yet."""
        at = self._timers.time() + seconds + SLACK
        self._expected = min(self._expected, at)
        if at < self._due_at:
            self._due_at = at
            self._wake()

    def _hear(self, wake: Wake) -> None:
        if not self._queues.isdisjoint(wake.queues):
            self._pause = FIRST_LOOK
            self.look()

    def _wake(self) -> None:
        asleep = self._asleep
        if asleep is not None and not asleep.done():
            asleep.set_result(None)

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Claim until stopped.

        Raises:
            SchemaError: the schema is no longer the one this code knows.
        """
        self._began = True
        unsubscribe = self._storage.subscribe(self._hear)
        try:
            while not self._stopping or self._out is not None:
                try:
                    await self._look()
                    self._failures = 0
                except SchemaError:
                    raise
                except StorageUnavailable as error:
                    self._back_off(f"the storage does not answer: {error}", self._failures + 1)
                except Exception as error:  # noqa: BLE001 - a claim that fails is tried again, whatever it was
                    log.error("claiming failed: %r", error, exc_info=error)
                    self._unexpected += 1
                    self._back_off("claiming is tried again", self._unexpected)
        finally:
            if self._out is not None:
                self._out.reply.cancel()
            unsubscribe()
            self._ended.set()
            self._found_dry(self.claims + 1)

    async def stop(self) -> None:
        """Claim no more; return when no claim is out. What a claim on its way brings is still taken."""
        self._stopping = True
        self._wake()
        if self._began:
            await self._ended.wait()

    async def dry(self) -> None:
        """Look at once; return when a claim that began after this call has come back empty, or claiming has ended."""
        if self._stopping or self._ended.is_set():
            return
        found: asyncio.Future[None] = self._loop.create_future()
        self._thirsty.append((self.claims, found))
        self._look_at = self._timers.time()
        self._wake()
        await found

    def _found_dry(self, claim: int) -> None:
        """Claim number ``claim`` was empty: tell those who asked before it began."""
        still = []
        for asked_after, found in self._thirsty:
            if found.done():
                continue
            if asked_after < claim:
                found.set_result(None)
            else:
                still.append((asked_after, found))
        self._thirsty = still

    async def _look(self) -> None:
        while (wait := self._next() - self._timers.time()) > 0:
            await self._sleep(wait)
            if self._stopping:
                return
        if self._out is not None:
            await self._answer(self._out)
            return
        if self._due_at <= self._timers.time():
            await self._wake_due()
        if self._look_at <= self._timers.time() and self._free() > 0 and not self._stopping:
            await self._answer(self._send())
        if self._release_at <= self._timers.time() and not self._stopping and not self._is_out():
            await self._give_back()

    def _next(self) -> float:
        """When there is something to do; news may bring it forward."""
        if self._out is not None:
            return 0.0
        at = min(self._release_at, self._due_at)
        free = self._free()
        if free >= self._enough:
            at = min(at, self._look_at)
        elif free > 0:
            at = min(at, max(self._look_at, self._claimed_at + PATIENCE))
        return max(at, self._not_before)

    def _is_out(self) -> bool:
        return self._out is not None

    async def _sleep(self, seconds: float) -> None:
        asleep = self._asleep = self._loop.create_future()
        timer = self._timers.call_later(seconds, self._wake)
        try:
            await asleep
        finally:
            timer.cancel()
            self._asleep = None

    async def _give_back(self) -> None:
        try:
            await self._storage.release(self._worker_id, self._held())
        except SchemaError:
            raise
        except Exception as error:  # noqa: BLE001 - claims go on where this fails, even for good
            self._unreleased += 1
            wait = doubling(self._unreleased, RELEASE_INTERVAL, RELEASE_MOST)
            log.warning("giving back what is not held failed; next try in %.2g s: %r", wait, error)
        else:
            self._unreleased = 0
            wait = jittered(RELEASE_INTERVAL)
        self._release_at = self._timers.time() + wait

    def _back_off(self, what: str, tries: int) -> None:
        self._failures += 1
        wait = away(tries)
        log.warning("%s; next try in %.2g s", what, wait)
        self._not_before = self._timers.time() + wait

    async def _wake_due(self) -> None:
        # Whatever comes of it, the next claim's reply says when to look again.
        self._expected = self._due_at = _NEVER
        self._look_at = self._timers.time()
        self._pause = FIRST_LOOK
        woken = await self._storage.wake_due(DUE_BATCH)
        self._vain = 0 if woken else self._vain + 1
        if woken == DUE_BATCH:
            self._due_at = self._timers.time()

    def _send(self) -> _Sent:
        """Send a claim for what is free; its reply is the next thing to look at."""
        limit = min(self._free(), self._most)
        request = self._request(limit, self._token())
        self._heard = False
        self._expected = _NEVER
        self._claimed_at = self._timers.time()
        self.claims += 1
        reply = self._loop.create_task(self._storage.claim(request))
        self._out = _Sent(self.claims, limit, reply)
        return self._out

    async def _answer(self, sent: _Sent) -> None:
        """Take what a claim brings."""
        try:
            claim = await sent.reply
        except StorageUnavailable:
            self._most = max(1, sent.limit // 4)
            raise
        finally:
            self._out = None
        self._most = min(LARGEST_CLAIM, 2 * self._most)
        now = self._timers.time()
        if claim.runs:
            self._unexpected = 0
        self._due_at = min(self._due(claim, now), self._expected)
        if not (claim.runs or claim.more):
            self._found_dry(sent.number)
        if self._heard or self._thirsty or len(claim.runs) >= sent.limit or (claim.runs and claim.more):
            self._pause = FIRST_LOOK
            self._look_at = now
        else:
            self._pause = FIRST_LOOK if claim.runs or claim.more else min(self._pause * 2, self._poll_interval)
            self._look_at = now + jittered(min(self._pause, self._poll_interval))
        begin = self._guarded(lambda: self._take(claim), len(claim.runs))
        if begin is None:
            return
        try:
            if len(claim.runs) >= sent.limit and self._free() >= self._enough and not self._stopping:
                self._send()
                # So that it is on its way before this loop is busy with the runs that have come.
                await asyncio.sleep(0)
        finally:
            self._guarded(begin, len(claim.runs))

    def _guarded(self, act: Callable[[], T], runs: int) -> T | None:
        """What it answers; None if it fails, for the loop goes on until the worker stops it."""
        try:
            return act()
        except BaseException as error:  # noqa: BLE001 - whatever it is
            report(error, f"taking {runs} claimed runs failed", self._fail)
            return None

    def _due(self, claim: Claim, now: float) -> float:
        if claim.next_due is None:
            return _NEVER
        at = now + max(0.0, (claim.next_due - claim.now).total_seconds()) + SLACK
        if claim.next_due > claim.now:
            # Nothing was held up: what the last look found too early, or taken by others, is another time's.
            self._vain = 0
        if self._vain:
            # It was due, and somebody's transaction holds it: not in a tight loop.
            at = max(at, now + doubling(self._vain, 2 * SLACK, self._poll_interval))
        return at
