"""Attempts at steps: what follows from each result, on its own and through a worker."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from random import random
from typing import Any

import msgspec
import pytest

from runnerq.client.handle import Handle
from runnerq.errors import (
    DecodingError,
    EncodingError,
    NonRetryableError,
    PayloadTooLarge,
    RetryableError,
    RunFailed,
    StepTimeout,
)
from runnerq.persistence.records import Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.runtime.results import INTERRUPTED, TIMED_OUT, Raised, Returned
from runnerq.runtime.steps import Again, Answered, Asking, Bounds, CutOff, Failed, bounds_in, bounds_of, follow
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import modules_snapshot, read
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
MODULES = modules_snapshot()
QUICK = RetryPolicy(max_attempts=3, base=0.01, jitter=0)


def asking(failures: int = 0, type_: Any = int, policy: RetryPolicy = QUICK) -> Asking:
    return Asking("1", "charge", "the result of step 'charge'", type_, failures, Bounds(policy, 5.0))


def followed(result: Any, at: Asking | None = None) -> Any:
    return follow(result, at or asking(), Codec(100), MODULES, lambda: NOW, random)


# --- what follows, pure -----------------------------------------------------------------------------------------------


def test_a_value_is_encoded_and_decoded_again() -> None:
    class Receipt(msgspec.Struct):
        cents: int

    given = Receipt(950)
    answer = followed(Returned(given), asking(type_=Receipt))
    assert answer == Answered('{"cents":950}', Receipt(950))
    assert answer.value is not given


def test_a_value_that_cannot_be_encoded_is_over_at_once() -> None:
    for value, error in ((object(), EncodingError), ("x" * 101, PayloadTooLarge)):
        failed = followed(Returned(value), asking(type_=Any))
        assert isinstance(failed, Failed)
        assert not failed.exhausted
        assert read(failed.error).type == error.__name__
        assert "the result of step 'charge'" in read(failed.error).message


def test_a_value_that_does_not_decode_into_its_type_is_a_failed_attempt() -> None:
    again = followed(Returned("no number"))
    assert isinstance(again, Again)
    assert read(again.attempt.error or "").type == "DecodingError"


def test_a_failed_attempt_is_tried_again_by_the_policy() -> None:
    again = followed(Raised(ValueError("no")), asking(failures=1))
    assert isinstance(again, Again)
    assert (again.attempt.number, again.attempt.position, again.attempt.at) == (2, "1", NOW)
    assert again.attempt.next_at == NOW + timedelta(seconds=0.02)


def test_the_last_attempt_is_exhausted() -> None:
    failed = followed(Raised(ValueError("no")), asking(failures=2))
    assert isinstance(failed, Failed)
    assert failed.exhausted
    assert read(failed.error).retryable


def test_a_non_retryable_error_is_over_and_not_exhausted() -> None:
    failed = followed(Raised(NonRetryableError("no")))
    assert isinstance(failed, Failed)
    assert not failed.exhausted


def test_a_retryable_error_says_when() -> None:
    again = followed(Raised(RetryableError("busy", after=30)))
    assert isinstance(again, Again)
    assert again.attempt.next_at == NOW + timedelta(seconds=30)


def test_a_timeout_is_a_failed_attempt_and_a_cut_is_none() -> None:
    again = followed(TIMED_OUT)
    assert isinstance(again, Again)
    assert read(again.attempt.error or "").type == "StepTimeout"
    assert followed(INTERRUPTED) == CutOff()


@pytest.mark.parametrize("error", [SystemExit(1), GeneratorExit(), StopIteration(1)])
def test_what_means_to_end_the_process_is_a_failed_attempt_that_is_not_retried(error: BaseException) -> None:
    failed = followed(Raised(error))
    assert isinstance(failed, Failed)
    assert not failed.exhausted


def test_a_cancelled_error_that_nobody_asked_for_is_a_failed_attempt() -> None:
    assert isinstance(followed(Raised(asyncio.CancelledError())), Again)


def test_call_options_beat_declared_ones_and_those_the_defaults() -> None:
    @activity(retry=2, timeout=7)
    async def declared() -> None: ...

    async def plain() -> None: ...

    assert bounds_of(declared, None, None) == Bounds(RetryPolicy(max_attempts=2), 7.0)
    assert bounds_of(declared, RetryPolicy(max_attempts=9), 1.0) == Bounds(RetryPolicy(max_attempts=9), 1.0)
    assert bounds_of(plain, None, None) == Bounds(RetryPolicy(), 300.0)
    stored = msgspec.json.decode(b'{"retry":' + RetryPolicy(max_attempts=4).to_json().encode() + b',"timeout":3}')
    assert bounds_in(stored, declared) == Bounds(RetryPolicy(max_attempts=4), 3.0)
    assert bounds_in({}, declared) == bounds_of(declared, None, None)


# --- through a worker -------------------------------------------------------------------------------------------------


class Flaky:
    """Fails so many times, then answers with the attempts it was told of."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.attempts: list[int] = []
        self.keys: set[str] = set()

    async def __call__(self) -> list[int]:
        self.attempts.append(current().attempt)
        self.keys.add(current().idempotency_key)
        if len(self.attempts) <= self.failures:
            raise ValueError(f"failure {len(self.attempts)}")
        return self.attempts


async def test_a_step_is_tried_again_until_it_answers_with_one_key_and_counted_attempts(stage: Stage) -> None:
    flaky = Flaky(2)

    @workflow
    def order(ctx: Context) -> Flow[list[int]]:
        return (yield from ctx.options(retry=QUICK, name="flaky").step(flaky))

    async with stage.serving(order) as client:
        run = await client.start(order)
        assert await run.result(timeout=SOON) == [1, 2, 3]
        assert flaky.keys == {f"{run.id}:1:1:step:flaky"}
        journal = await stage.storage.journal(run.id)
        assert journal is not None
        assert journal.attempts == ()
        assert [entry.state for entry in await run.history()] == ["answered", "answered"]


async def test_between_two_attempts_the_run_is_parked_and_the_attempt_is_on_record(stage: Stage) -> None:
    fail_once = Flaky(1)

    @workflow
    def order(ctx: Context) -> Flow[list[int]]:
        return (yield from ctx.options(retry=RetryPolicy(base=0.3, jitter=0)).step(fail_once))

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        journal = await stage.storage.journal(run.id)
        assert journal is not None
        [attempt] = journal.attempts
        assert (attempt.position, attempt.number) == ("1", 1)
        assert read(attempt.error or "").message == "failure 1"
        assert attempt.next_at is not None
        assert (await run.info()).due_at == attempt.next_at
        [_, entry] = await run.history()
        assert (entry.state, entry.attempts) == ("asked", 1)
        assert await run.result(timeout=SOON) == [1, 2]
        journal = await stage.storage.journal(run.id)
        assert journal is not None
        assert journal.attempts == ()


async def test_a_step_that_waits_for_its_next_attempt_holds_up_nothing_that_runs_beside_it(stage: Stage) -> None:
    fail_once = Flaky(1)
    gate = Gate()

    @activity
    async def beside() -> str:
        await gate.pass_through()
        return "beside"

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        return list((yield from ctx.all(ctx.options(retry=QUICK).step(fail_once), ctx.step(beside))))

    async with stage.serving(order) as client:
        run = await client.start(order)
        await gate.somebody()
        # The second attempt comes while the run is held: the worker keeps the timer.
        await soon(lambda: len(fail_once.attempts) == 2)
        gate.open()
        assert await run.result(timeout=SOON) == [[1, 2], "beside"]


async def failed(run: Handle[Any]) -> RunFailed:
    with pytest.raises(RunFailed) as found:
        await run.result(timeout=SOON)
    return found.value


async def test_used_up_attempts_make_a_dead_letter(stage: Stage) -> None:
    flaky = Flaky(99)

    @workflow
    def order(ctx: Context) -> Flow[list[int]]:
        return (yield from ctx.options(retry=QUICK).step(flaky))

    async with stage.serving(order) as client:
        why = await failed(await client.start(order))
    assert (why.status, why.reason, why.error.message) == ("dead_letter", "attempts", "failure 3")
    assert isinstance(why.__cause__, ValueError)
    assert flaky.attempts == [1, 2, 3]


async def test_a_non_retryable_error_fails_the_run_after_one_attempt(stage: Stage) -> None:
    tries: list[int] = []

    @activity
    async def refuse() -> None:
        tries.append(current().attempt)
        raise NonRetryableError("no card")

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(refuse)

    async with stage.serving(order) as client:
        why = await failed(await client.start(order))
    assert (why.status, why.error.message, tries) == ("failed", "no card", [1])


async def test_the_cause_of_a_non_retryable_error_makes_no_dead_letter_of_the_run(stage_in_memory: Stage) -> None:
    @activity
    async def refuse() -> None:
        raise NonRetryableError("no card") from ValueError("expired")

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(refuse)

    async with stage_in_memory.serving(order) as client:
        why = await failed(await client.start(order))
    assert (why.status, why.reason) == ("failed", None)


async def test_a_caught_failure_leaves_the_run_alive(stage_in_memory: Stage) -> None:
    flaky = Flaky(99)

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            yield ctx.options(retry=2).step(flaky)
        except ValueError as error:
            yield ctx.sleep(0.001)
            return str(error)
        return ""

    flaky_policy = RetryPolicy(max_attempts=2, base=0.001)

    @workflow
    def quick(ctx: Context) -> Flow[str]:
        try:
            yield ctx.options(retry=flaky_policy).step(flaky)
        except ValueError as error:
            yield ctx.sleep(0.001)
            return str(error)
        return ""

    assert await stage_in_memory.answer(quick) == "failure 2"


async def test_a_value_that_does_not_fit_its_annotation_is_a_failed_attempt_and_then_the_steps_failure(
    stage_in_memory: Stage,
) -> None:
    values: list[Any] = ["no number", 7, "no number", "no number"]

    @activity(retry=RetryPolicy(max_attempts=2, base=0.001))
    async def count() -> int:
        return values.pop(0)  # type: ignore[no-any-return]

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        first = yield from ctx.step(count)
        try:
            yield ctx.step(count)
        except DecodingError as error:
            return [first, error.expected]
        return []

    assert await stage_in_memory.answer(order) == [7, "int"]
    assert values == []


async def test_an_async_step_past_its_timeout_is_tried_again_and_then_given_up(stage_in_memory: Stage) -> None:
    begun: list[int] = []

    @activity
    async def long() -> None:
        begun.append(current().attempt)
        await asyncio.sleep(60)

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            yield ctx.options(timeout=0.02, retry=RetryPolicy(max_attempts=2, base=0.001)).step(long)
        except StepTimeout as error:
            return f"{error.name} {error.timeout}"
        return ""

    assert await stage_in_memory.answer(order) == "long 0.02"
    assert begun == [1, 2]


async def test_a_sync_step_past_its_timeout_does_not_hold_the_run_and_is_not_heard_any_more(stage: Stage) -> None:
    may_end = threading.Event()

    @activity
    def long() -> str:
        may_end.wait(SOON)
        return "late"

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        try:
            yield ctx.options(timeout=0.02, retry=1).step(long)
        except StepTimeout:
            word = yield ctx.signal(WORDS)
            return ["timed out", word]
        return []

    worker = stage.worker(order)
    async with worker:
        run = await stage.client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        may_end.set()
        assert worker._shift is not None
        stats = worker._shift.attempts
        await soon(lambda: stats.stats.late == 1)
        await run.send(WORDS, "go")
        assert await run.result(timeout=SOON) == ["timed out", "go"]


WORDS: Signal[str] = Signal("words", str)


async def test_a_loser_between_two_attempts_keeps_no_timer(stage: Stage) -> None:
    @activity
    async def busy() -> None:
        raise RetryableError("busy", after=3600)

    @workflow
    def order(ctx: Context) -> Flow[str]:
        yield ctx.race(ctx.step(busy), ctx.signal(WORDS))
        yield ctx.sleep(0.2)
        return (yield from ctx.signal(WORDS))

    tapped = Tapped(stage.storage)
    async with stage.on(tapped).serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        await run.send(WORDS, "first")
        await soon(lambda: any(row.position == "2" for turn in tapped.turns_of(run.id) for row in turn.rows))
        await run.reached(Status.WAITING, timeout=SOON)
        info = await run.info()
        assert info.due_at is None
        journal = await stage.storage.journal(run.id)
        assert journal is not None
        assert journal.attempts == ()
        # To start it, for the signal, and for the sleep: it is not taken up again and again.
        assert tapped.claimed(run.id) <= 8
        await run.send(WORDS, "second")
        assert await run.result(timeout=SOON) == "second"
