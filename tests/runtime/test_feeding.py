"""Arrivals into answers, until nothing more can be fed now."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

from runnerq.errors import ChildFailed, SignalPayloadError, SignalTimeout
from runnerq.persistence.records import Mail, Outcome
from runnerq.runtime.arrivals import Arrivals
from runnerq.runtime.feeding import Feeder
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import modules_snapshot, record
from runnerq.workflow.commands import Signal
from runnerq.workflow.context import Context
from runnerq.workflow.ending import Returned
from runnerq.workflow.identity import Identity, Info
from runnerq.workflow.interpreter import Interpreter
from runnerq.workflow.journal import Started

START = datetime(2025, 6, 1, 12, tzinfo=UTC)
MODULES = modules_snapshot()
RUN = "01970000-0000-7000-8000-000000000001"
NUMBERS = Signal("numbers", int)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def work() -> int:
    return 0


class Run:
    """An interpreter that has begun, its mailbox, and a feeder."""

    def __init__(self, fn: Callable[[Context], Generator[Any, Any, Any]]) -> None:
        info = Info(RUN, "order", 1, None, "q", None, RUN, 1, {}, START, 0)
        codec = Codec()
        self.interpreter = Interpreter(Identity(info, lambda ctx, _: fn(ctx), MODULES), codec)
        self.interpreter.begin(Started(seed="s", build="b"), START)
        self.arrivals = Arrivals()
        self.arrivals.read([], [], START, ())
        self.feeder = Feeder(codec, MODULES)
        self.consumed: list[int] = []

    def feed(self, *came: Mail | Outcome, now: float = 9) -> bool:
        """Whether the mailbox must be read first."""
        if came:
            signals = [each for each in came if isinstance(each, Mail)]
            outcomes = [each for each in came if isinstance(each, Outcome)]
            self.arrivals.read(signals, outcomes, at(now), [each.run_id for each in outcomes])
        self.arrivals.watch(self.interpreter.leaves.values(), at(now))
        return self.feeder.feed(self.interpreter, self.arrivals, at(now), self.consumed)

    @property
    def returned(self) -> Any:
        assert isinstance(self.interpreter.end, Returned)
        return self.interpreter.end.value


def mail(number: int, value: str | None, channel: str = "numbers") -> Mail:
    return Mail(number, number, at(1), channel, value)


def test_what_one_arrival_makes_the_workflow_ask_for_is_fed_in_the_same_go() -> None:
    def order(ctx: Context) -> Generator[Any, Any, Any]:
        first = yield ctx.signal(NUMBERS)
        yield ctx.sleep(0)
        second = yield ctx.signal(NUMBERS)
        return [first, second]

    run = Run(order)
    assert not run.feed(mail(1, "1"), mail(2, "2"))
    assert run.returned == [1, 2]
    assert run.consumed == [1, 2]


def test_a_payload_that_does_not_fit_is_consumed_and_raised() -> None:
    def order(ctx: Context) -> Generator[Any, Any, Any]:
        try:
            yield ctx.signal(NUMBERS)
        except SignalPayloadError as error:
            return [error.channel, error.expected]

    run = Run(order)
    run.feed(mail(1, '"seven"'))
    assert run.returned == ["numbers", "int"]
    assert run.consumed == [1]


def test_a_signal_without_a_payload_is_none() -> None:
    def order(ctx: Context) -> Generator[Any, Any, Any]:
        return [(yield ctx.signal("go"))]

    run = Run(order)
    run.feed(mail(1, None, "go"))
    assert run.returned == [None]


def test_a_wait_past_its_deadline_asks_for_a_reading_first_and_then_times_out() -> None:
    def order(ctx: Context) -> Generator[Any, Any, Any]:
        try:
            yield ctx.signal(NUMBERS, timeout=5)
        except SignalTimeout as error:
            return error.channel

    run = Run(order)
    assert not run.feed(now=4)
    assert run.feed(now=6)
    assert run.interpreter.end is None
    run.arrivals.read([], [], at(6), ())
    assert not run.feed(now=6)
    assert run.returned == "numbers"


def test_a_failed_child_is_raised_with_its_own_error_as_cause() -> None:
    def order(ctx: Context) -> Generator[Any, Any, Any]:
        try:
            yield ctx.child(work)
        except ChildFailed as error:
            return [error.status, type(error.__cause__).__name__]

    run = Run(order)
    [leaf] = run.interpreter.leaves.values()
    error = record(ValueError("no"), MODULES, retryable=False)
    assert leaf.asked.child is not None
    run.feed(Outcome(run_id=leaf.asked.child, status="failed", ended_at=at(1), error=error))
    assert run.returned == ["failed", "ValueError"]


def test_a_wait_for_an_old_child_asks_for_a_reading_and_one_for_a_new_child_does_not() -> None:
    def order(ctx: Context) -> Generator[Any, Any, Any]:
        new = yield ctx.spawn(work)
        old = yield ctx.spawn(work)
        yield ctx.signal(NUMBERS)
        yield ctx.all(new.result(), old.result())

    run = Run(order)
    # Nothing was written yet, so that neither child can have ended.
    assert not run.feed()
    run.interpreter.collect()
    assert run.feed(mail(1, "1"))
