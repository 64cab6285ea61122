"""A worker's time under one id: fencing, outages of the storage, and what it cannot go on with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from runnerq.errors import SchemaError, StorageUnavailable
from runnerq.persistence.records import Status, Turn, Verdict
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, HeartClock, Stage, Tapped, soon

WORDS: Signal[str] = Signal("words", str)


class Away(Tapped):
    """A storage that does not answer while ``away`` names the verb."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage)
        self.away: set[str] = set()
        self.registered: list[int] = []
        self.refused: list[str] = []
        self.beaten = lambda: self._answer("beat")

    def _answer(self, verb: str) -> None:
        if verb in self.away:
            self.refused.append(verb)
            raise StorageUnavailable(f"{verb}: no answer")

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        self._answer("commit")
        return await super().commit(turns)

    async def register(self, worker: Any, definitions: Any) -> Any:
        self._answer("register")
        self.registered.append(worker.id)
        return await self._storage.register(worker, definitions)

    async def give_back(self, worker_id: int) -> int:
        self._answer("give_back")
        return await self._storage.give_back(worker_id)

    async def claim(self, request: Any) -> Any:
        self._answer("claim")
        return await super().claim(request)


ALL = {"beat", "commit", "register", "give_back", "claim"}


class Work:
    """A step that runs until it is cancelled the first time, and answers the second time."""

    def __init__(self) -> None:
        self.begun = Gate()
        self.heard: list[str] = []

    async def __call__(self) -> str:
        if self.begun.come.is_set():
            self.heard.append("answered")
            return "done"
        self.begun.come.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.heard.append("cancelled")
            raise
        return "never"


def order_of(work: Work) -> Any:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.options(name="work", retry=1).step(work))

    return order


async def test_a_worker_that_cannot_beat_drops_everything_and_goes_on_under_a_new_id(memory: Stage) -> None:
    work = Work()
    order = order_of(work)
    away = Away(memory.storage)
    stage = memory.on(away)
    hearts = HeartClock()
    async with stage.worker(order, beat=0.05, surroundings=hearts.surroundings) as worker:
        run = await stage.client.start(order)
        await work.begun.somebody()
        first = worker.worker_id
        away.away.add("beat")
        await soon(lambda: away.refused)
        hearts.ahead = 3600
        await soon(lambda: work.heard == ["cancelled"])
        away.away.clear()
        assert await run.result(timeout=SOON) == "done"
        assert worker.worker_id != first
    assert len(away.registered) == len(set(away.registered)) == 2
    # It fenced itself before its lease ran out: no crash, and no attempt is burnt.
    assert [claimed.crashes for claim in away.claims for claimed in claim.runs] == [0, 0]
    assert [len(turn.attempts) for turn in away.turns_of(run.id)] == [0] * len(away.turns_of(run.id))
    await memory.no_gaps(run.id)


async def test_an_outage_longer_than_a_lease_is_survived_and_what_was_asked_is_done(memory: Stage) -> None:
    work = Work()
    order = order_of(work)
    away = Away(memory.storage)
    stage = memory.on(away)
    async with stage.worker(order, lease=0.4, beat=0.05, reaper_interval=0.05):
        run = await stage.client.start(order)
        await work.begun.somebody()
        away.away |= ALL
        await soon(lambda: away.refused.count("register") >= 2)
        away.away.clear()
        assert await run.result(timeout=SOON) == "done"
    assert work.heard == ["cancelled", "answered"]
    await memory.no_gaps(run.id)


async def test_a_worker_can_be_stopped_while_the_storage_is_away(memory: Stage) -> None:
    order = order_of(Work())
    away = Away(memory.storage)
    stage = memory.on(away)
    worker = stage.worker(order, lease=0.4, beat=0.05)
    running = asyncio.create_task(worker.run())
    await soon(lambda: away.registered)
    away.away |= ALL
    await soon(lambda: away.refused.count("register") >= 2)
    await asyncio.wait_for(worker.stop(), SOON)
    await asyncio.wait_for(running, SOON)


async def test_a_worker_that_was_reaped_writes_nothing_more(memory: Stage) -> None:
    gate = Gate()

    @activity
    async def work() -> str:
        await gate.pass_through()
        return "from the reaped worker"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(work))

    tapped = Tapped(memory.storage)
    stage = memory.on(tapped)
    async with stage.worker(order, beat=0.05) as worker:
        run = await stage.client.start(order)
        await gate.somebody()
        reaped = worker.worker_id
        with memory.storage.writing() as (book, now):  # type: ignore[attr-defined]
            book.workers[reaped].reaped_at = now
        await soon(lambda: worker.worker_id != reaped)
        written = len(tapped.turns_of(run.id))
        gate.open()
        assert await run.result(timeout=SOON) == "from the reaped worker"
    # What was written since carries another token than what was written before.
    turns = tapped.turns_of(run.id)
    assert {turn.token for turn in turns[:written]}.isdisjoint({turn.token for turn in turns[written:]})


async def test_results_are_kept_and_written_again_while_commits_have_no_answer(memory: Stage) -> None:
    ran: list[int] = []

    @activity
    async def work(number: int) -> int:
        ran.append(number)
        return number

    @workflow
    def order(ctx: Context) -> Flow[int]:
        total = 0
        for number in range(5):
            total += yield from ctx.step(work, number)
        return total

    class Unclear(Tapped):
        """Every other commit is written, and its reply is lost."""

        count = 0

        async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
            verdicts = await super().commit(turns)
            self.count += 1
            if self.count % 2:
                raise StorageUnavailable("the reply was lost")
            return verdicts

    stage = memory.on(Unclear(memory.storage))
    async with stage.serving(order) as client:
        run = await client.start(order)
        assert await run.result(timeout=SOON) == 10
    assert ran == [0, 1, 2, 3, 4]
    await memory.no_gaps(run.id)


@pytest.mark.parametrize("verb", ["commit", "claim"])
async def test_a_schema_that_changed_under_it_ends_the_worker_with_that_error(memory: Stage, verb: str) -> None:
    class Changed(Tapped):
        async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
            if verb == "commit":
                raise SchemaError("the schema is newer than this code")
            return await super().commit(turns)

        async def claim(self, request: Any) -> Any:
            if verb == "claim":
                raise SchemaError("the schema is newer than this code")
            return await super().claim(request)

    order = order_of(Work())
    stage = memory.on(Changed(memory.storage))
    worker = stage.worker(order)
    run = await stage.client.start(order)
    with pytest.raises(SchemaError):
        await asyncio.wait_for(worker.run(), SOON)
    assert await run.status() is Status.PENDING


async def test_a_claim_whose_reply_was_lost_leaves_no_run_stuck(memory: Stage) -> None:
    class Lossy(Tapped):
        lost = 0

        async def claim(self, request: Any) -> Any:
            claim = await super().claim(request)
            if claim.runs and not self.lost:
                self.lost += 1
                raise StorageUnavailable("the reply was lost")
            return claim

    @workflow
    def order(ctx: Context) -> Flow[str]:
        yield ctx.sleep(0)
        return "done"

    lossy = Lossy(memory.storage)
    async with memory.on(lossy).serving(order) as client:
        run = await client.start(order)
        assert await run.result(timeout=SOON) == "done"
    assert lossy.lost == 1


async def test_a_claim_that_took_longer_than_the_lease_is_left_alone(memory: Stage) -> None:
    """As after a process stood still: what it has in its hands may be done elsewhere by now."""
    ran: list[str] = []

    @activity
    async def work() -> str:
        ran.append("ran")
        return "done"

    class Slow(Away):
        late = False

        async def claim(self, request: Any) -> Any:
            claim = await super().claim(request)
            if claim.runs and not self.late:
                self.late = True
                self.away.add("beat")
                # The loop stands still past the lease, with the reply in its hands.
                time.sleep(0.6)  # noqa: ASYNC251
                self.away.clear()
            return claim

    slow = Slow(memory.storage)
    stage = memory.on(slow)
    async with stage.worker(work, lease=0.4, beat=0.05) as worker:
        run = await stage.client.start(work)
        first = worker.worker_id
        assert await run.result(timeout=SOON) == "done"
        assert worker.worker_id != first
    assert ran == ["ran"]
    assert len(slow.registered) > 1
