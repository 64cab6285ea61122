"""Transactions as a workflow asks for them: a step whose answer is on record before it is fed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runnerq.errors import Cancelled, UsageError
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.ending import Returned
from runnerq.workflow.wants import wants
from tests.workflow.driver import CutOff, Drive, Fails, drive, line_in
from tests.workflow.steps import GO, Declined, Order, charge, price, ship, stored

if TYPE_CHECKING:
    from asyncpg import Connection  # a name that is not there when annotations are resolved


async def find(connection: Connection, item: str, *, count: int = 1) -> Order:
    raise AssertionError(connection, item, count)


def buying(ctx: Context) -> Flow[Any]:
    order = yield from ctx.transaction(find, "book", count=2)
    cost = yield from ctx.step(price, order.item)
    return order.count, cost


def test_what_is_asked_on_its_answer_is_a_mark_behind_it() -> None:
    run = drive(buying, {"1": Order("book", 2), "2": 7})
    assert run.result == (2, 7)
    assert run.written == [
        "started +1", 'answered 1 {"item":"book","count":2} nothing kept', 'mark {"taken_up":true} +2', "answered 2 7",
    ]  # fmt: skip


def test_one_whose_worker_died_behind_its_commit_is_fed_from_there() -> None:
    run = drive(buying)
    taken: list[Any] = []
    run.run.close()
    # The commit put it on record, and nobody was told.
    committed = drive(buying, {"1": Order("pen", 3)}).rows[:2]
    run.rows, run.stands = committed, {}
    run.retake()
    taken += run.written
    assert taken[1:] == ['answered 1 {"item":"pen","count":3} nothing kept', 'mark {"taken_up":true} +2']
    assert run.answer("2", 1).result == (3, 1)


def test_the_connection_is_no_argument_of_it() -> None:
    def other(ctx: Context) -> Flow[Any]:
        yield from ctx.transaction(find, "book", count=3)

    one, same, another = drive(buying), drive(buying), drive(other)
    digests = [run.asks()["1"].digest for run in (one, same, another)]
    assert digests[0] == digests[1] != digests[2]
    assert one.asks()["1"].kind == "transaction"


def test_its_failure_is_a_row_like_a_steps() -> None:
    run = drive(buying, {"1": Fails(Declined(3))})
    assert isinstance(run.error, Declined)
    assert run.written == ["started +1", "failed 1 Declined"]


def test_a_cancel_waits_for_its_answer_or_cuts_it_off() -> None:
    answered = drive(buying)
    answered.cancel("enough")
    assert answered.run.cutting == {"1"}
    assert isinstance(answered.answer("1", Order("book")).error, Cancelled)
    cut = drive(buying)
    cut.cancel("enough")
    assert isinstance(cut.answer("1", CutOff()).error, Cancelled)
    assert [row.kind for row in cut.rows] == ["started", "cancel", "interrupted"]


def test_it_stands_beside_other_commands_in_composites() -> None:
    def together(ctx: Context) -> Flow[Any]:
        def branch() -> Flow[int]:
            yield from ctx.transaction(stored, "a")
            return (yield from ctx.transaction(stored, "b"))

        both = yield from ctx.all(branch(), ctx.transaction(stored, "c"), ctx.step(price, "d"))
        first = yield from ctx.race(ctx.transaction(stored, "e"), ctx.signal(GO))
        return both, first.index

    run = drive(together, {"1.1": 1, "1.0.1": 2, "1.2": 3, "1.0.2": 4, "2.0": 5})
    assert run.result == ((4, 1, 3), 0)
    run = drive(together, {"1.0.1": 2, "1.2": 3, "1.0.2": 4, "1.1": 1, "2.1": Order("pen")})
    assert run.result == ((4, 1, 3), 1)
    assert "closed 2.0" in run.written


def test_it_waits_for_nothing_that_a_parked_run_could_wait_for() -> None:
    run = drive(buying)
    assert (wants(run.run).signals, wants(run.run).children, run.starts) == ((), (), ["1"])


def test_code_that_fails_on_its_answer_blocks_and_keeps_it() -> None:
    def broken(ctx: Context) -> Flow[Any]:
        order = yield from ctx.transaction(find, "book", count=2)
        return order.pages  # type: ignore[attr-defined]

    run = drive(broken, {"1": Order("book", 2)})
    assert "has no attribute 'pages'" in run.block.message
    assert run.written[1:] == ['answered 1 {"item":"book","count":2} nothing kept']
    run.retake(buying)
    assert run.answer("2", 7).result == (2, 7)


def sync(connection: object, item: str) -> int:
    raise AssertionError(connection, item)


async def without() -> int:
    raise AssertionError


WRONG = [
    (lambda ctx: ctx.transaction(sync, "x"), "is given a function that is not async"),
    (lambda ctx: ctx.transaction(without), "takes no connection"),
    (lambda ctx: ctx.transaction(stored), "missing a required argument: 'item'"),
    (lambda ctx: ctx.transaction(stored, "a", "b"), "too many positional arguments"),
    (lambda ctx: ctx.transaction(stored, colour="red"), "missing a required argument: 'item'"),
]


@pytest.mark.parametrize(("ask", "why"), WRONG)
def test_one_that_could_never_answer_is_refused_at_its_line(ask: Any, why: str) -> None:
    def wf(ctx: Context) -> Any:
        with pytest.raises(UsageError, match=why):
            yield ask(ctx)
        return "refused"

    assert drive(wf).result == "refused"


def test_another_kind_at_its_position_is_divergence() -> None:
    run = drive(buying)

    def other(ctx: Context) -> Flow[Any]:
        yield from ctx.step(stored, "connection", "book")

    assert "recorded transaction 'find', the workflow now asks for step 'stored'" in run.retake(other).block.message
    assert run.block.line == line_in(other, "ctx.step") + " in other"


def test_a_workflow_is_driven_by_hand_through_it() -> None:
    flow = buying(Context())
    command = next(flow)
    assert (command.kind, command.fn, command.args, command.kwargs) == ("transaction", find, ("book",), {"count": 2})
    flow.send(Order("book", 2))
    with pytest.raises(StopIteration) as stop:
        flow.send(9)
    assert stop.value.value == (2, 9)


def test_a_run_that_goes_on_as_new_leaves_it_behind() -> None:
    def turning(ctx: Context, count: int = 0) -> Any:
        done = yield ctx.transaction(stored, str(count))
        if count == 0:
            return ctx.continue_as_new(done)
        return done, count

    run = drive(turning, {"1": 5}).renew()
    assert run.answer("1", 6).result == (6, 5)


def test_children_that_are_asked_for_on_its_answer_come_with_the_mark() -> None:
    def wf(ctx: Context) -> Flow[Any]:
        item = yield from ctx.transaction(stored, "a")
        child = yield from ctx.spawn(ship, Order(str(item)))
        yield from ctx.publish(item=item)
        return child.id

    run = Drive(wf)
    run.answer("1", 4)
    assert isinstance(run.end, Returned)
    assert run.children == [run.result]
    assert run.published == {"item": 4}


def test_undos_of_a_run_that_fails_in_it_run() -> None:
    def wf(ctx: Context) -> Flow[Any]:
        ctx.compensate(charge, "back")
        yield from ctx.transaction(stored, "a")

    run = drive(wf, {"1": Fails(Declined(3)), "u1": 1})
    assert isinstance(run.error, Declined)
