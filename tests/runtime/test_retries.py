"""When what has failed is tried again, through a worker: by class, by the error's own word, and by a person's."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from runnerq.errors import RetryableError, RunFailed
from runnerq.persistence.records import Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Holding, Stage, Tapped, soon
from tests.runtime.test_leases import haunt

HOUR = 3600.0


class Declined(Exception): ...


class Stolen(Declined): ...


class Busy(Exception): ...


@pytest.mark.parametrize(
    ("policy", "raised", "attempts", "status"),
    [
        (RetryPolicy(max_attempts=3, base=0, give_up_on=Declined), Stolen, 1, Status.FAILED),
        (RetryPolicy(max_attempts=3, base=0, give_up_on=Declined), Busy, 3, Status.DEAD_LETTER),
        (RetryPolicy(max_attempts=3, base=0, retry_on=[Busy]), Busy, 3, Status.DEAD_LETTER),
        (RetryPolicy(max_attempts=3, base=0, retry_on=[Busy]), Declined, 1, Status.FAILED),
        (RetryPolicy(max_attempts=3, base=0, retry_on=[Declined], give_up_on=[Stolen]), Stolen, 1, Status.FAILED),
        (RetryPolicy(max_attempts=3, base=0, retry_on="tests.runtime.test_retries.Declined"), Stolen, 3,
         Status.DEAD_LETTER),
    ],
)  # fmt: skip
async def test_classes_say_whether_it_is_tried_again_for_steps_and_for_queued_activities_alike(
    plain_stage: Stage, policy: RetryPolicy, raised: type[Exception], attempts: int, status: Status
) -> None:
    tried: dict[str, int] = {}

    @activity
    async def charge() -> None:
        tried[current().run_id] = current().attempt
        raise raised

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.options(retry=policy).step(charge)

    async with plain_stage.serving(order, charge) as client:
        runs = [await client.start(order), await client.options(retry=policy).start(charge)]
        for run in runs:
            with pytest.raises(RunFailed) as failed:
                await run.result(timeout=SOON)
            assert failed.value.status == status
            assert tried[run.id] == attempts


@pytest.mark.parametrize("after", [0.25, 0.0])
async def test_the_error_itself_may_say_when_to_a_fraction_of_a_second(stage: Stage, after: float) -> None:
    tried: list[int] = []

    @activity(retry=RetryPolicy(max_attempts=2, base=HOUR))
    async def charge() -> str:
        tried.append(current().attempt)
        if len(tried) == 1:
            raise RetryableError("a moment", after=after)
        return "done"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(charge))

    # It polls once a minute: what is due sooner comes by the claimer's own knowledge of when.
    tapped = Tapped(stage.storage)
    async with stage.on(tapped).serving(order) as client:
        run = await client.start(order)
        assert await run.result(timeout=SOON) == "done"
    assert _delays(tapped, run.id) == [timedelta(seconds=after)]


async def test_delays_of_a_fraction_of_a_second_are_kept(plain_stage: Stage) -> None:
    tried: list[int] = []

    @activity(retry=RetryPolicy(max_attempts=4, base=0.05, jitter=0))
    async def charge() -> str:
        tried.append(current().attempt)
        if len(tried) < 4:
            raise ValueError
        return "done"

    tapped = Tapped(plain_stage.storage)
    async with plain_stage.on(tapped).serving(charge) as client:
        run = await client.start(charge)
        assert await run.result(timeout=SOON) == "done"
    assert _delays(tapped, run.id) == [timedelta(seconds=delay) for delay in (0.05, 0.1, 0.2)]


async def test_a_parked_run_between_two_attempts_goes_on_when_it_is_told_to(stage: Stage) -> None:
    tried: list[int] = []

    @activity(retry=RetryPolicy(max_attempts=3, base=HOUR))
    async def charge() -> str:
        tried.append(current().attempt)
        if len(tried) < 3:
            raise ValueError
        return "done"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(charge))

    async with stage.serving(order) as client:
        run = await client.start(order)
        for attempt in (1, 2):
            await soon(lambda attempt=attempt: tried[-1:] == [attempt])
            await run.reached(Status.WAITING, timeout=SOON)
            assert await client.run_now(run.id)
        assert await run.result(timeout=SOON) == "done"
    assert tried == [1, 2, 3]


async def test_an_activity_between_two_attempts_goes_on_when_it_is_told_to(plain_stage: Stage) -> None:
    tried: list[int] = []

    @activity(retry=RetryPolicy(max_attempts=2, base=HOUR))
    async def charge() -> str:
        tried.append(current().attempt)
        if len(tried) < 2:
            raise ValueError
        return "done"

    async with plain_stage.serving(charge) as client:
        run = await client.start(charge)
        await run.reached(Status.RETRYING, timeout=SOON)
        assert await client.run_now(run.id)
        assert await run.result(timeout=SOON) == "done"
    assert tried == [1, 2]


async def test_only_the_failed_step_of_a_parked_run_is_tried_at_once_and_not_what_else_it_waits_for(
    stage: Stage,
) -> None:
    tried: list[int] = []

    @activity(retry=RetryPolicy(max_attempts=2, base=HOUR))
    async def charge() -> str:
        tried.append(current().attempt)
        if len(tried) < 2:
            raise ValueError
        return "charged"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        winner = yield from ctx.race(ctx.sleep(HOUR / 2), ctx.step(charge))
        return str(winner.value)

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        assert await client.run_now(run.id)
        assert await run.result(timeout=SOON) == "charged"


async def test_any_answer_on_record_forgets_the_crashes_before_it(plain_stage: Stage) -> None:
    gate = Gate()

    @activity
    async def first() -> None: ...

    @activity
    async def second() -> None:
        await gate.pass_through()

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.step(first)
        yield from ctx.step(second)

    run = await plain_stage.client.start(order)
    assert (await haunt(plain_stage, "order@1", lease=0.05)).runs
    tapped = Tapped(plain_stage.storage)
    stage = plain_stage.on(tapped)
    async with stage.serving(order, reaper_interval=0.05, beat=0.05, shutdown_grace=0):
        await gate.somebody()
    gate.open()
    async with stage.serving(order):
        await run.result(timeout=SOON)
    assert [claimed.crashes for claim in tapped.claims for claimed in claim.runs] == [1, 0]


async def test_a_failed_attempt_is_on_record_at_once_though_another_step_goes_on(plain_stage: Stage) -> None:
    # It fails while another turn of the run is being written, and nothing else of the run ends behind it.
    holding = Holding(plain_stage.storage, lambda turn: any(row.position == "1.0" for row in turn.rows))
    failed, over = asyncio.Event(), asyncio.Event()

    async def quick() -> str:
        return "quick"

    async def failing() -> str:
        await holding.gate.somebody()
        failed.set()
        raise ConnectionError("no")

    async def going_on() -> str:
        await over.wait()
        return "over"

    @workflow
    def wf(ctx: Context) -> Flow[int]:
        failing_once = ctx.options(retry=RetryPolicy(base=3600, jitter=0)).step(failing)
        yield from ctx.all(ctx.step(quick), ctx.race(failing_once, ctx.step(going_on)))
        return 1

    async with plain_stage.on(holding).serving(wf) as client:
        run = await client.start(wf)
        await failed.wait()
        await soon(holding.gate.come.is_set)
        holding.gate.open()
        await soon(lambda: any(turn.attempts for turn in holding.turns_of(run.id)))
        over.set()
        assert await run.result(timeout=SOON) == 1


def _delays(tapped: Tapped, run_id: str) -> list[timedelta]:
    """What each attempt that failed was to wait for: how long it did wait says something of the machine as well."""
    failed = [attempt for turn in tapped.turns_of(run_id) for attempt in turn.attempts]
    return [attempt.next_at - attempt.at for attempt in failed if attempt.next_at is not None]
