"""What a worker says of itself with each beat."""

from __future__ import annotations

import threading

from runnerq.persistence.records import Load, WorkerRecord
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon


async def test_a_beat_says_what_is_held_what_runs_and_which_threads_do_not_come_back(plain_stage: Stage) -> None:
    tapped = Tapped(plain_stage.storage)
    stage = plain_stage.on(tapped)
    gate, release = Gate(), threading.Event()

    @activity(retry=1, timeout=0.05)
    def stuck() -> None:
        release.wait(SOON)

    @activity
    async def slow() -> None:
        await gate.pass_through()

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            yield from ctx.step(stuck)
        except Exception:
            yield from ctx.step(slow)
        return "done"

    async with stage.worker(order, slow, max_workers=7, beat=0.05) as worker:
        runs = [await stage.client.start(order), await stage.client.start(slow)]
        await soon(lambda: tapped.loads and tapped.loads[-1] == Load(held=2, running=3, stuck=1))
        mine = await record_of(stage, worker.worker_id)
        assert (mine.slots, mine.load.held, mine.load.stuck) == (7, 2, 1)
        release.set()
        gate.open()
        for run in runs:
            await run.result(timeout=SOON)
        await soon(lambda: tapped.loads[-1] == Load(late=1))


async def record_of(stage: Stage, worker_id: int | None) -> WorkerRecord:
    [mine] = [each for each in await stage.storage.workers() if each.id == worker_id]
    return mine
