"""A client whose waiting moves the test's time, and what its runs are watched by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from datetime import datetime
from typing import Any, TypeVar, cast

from runnerq.client.base import PAYLOAD_LIMIT
from runnerq.client.client import Client
from runnerq.client.core import Core, Given, ended
from runnerq.client.hub import Stirs
from runnerq.client.info import waiting_for
from runnerq.client.options import NO_OPTIONS
from runnerq.client.readable import block_of
from runnerq.errors import RunBlocked
from runnerq.persistence.coded import Opening
from runnerq.persistence.records import Claimed, Outcome, Stuck, Turn
from runnerq.runtime.ground import Ground
from runnerq.runtime.registry import Registry
from runnerq.runtime.retention import Retention
from runnerq.runtime.worker import Worker
from runnerq.serialization.chains import Codecs, chain_of
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import modules_snapshot
from runnerq.serialization.sealing import Chain
from runnerq.telemetry.listeners import Listener, Telemetry, telemetry_of
from runnerq.testing.redrive import Redriver
from runnerq.testing.stage import NothingLeft, Stage
from runnerq.testing.surroundings import StageSurroundings, StandingTime
from runnerq.workflow.journal import Row

T = TypeVar("T")

BUILD = "test"
MANY_RUNS = 1000
MAX_DEPTH = 32


class StageCore(Core):
    """A client's verbs, whose waiting moves the test's time."""

    def __init__(
        self, stage: Stage, codec: Codec, chain: Chain | None = None, telemetry: Telemetry | None = None
    ) -> None:
        super().__init__(Given(stage.storage), stage.storage, codec, chain, telemetry)
        self.stage = stage
        self.causes: dict[str, BaseException] = {}

    async def result(self, run_id: str, returns: Any, timeout: float | None, known: bool) -> Any:  # noqa: ARG002 - looking it up costs nothing here
        async def look() -> Outcome | None:
            return await self.came_to_an_end(run_id)

        return await self._answer(await self._watch(run_id, look, timeout, "its result"), returns)

    async def came_to_an_end(self, run_id: str) -> Outcome | None:
        """How the run ended, if it has. Raises what is wrong with it or its tree: RunBlocked, NondeterminismError."""
        record = await self.record(run_id)
        self.stage.faults.check(record.root_id)
        blocked = self.stage.storage.blocked_in(record.root_id)
        if blocked is not None:
            blocked = await block_of(self.storage, blocked.run_id) or blocked
            name = (await self.record(blocked.run_id)).name
            raise RunBlocked(blocked.run_id, name, blocked) from self.causes.get(blocked.run_id)
        return ended(record)

    async def stirred(self, stirs: Stirs) -> None:
        # No polling: a timer of the loop would keep the test's time from moving.
        await stirs.heard()

    async def _watch(self, run_id: str, look: Callable[[], Awaitable[T | None]], timeout: float | None, what: str) -> T:
        since = self.stage.now()
        try:
            found = await self.stage.until(look, timeout)
        except NothingLeft:
            waits = waiting_for(await self.record(run_id))
            why = f"; it waits for {waits}" if waits else ""
            waited = (self.stage.now() - since).total_seconds()
            raise await self._late(run_id, waited, f"{what}, and nothing is left that could happen{why}") from None
        if found is None:
            raise await self._late(run_id, timeout, what)
        return found


class StageClient(Client):
    """A client on a stage of its own."""

    def __init__(
        self,
        start: datetime | None = None,
        *,
        codec: Codecs | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        listeners: Iterable[Listener] = (),
    ) -> None:
        chain, telemetry = chain_of(codec, payload_limit), telemetry_of(listeners)
        self._core = StageCore(Stage(start), Codec(payload_limit), chain, telemetry)
        self._options = NO_OPTIONS

    @property
    def stage(self) -> Stage:
        """The clock, the storage and what moves them; of the testing kit alone."""
        return self._staged.stage

    @property
    def _staged(self) -> StageCore:
        return cast("StageCore", self._core)

    async def open(self) -> None:
        await super().open()
        self.stage.open()

    async def close(self) -> None:
        await self.stage.close()
        await super().close()

    async def came_to_an_end(self, run_id: str) -> Outcome | None:
        """See ``StageCore``."""
        return await self._staged.came_to_an_end(run_id)

    def watch(self, workflows: Iterable[Callable[..., Any]], activities: Iterable[Callable[..., Any]]) -> None:
        """Drive runs of these again at each turn."""
        stage = self.stage
        ground = Ground(
            registry=Registry(workflows, activities),
            codec=self.codec,
            time=StandingTime(stage.clock),
            modules=modules_snapshot(),
            build=BUILD,
            build_seen=stage.now(),
            max_depth=MAX_DEPTH,
            seed=stage.seed,
            drive=lambda run_id: stage.drive(run_id, copy_context()),
        )
        chain = self._core.chain
        opening = None if chain is None else Opening(chain)
        stage.storage.look = Looking(stage, Redriver(ground), self._staged.causes, opening)


class Looking:
    """Looks at each written turn: drives the run again, and remembers what is wrong with it. ``opening`` opens what is
    stored, where codecs seal it."""

    def __init__(
        self, stage: Stage, redriver: Redriver, causes: dict[str, BaseException], opening: Opening | None = None
    ) -> None:
        self._opening = opening
        self._stage = stage
        self._redriver = redriver
        self._causes = causes

    def __call__(self, claimed: Claimed, turn: Turn, rows: Sequence[Row]) -> None:
        self._stage.roots[claimed.id] = claimed.root_id
        if self._opening is not None:
            rows = self._opening.rows(rows, turn.run_id, turn.generation)
            claimed, turn = self._opening.claimed(claimed), self._opening.end_of(turn)
        if isinstance(turn.move, Stuck):
            cause = self._redriver.cause(claimed, turn, rows)
            if cause is not None:
                self._causes[claimed.id] = cause
            return
        fault = self._redriver.fault(claimed, turn, rows)
        if fault is not None:
            self._stage.faults.add(claimed.root_id, fault)


def worker_of(
    client: Any,
    stage: Stage,
    workflows: Sequence[Callable[..., Any]],
    activities: Sequence[Callable[..., Any]],
    cache: int = 0,
    retention: Retention | None = None,
) -> Worker:
    """A worker on the stage."""
    return Worker(
        client,
        workflows=workflows,
        activities=activities,
        max_workers=MANY_RUNS,
        max_depth=MAX_DEPTH,
        shutdown_grace=0,
        cache=cache,
        retention=retention,
        build=BUILD,
        surroundings=lambda: StageSurroundings(stage),
    )
