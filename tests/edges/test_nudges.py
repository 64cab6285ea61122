"""What comes for a running run reaches it with the next beats of its worker, also where no wake-up is heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from runnerq.client.client import Client
from runnerq.persistence.protocol import Heart
from runnerq.persistence.records import Details, Load, Pulse, RunFilter, Wake
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped

WORDS: Signal[str] = Signal("words", str)
BEATS = 2
"""Beats by which it is told: one may have been under way. At the default of a beat a second, two seconds."""


class Deaf(Tapped):
    """A storage that tells its worker of no change, but in the reply to a beat."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage)
        self.pulses: list[Pulse] = []

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        return lambda: None

    def heart(self) -> Heart:
        return Heard(self, super().heart())


class Heard:
    """A heart whose replies are kept."""

    def __init__(self, deaf: Deaf, heart: Heart) -> None:
        self._deaf = deaf
        self._heart = heart

    async def open(self) -> None:
        await self._heart.open()

    async def beat(self, worker_id: int, load: Load, details: Sequence[Details]) -> Pulse:
        pulse = await self._heart.beat(worker_id, load, details)
        self._deaf.pulses.append(pulse)
        return pulse

    async def close(self) -> None:
        await self._heart.close()


class Watch:
    """Which beat brings the news, from when it was sent until the race is decided."""

    def __init__(self, deaf: Deaf) -> None:
        self._deaf = deaf
        self._since = 0
        self._run_id = ""
        self.begun = Gate()
        self._decided = asyncio.Event()

    def sent(self, run_id: str) -> None:
        self._since, self._run_id = len(self._deaf.pulses), run_id

    def passed(self) -> int:
        """How many beats have been answered since."""
        return len(self._deaf.pulses) - self._since

    async def told_by(self) -> int:
        """The number of the beat that told it, once the race is decided."""
        await asyncio.wait_for(self._decided.wait(), SOON)
        pulses = self._deaf.pulses[self._since :]
        telling = [self._run_id in {arrival.run_id for arrival in pulse.arrivals} for pulse in pulses]
        return telling.index(True) + 1

    async def long(self) -> None:
        self.begun.come.set()
        try:
            await asyncio.sleep(600)
        finally:
            self._decided.set()


@asynccontextmanager
async def watched(stage: Stage) -> AsyncIterator[tuple[Watch, Stage]]:
    deaf = Deaf(stage.storage)
    yield Watch(deaf), stage.on(deaf)


async def test_a_race_of_a_long_step_and_a_signal_hears_of_the_signal_with_the_second_beat(plain_stage: Stage) -> None:
    async with watched(plain_stage) as (watch, stage):

        @activity
        async def long() -> None:
            await watch.long()

        @workflow
        def order(ctx: Context) -> Flow[list[Any]]:
            won = yield from ctx.race(ctx.step(long), ctx.signal(WORDS))
            return [won.index, won.value]

        async with stage.serving(order) as client:
            run = await client.start(order)
            await watch.begun.somebody()
            watch.sent(run.id)
            await plain_stage.client.send(run.id, WORDS, "enough")
            sent_by = watch.passed()
            assert await watch.told_by() <= sent_by + BEATS
            assert await run.result(timeout=SOON) == [1, "enough"]


async def test_a_race_of_a_long_step_and_a_child_hears_of_the_child_with_the_second_beat(plain_stage: Stage) -> None:
    async with watched(plain_stage) as (watch, stage):

        @activity
        async def long() -> None:
            await watch.long()

        @workflow
        def child(ctx: Context) -> Flow[str]:
            return (yield from ctx.signal(WORDS))

        @workflow
        def order(ctx: Context) -> Flow[list[Any]]:
            won = yield from ctx.race(ctx.step(long), ctx.child(child))
            return [won.index, won.value]

        # The child runs elsewhere: its end is known to the storage alone.
        async with stage.worker(order, child, only=[order]), plain_stage.worker(child):
            run = await plain_stage.client.start(order)
            await watch.begun.somebody()
            info = await _child(plain_stage.client, run.id)
            watch.sent(run.id)
            await plain_stage.client.send(info, WORDS, "the child's")
            await plain_stage.client.handle(info).result(timeout=SOON)
            ended_by = watch.passed()
            assert await watch.told_by() <= ended_by + BEATS
            assert await run.result(timeout=SOON) == [1, "the child's"]


async def _child(client: Client, run_id: str) -> str:
    [info] = (await client.list(RunFilter(parent=run_id))).items
    return info.id
