"""Who goes first: head starts by priority that no later arrival outruns, and types that nobody serves."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from runnerq.persistence.records import Priority, Status
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped


async def test_one_slot_takes_runs_by_their_head_start_and_then_by_their_age(plain_stage: Stage) -> None:
    ran: list[str] = []

    @activity
    async def work(name: str) -> None:
        ran.append(name)

    # By minutes of age and of head start: 60 for critical, 10 for high, none for normal, 10 less than none for low.
    given = {
        "low for 72 min": (Priority.LOW, 72), "high for 51 min": (Priority.HIGH, 51),
        "critical": (Priority.CRITICAL, 0), "low for 22 min": (Priority.LOW, 22),
        "normal for 11 min": (Priority.NORMAL, 11), "high": (Priority.HIGH, 0), "normal": (Priority.NORMAL, 0),
        "low for 9 min": (Priority.LOW, 9),
    }  # fmt: skip
    now = await plain_stage.storage.now()
    for name, (priority, minutes) in sorted(given.items()):
        due = now - timedelta(minutes=minutes)
        await plain_stage.client.options(priority=priority, at=due).start(work, name)
    async with plain_stage.worker(work, max_workers=1) as worker:
        await worker.idle()
    assert ran == list(given)


async def test_a_type_that_nobody_serves_holds_up_no_other_and_stays_ready(plain_stage: Stage) -> None:
    @activity
    async def served(number: int) -> int:
        return number

    @activity
    async def unserved() -> None:
        raise AssertionError("nobody serves it")

    # Older, more urgent, and more than any claim looks at.
    urgent = plain_stage.client.options(priority=Priority.CRITICAL)
    waiting = await urgent.start_many(unserved, [()] * 2000)
    runs = await plain_stage.client.start_many(served, [(number,) for number in range(100)])
    tapped = Tapped(plain_stage.storage)
    async with plain_stage.on(tapped).worker(served, max_workers=20) as worker:
        assert [await run.result(timeout=SOON) for run in runs] == list(range(100))
        await worker.idle()
    # As many claims as without them: each brought as much as there was room for.
    assert sum(bool(claim.runs) for claim in tapped.claims) <= 20
    assert {await run.status() for run in waiting[:10]} == {Status.PENDING}


async def test_a_held_up_type_holds_up_no_other(plain_stage: Stage) -> None:
    """All slots but one are taken by runs that do not end: the others go on in what is left."""
    gate = Gate()

    @workflow
    def stuck(ctx: Context) -> Flow[None]:
        yield ctx.step(wait)

    @activity
    async def wait() -> None:
        await gate.pass_through()

    @activity
    async def quick(number: int) -> int:
        return number

    async with plain_stage.serving(stuck, quick, max_workers=4) as client:
        held = await client.start_many(stuck, [()] * 3)
        for run in held:
            await run.reached(Status.RUNNING, timeout=SOON)
        runs = await client.start_many(quick, [(number,) for number in range(50)])
        assert [await run.result(timeout=SOON) for run in runs] == list(range(50))
        gate.open()
        await asyncio.gather(*(run.result(timeout=SOON) for run in held))
