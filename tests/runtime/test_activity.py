"""Activities as runs of their own: attempts, ends, and inputs that do not fit."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.errors import (
    DecodingError,
    EncodingError,
    KeyTaken,
    NonRetryableError,
    PayloadTooLarge,
    RetryableError,
    RunFailed,
)
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import RunFilter, Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage

QUICK = RetryPolicy(max_attempts=3, base=0.01, jitter=0)


async def failed(run: Any) -> RunFailed:
    with pytest.raises(RunFailed) as found:
        await run.result(timeout=SOON)
    return found.value


async def test_an_activity_is_started_like_a_workflow_and_answers_its_typed_value(plain_stage: Stage) -> None:
    @activity
    async def add(a: int, *, b: int = 1) -> tuple[int, ...]:
        return (a, b)

    @activity
    def double(a: int) -> int:
        return 2 * a

    async with plain_stage.serving(add, double) as client:
        assert await (await client.start(add, 1, b=2)).result(timeout=SOON) == (1, 2)
        assert await (await client.start(double, 4)).result(timeout=SOON) == 8


async def test_a_failed_attempt_goes_back_to_the_queue_and_is_counted(plain_stage: Stage) -> None:
    attempts: list[int] = []

    @activity(retry=QUICK)
    async def flaky() -> list[int]:
        attempts.append(current().attempt)
        if len(attempts) < 3:
            raise ValueError("no")
        return attempts

    async with plain_stage.serving(flaky, max_workers=1) as client:
        run = await client.start(flaky)
        assert await run.result(timeout=SOON) == [1, 2, 3]


async def test_between_two_attempts_it_is_retrying_and_holds_no_slot(plain_stage: Stage) -> None:
    @activity
    async def busy() -> None:
        raise RetryableError("busy", after=3600)

    @activity
    async def quick() -> str:
        return "quick"

    async with plain_stage.serving(busy, quick, max_workers=1) as client:
        run = await client.start(busy)
        await run.reached(Status.RETRYING, timeout=SOON)
        assert await (await client.start(quick)).result(timeout=SOON) == "quick"
        [attempt] = (await plain_stage.storage.journal(run.id)).attempts  # type: ignore[union-attr]
        assert (attempt.position, attempt.number) == ("", 1)


async def test_used_up_attempts_and_non_retryable_errors_end_it(plain_stage: Stage) -> None:
    @activity(retry=RetryPolicy(max_attempts=2, base=0.001))
    async def fails() -> None:
        raise ValueError("no")

    @activity
    async def refuses() -> None:
        raise NonRetryableError("never")

    async with plain_stage.serving(fails, refuses) as client:
        exhausted = await failed(await client.start(fails))
        refused = await failed(await client.start(refuses))
    assert (exhausted.status, exhausted.reason, exhausted.error.message) == ("dead_letter", "attempts", "no")
    assert (refused.status, refused.reason, refused.error.message) == ("failed", None, "never")


async def test_options_of_the_start_beat_declared_ones(plain_stage: Stage) -> None:
    attempts: list[int] = []

    @activity(retry=5, timeout=600)
    async def slow() -> None:
        attempts.append(current().attempt)
        await asyncio.sleep(600)

    async with plain_stage.serving(slow) as client:
        why = await failed(await client.options(retry=1, timeout=0.02).start(slow))
    assert (why.status, why.error.type, attempts) == ("dead_letter", "StepTimeout", [1])


async def test_an_activity_knows_its_run_and_has_one_key_for_all_attempts(plain_stage: Stage) -> None:
    keys: list[str] = []

    @activity(retry=QUICK)
    def flaky() -> list[Any]:
        now = current()
        keys.append(now.idempotency_key)
        if len(keys) < 2:
            raise ValueError("no")
        return [now.run_id, now.name, now.entry, now.attempt, now.metadata]

    async with plain_stage.serving(flaky) as client:
        run = await client.options(metadata={"shop": "north"}).start(flaky)
        assert await run.result(timeout=SOON) == [run.id, "flaky", "", 2, {"shop": "north"}]
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_an_input_that_does_not_fit_blocks_it_for_this_build(plain_stage: Stage) -> None:
    @activity(name="add")
    async def takes_int(a: int) -> int:
        return a

    @activity(name="add")
    async def takes_str(a: str) -> str:
        return a

    run = await plain_stage.client.start(takes_str, "word")
    async with plain_stage.serving(takes_int, build="one"):
        await run.reached(Status.BLOCKED, timeout=SOON)
    async with plain_stage.serving(takes_str, build="two"):
        assert await run.result(timeout=SOON) == "word"


async def test_a_result_that_cannot_be_stored_fails_it_without_another_attempt(plain_stage: Stage) -> None:
    attempts: list[int] = []

    @activity
    async def odd() -> Any:
        attempts.append(current().attempt)
        return {"socket": object()}

    async with plain_stage.serving(odd) as client:
        why = await failed(await client.start(odd))
    assert (why.status, why.error.type, attempts) == ("failed", "EncodingError", [1])
    assert "socket" in why.error.message


class Mute(Exception):
    """Even its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@dataclass
class Odd:
    """Its own code fails when it is read, or when it is stored."""

    how: str

    def __post_init__(self) -> None:
        if self.how == "exits when read":
            raise SystemExit(3)
        if self.how == "mute when read":
            raise Mute

    def __getattribute__(self, name: str) -> Any:
        if name == "how" and (how := object.__getattribute__(self, name)).endswith("when stored"):
            raise SystemExit(3) if how.startswith("exits") else Mute
        return object.__getattribute__(self, name)

    @classmethod
    def that(cls, how: str) -> Odd:
        odd = cls("is fine")
        odd.how = how
        return odd


@pytest.mark.parametrize("how", ["exits when read", "mute when read", "exits when stored", "mute when stored"])
async def test_a_result_whose_own_code_fails_stops_neither_the_worker_nor_others(
    stage_in_memory: Stage, how: str
) -> None:
    @activity(retry=1)
    async def odd() -> Odd:
        return Odd.that(how)

    @workflow
    def asks(ctx: Context) -> Flow[str]:
        try:
            yield ctx.step(odd)
        except (DecodingError, EncodingError) as error:
            return type(error).__name__
        return "it could be had"

    error = "DecodingError" if how.endswith("read") else "EncodingError"
    async with stage_in_memory.serving(odd, asks) as client:
        assert (await failed(await client.start(odd))).error.type == error
        assert await (await client.start(asks)).result(timeout=SOON) == error


async def test_a_worker_keeps_the_payload_limit_of_its_client() -> None:
    @activity
    async def big() -> str:
        return "x" * 2000

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            return (yield from ctx.step(big))
        except PayloadTooLarge as error:
            return f"{error.size} > {error.limit}"

    storage = MemoryStorage()
    async with Client(storage, payload_limit=1000) as client:
        stage = Stage(storage)
        stage.client = client.options(queue=stage.queue)
        async with stage.serving(order):
            assert await (await stage.client.start(order)).result(timeout=SOON) == "2002 > 1000"


async def test_a_child_whose_key_another_run_holds_is_refused_and_the_holder_named(plain_stage: Stage) -> None:
    @activity
    async def work() -> str:
        return "done"

    @workflow
    def order(ctx: Context, key: str) -> Flow[list[str]]:
        holders = []
        child = yield from ctx.options(key=key).spawn(work)
        for wait in (ctx.options(key=key).child(work), child.result()):
            try:
                yield wait
            except KeyTaken as taken:
                holders.append(taken.run_id)
                yield ctx.sleep(0.001)
        return holders

    key = f"key-{plain_stage.queue}"
    holder = await plain_stage.client.options(key=key).start(work)
    async with plain_stage.serving(order, work) as client:
        run = await client.start(order, key)
        assert await run.result(timeout=SOON) == [holder.id, holder.id]


async def test_a_sync_activity_in_its_thread_does_not_block_the_loop(plain_stage: Stage) -> None:
    may_end = threading.Event()

    @activity
    def waits() -> str:
        assert may_end.wait(SOON)
        return "waited"

    @activity
    async def frees() -> None:
        may_end.set()

    async with plain_stage.serving(waits, frees) as client:
        run = await client.start(waits)
        await (await client.start(frees)).result(timeout=SOON)
        assert await run.result(timeout=SOON) == "waited"


async def test_fire_and_forget_activities_of_a_finished_parent_are_cancelled_unless_abandoned(
    plain_stage: Stage,
) -> None:
    @activity
    async def later() -> str:
        return "ran"

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.options(delay=3600).spawn(later)
        yield ctx.options(delay=0.05, parent_close="abandon").spawn(later)

    async with plain_stage.serving(order, later) as client:
        run = await client.start(order)
        await run.result(timeout=SOON)
        children = (await client.list(RunFilter(parent=run.id))).items
        ends = {await _end(client, child.id) for child in children}
    assert ends == {Status.CANCELLED, Status.COMPLETED}


async def _end(client: Client, run_id: str) -> Status:
    return await client.handle(run_id).reached(Status.CANCELLED, Status.COMPLETED, timeout=SOON)
