"""A worker's time under one id: from registering to signing off, or to being fenced.

Rules
- Everything that runs is owned by one task group; the shift ends when that group has ended.
- A fenced shift writes nothing more: what it holds is dropped, its steps are cancelled, and the worker begins another
  shift under a new id.
- An orderly end claims no more, lets runs finish or come to where nothing of them runs, within the grace, and signs
  off; what is left is given back and burns no attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import msgspec

from runnerq.ids import new_token
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Claimed, ClaimRequest, Pulse
from runnerq.runtime.activity import HeldActivity
from runnerq.runtime.apart import Apart
from runnerq.runtime.cache import Cache
from runnerq.runtime.callbacks import first_of, log
from runnerq.runtime.claimer import Claimer
from runnerq.runtime.current import Means
from runnerq.runtime.effects import Effects
from runnerq.runtime.facts import Facts
from runnerq.runtime.feeding import Feeder
from runnerq.runtime.freed import Freed
from runnerq.runtime.gauging import Gauging
from runnerq.runtime.heartbeats import Heartbeats
from runnerq.runtime.held import HeldWorkflow
from runnerq.runtime.in_hand import InHand
from runnerq.runtime.leaks import close, keep
from runnerq.runtime.mailroom import Mailroom
from runnerq.runtime.maintenance import Inspector, Reaper
from runnerq.runtime.news import News
from runnerq.runtime.opening import stuck_by, timeout_of
from runnerq.runtime.over import Over
from runnerq.runtime.parts import HeldRun, Parts
from runnerq.runtime.registry import Registry, Target
from runnerq.runtime.reported import reported, writer_of
from runnerq.runtime.reporter import Reporter
from runnerq.runtime.settings import Settings
from runnerq.runtime.signing import row_of, sign_off
from runnerq.runtime.slots import Slots
from runnerq.runtime.surroundings import Surroundings
from runnerq.runtime.taking import Taking
from runnerq.runtime.threads import Threads
from runnerq.runtime.upkeep import upkeep
from runnerq.serialization.codec import Codec
from runnerq.telemetry.listeners import Telemetry
from runnerq.workflow.ending import Blocked
from runnerq.workflow.identity import NEVER
from runnerq.workflow.interpreter import Interpreter

TRANSACTIONS = 10
"""Transactions that are carried out at once: as many as a storage has connections for."""
NO_THREADS = 0
"""They are async, all of them."""


class Shift:
    """All that a worker has under one worker id."""

    def __init__(
        self,
        settings: Settings,
        storage: Storage,
        registry: Registry,
        codec: Codec,
        modules: frozenset[str],
        client: Any,
        surroundings: Surroundings,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._surroundings = surroundings
        self.worker_id = new_token()
        self.time = surroundings.time
        reporter = None if telemetry is None else Reporter(telemetry, self.worker_id, self.time)
        storage = reported(storage, reporter)
        self._reporter = reporter
        self._settings = settings
        self._storage = storage
        self._registry = registry
        self._definitions = registry.definitions(settings.build)
        self._held: dict[str, HeldRun] = {}
        self._slots = Slots(settings.max_workers, settings.queues, settings.served, settings.kept)
        self._freed = Freed()
        self.loop = asyncio.get_running_loop()
        self._over: asyncio.Future[Over] = self.loop.create_future()
        self._failure: BaseException | None = None
        self._empty = asyncio.Event()
        self._dropped = False
        self.writer = writer_of(
            storage, settings.max_workers, self._fail, lambda turn: self._free_slot(turn.run_id), reporter
        )
        self._apart = Apart(storage, self.writer, codec, reporter)
        self.beats = Heartbeats(codec)
        self.mailroom = Mailroom(storage, self._fail)
        threads = Threads(settings.max_threads)
        self.attempts = surroundings.attempts(threads, settings.max_steps, self._fail, self._may_begin, self._surely)
        self.transactions = surroundings.attempts(
            Threads(NO_THREADS), TRANSACTIONS, self._fail, self._may_begin, self._surely
        )
        self.attempts.listener = self.transactions.listener = reporter
        self.effects = Effects(storage, self._fail)
        self.cache: Cache = Cache(close, limit=settings.cache)
        each = (self.attempts, self.transactions)
        self._in_hand = InHand(self.worker_id, settings.max_workers, self._held, each, self.writer, self.cache)
        self.heart = surroundings.heart(
            storage.heart,
            worker_id=self.worker_id,
            interval=settings.beat,
            lease=settings.lease,
            on_pulse=self._pulse,
            on_fence=self._fence,
            fail=self._fail,
            load=self._in_hand.load,
            beats=self.beats,
        )
        self._taking = Taking(
            self._held,
            self._slots,
            registry,
            self.cache,
            self._apart,
            build=settings.build,
            may_begin=self._may_begin,
            sync=self.time.sync,
            make=self._made,
            stuck=lambda claimed, sealed: stuck_by(Blocked(str(sealed), error=sealed), claimed, self._parts),
            free=self._forget,
            close=close,
        )
        self._news = News(self.worker_id, self._held, surroundings.looks, self.heart.hurry)
        self.claimer = Claimer(
            storage,
            worker_id=self.worker_id,
            slots=settings.max_workers,
            queues=settings.queues,
            request=self._request,
            free=self._slots.free,
            held=self._tokens,
            take=self._taking.take,
            fail=self._fail,
            poll_interval=settings.poll_interval,
            timers=surroundings.looks,
        )
        self.reaper = Reaper(
            storage,
            worker_id=self.worker_id,
            good_beats=lambda: self.heart.good_beats,
            capped=self._apart.end_crash_loops,
            fail=self._fail,
            interval=settings.reaper_interval,
            batch=settings.reaper_batch,
            timers=surroundings.looks,
        )
        self._parts = Parts(
            storage=storage,
            writer=self.writer,
            mailroom=self.mailroom,
            attempts=self.attempts,
            transactions=self.transactions,
            effects=self.effects,
            cache=self.cache,
            feeder=Feeder(codec, modules),
            facts=Facts(),
            registry=registry,
            codec=codec,
            time=self.time,
            timers=surroundings.timers,
            chance=surroundings.chance,
            seed=surroundings.seed,
            drive=surroundings.drive,
            modules=modules,
            build=settings.build,
            build_seen=NEVER,
            max_depth=settings.max_depth,
            beats=self.beats,
            means=Means(self.beats, client, settings.max_depth),
            released=self._released,
            expect=self.claimer.expect,
            keep=keep,
            reporter=reporter,
        )

    # --- life ---------------------------------------------------------------------------------------------------------

    async def register(self) -> None:
        """Make this id known to the storage. Raises StorageUnavailable."""
        row = row_of(self.worker_id, self._settings)
        registered = await self._storage.register(row, self._definitions)
        if self._reporter is not None:
            self._reporter.joined(row)
        self.time.sync(registered.now)
        self._parts = msgspec.structs.replace(self._parts, build_seen=registered.build_seen)

    async def run(self, ready: Callable[[], None]) -> Over:
        """Work until stopped or fenced, and sign off; after ``register``. Raises what the worker cannot go on with."""
        settings, storage = self._settings, self._storage
        unsubscribe = storage.subscribe(self._news.hear)
        self.heart.start()
        looks = self._surroundings.looks
        loops = [
            self.writer.run(),
            self.mailroom.run(),
            self.attempts.run(),
            self.transactions.run(),
            self.effects.run(),
            self.claimer.run(),
            self.reaper.run(),
            Inspector(lambda: list(self._held.values()), interval=settings.poll_interval, timers=looks).run(),
            *upkeep(storage, settings, self._definitions, looks),
        ]
        if self._reporter is not None:
            loops.append(Gauging(storage, reporter=self._reporter, read=self._in_hand.read, timers=looks).run())
        left = "failed"
        try:
            async with asyncio.TaskGroup() as owned:
                tasks = [owned.create_task(loop) for loop in loops]
                ready()
                try:
                    over = await asyncio.shield(self._over)
                    if over is Over.STOPPED:
                        await self._drain()
                finally:
                    self._drop_all()
                    for task in tasks:
                        task.cancel()
            left = over.name.lower() if self._failure is None else left
        except asyncio.CancelledError:
            left = "cancelled"
            raise
        except BaseExceptionGroup as group:
            raise first_of(group) from None
        finally:
            unsubscribe()
            try:
                await self.heart.stop()
                await sign_off(storage, self.worker_id)
            finally:
                if self._reporter is not None:
                    self._reporter.left(left)
        if self._failure is not None:
            raise self._failure
        return over

    @property
    def is_over(self) -> bool:
        return self._over.done()

    def stop(self) -> None:
        """Have it end in good order."""
        self._finish(Over.STOPPED)

    async def idle(self) -> None:
        """Return when nothing is held and a claim has come back empty."""
        while True:
            await self.claimer.dry()
            if self._held:
                self._empty.clear()
                await self._empty.wait()
            elif not self._slots.narrow:
                return

    async def _drain(self) -> None:
        self._taking.stop()
        # First of all: what ends while the last claim is awaited must make no room for what only waited.
        self.attempts.stop()
        self.transactions.stop()
        for held in list(self._held.values()):
            held.stop()
        await self.claimer.stop()
        with anyio.move_on_after(self._settings.shutdown_grace):
            while self._held:
                self._empty.clear()
                await self._empty.wait()
            await self.writer.drain()
        if self._held:
            await self.heart.last_words()

    def _finish(self, over: Over) -> None:
        if not self._over.done():
            self._over.set_result(over)

    def _fail(self, error: BaseException) -> None:
        """The worker cannot go on with this; what it holds is given back."""
        if self._failure is None:
            self._failure = error
        self._finish(Over.FAILED)

    def _may_begin(self) -> bool:
        """Whether the lease surely holds. One that does not, as after a process stood still, leaves everything alone:
        what it has in its hands may be done elsewhere by now."""
        if self.heart.holds():
            return True
        # Also asked in steps' threads.
        self.loop.call_soon_threadsafe(self._fence, "its lease may have run out while it stood still")
        return False

    def _surely(self) -> bool:
        return self.heart.surely_holds()

    def _fence(self, reason: str) -> None:
        # Also while it drains: what it still runs may be done elsewhere by now.
        if self._dropped:
            return
        log.error("worker %d fences itself, and drops %d runs: %s", self.worker_id, len(self._held), reason)
        if self._reporter is not None:
            self._reporter.fenced(len(self._held), reason)
        self._drop_all()
        self._finish(Over.FENCED)

    def _drop_all(self) -> None:
        self._dropped = True
        self._taking.end()
        self.writer.abandon()
        self.mailroom.abandon()
        for held in list(self._held.values()):
            held.drop()
        self._held.clear()
        self._slots.clear()
        self._freed.clear()
        self._empty.set()
        self.cache.clear()
        self._news.close()

    # --- claims -------------------------------------------------------------------------------------------------------

    def _request(self, limit: int, token: int) -> ClaimRequest:
        pairs, held = self._slots.pairs(), self.cache.held()
        freed = self._freed.take()
        return ClaimRequest(worker_id=self.worker_id, token=token, pairs=pairs, limit=limit, held=held, freed=freed)

    def _tokens(self) -> Sequence[int]:
        tokens = {held.token for held in self._held.values()} | set(self._apart.tokens)
        if self.reaper.under_way is not None:
            tokens.add(self.reaper.under_way)
        return list(tokens)

    def _made(self, claimed: Claimed, target: Target, parked: Interpreter | None) -> HeldRun:
        self._freed.hold(claimed)
        if self._reporter is not None:
            self._reporter.claimed(claimed)
        if claimed.kind == "activity":
            return HeldActivity(claimed, target, self._parts)
        return HeldWorkflow(claimed, self._parts, timeout_of(claimed, target), parked)

    # --- what the held runs tell --------------------------------------------------------------------------------------

    def _released(self, held: HeldRun) -> None:
        if self._held.get(held.run_id) is held:
            del self._held[held.run_id]
            self._forget(held.run_id)
            if self._freed.let_go(held.run_id):
                # Whoever waits for that place is to have it now, be the free slots as few as they may.
                self.claimer.look()
        if not self._held:
            self._empty.set()

    def _forget(self, run_id: str) -> None:
        if self._reporter is not None:
            self._reporter.released(run_id)
        self._free_slot(run_id)

    def _free_slot(self, run_id: str) -> None:
        if self._slots.has(run_id):
            if self._slots.give(run_id):
                self.claimer.look()
            else:
                self.claimer.freed()

    def _pulse(self, pulse: Pulse) -> None:
        self.attempts.resume()
        self.transactions.resume()
        self._news.pulse(pulse)
        if self._reporter is not None:
            self._reporter.beaten()
        if pulse.drain and not self._over.done():
            log.info("worker %d was asked to stop in order: it claims no more", self.worker_id)
            self.stop()
