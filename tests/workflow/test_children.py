"""Children and handles: what they ask for, what they answer with, and when one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from runnerq.errors import ChildCancelled, ChildFailed, DepthExceeded, UsageError
from runnerq.workflow.commands import Command, Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from runnerq.workflow.journal import Started
from tests.workflow.driver import START, Drive, Fails, an_interpreter, drive
from tests.workflow.steps import GO, Declined, Order, charge, pack, ship

OTHER = "018f3d5e-7a0c-7c2b-8b7e-ffffffffffff"


def test_a_child_is_started_with_an_id_on_record_and_answers_its_result() -> None:
    def wf(ctx: Context) -> Flow[Order]:
        return (yield from ctx.child(ship, Order("book")))

    run = drive(wf)
    assert run.children == [run.asks()["1"].child]
    assert run.leaf("1").command.payload == '[{"item":"book","count":1}]'
    assert run.answer("1", {"item": "pen"}).result == Order("pen")
    assert run.run.children == {}


def test_a_child_that_failed_raises_its_error_as_the_cause() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.child(pack, Order("book"))
        except ChildFailed as failed:
            return failed.status, repr(failed.__cause__)

    failed = ChildFailed(OTHER, "pack-it", "failed", "1")
    failed.__cause__ = Declined(1)
    status, cause = drive(wf, {"1": Fails(failed)}).result
    assert status == "failed"
    assert cause == "Declined(1)"


def test_spawning_answers_a_handle_at_once() -> None:
    def wf(ctx: Context) -> Any:
        handle = yield from ctx.spawn(ship, Order("book"))
        yield handle.send(GO, Order("pen"))
        changed = yield handle.cancel()
        try:
            yield handle.result()
        except ChildCancelled as cancelled:
            return handle.id, changed, cancelled.child_id

    run = drive(wf)
    child = run.asks()["1"].child
    assert run.open == {"2": "send 'go'"}
    assert run.children == [child]
    run.feed({"2": None, "3": True})
    assert run.asks()["4"].child == child
    assert run.answer("4", Fails(ChildCancelled(str(child), "ship"))).result == (child, True, child)


def test_a_spawned_child_stays_open_until_its_result_is_had() -> None:
    def wf(ctx: Context) -> Any:
        handle = yield ctx.spawn(ship, Order("book"))
        yield ctx.sleep(1)
        return (yield handle.result())

    run = drive(wf)
    child = run.asks()["1"].child
    assert list(run.run.children) == [child]
    run.answer("2")
    assert list(run.run.children) == [child]
    run.answer("3", {"item": "book"})
    assert list(run.run.children) == []


def test_a_handle_says_which_child_it_is() -> None:
    def wf(ctx: Context) -> Any:
        handle = yield ctx.spawn(ship, Order("book"))
        return repr(handle)

    run = drive(wf)
    assert run.result == f"ChildHandle('ship', {run.asks()['1'].child!r})"


def test_a_handle_by_id_waits_for_a_child_that_exists() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.handle(OTHER).result())

    run = drive(wf, {"1": {"any": "thing"}})
    assert run.asks()["1"].child == OTHER
    assert run.children == []
    assert run.result == {"any": "thing"}


def test_ids_of_children_differ_by_position() -> None:
    def wf(ctx: Context) -> Any:
        one = yield ctx.spawn(ship, Order("book"))
        two = yield ctx.spawn(ship, Order("book"))
        return one.id, two.id

    one, two = drive(wf).result
    assert one != two


@pytest.mark.parametrize("verb", ["child", "spawn"])
def test_a_child_that_would_lie_too_deep_is_a_recorded_failure(verb: str) -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield getattr(ctx, verb)(ship, Order("book"))
        except DepthExceeded as error:
            return error.child

    run = Drive(wf, may_have_children=False)
    assert run.result == "ship"
    assert run.children == []
    assert run.written == ["started +1", "failed 1 DepthExceeded"]
    assert run.asks()["1"].child is None


def test_what_was_refused_stays_refused_when_the_limit_is_raised() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.child(ship, Order("book"))
        except DepthExceeded:
            yield ctx.step(charge, 1)

    run = Drive(wf, may_have_children=False)
    run.may_have_children = True
    assert run.retake().open == {"2": "step 'charge'"}
    assert run.rows[-1].kind == "failed"


def test_what_was_started_stays_started_when_the_limit_is_lowered() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.child(ship, Order("book")))

    run = Drive(wf)
    run.may_have_children = False
    assert run.retake().answer("1", {"item": "book"}).result == Order("book")


def test_a_child_that_could_never_be_started_is_an_error_at_the_users_line() -> None:
    def check(command: Command[Any]) -> None:
        raise UsageError(f"{command!r} is nowhere registered")

    def wf(ctx: Context) -> Any:
        try:
            yield ctx.spawn(ship, Order("book"))
        except UsageError as error:
            yield ctx.publish(error=str(error))

    run = an_interpreter(wf, check_child=check)
    run.begin(Started(seed="s", build="b"), START)
    assert run.state == {"error": "<spawn 'ship'> is nowhere registered"}
    run.close()


def test_a_child_refused_in_a_race_decides_it() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.race(ctx.sleep(1), ctx.child(ship, Order("book")))
        except DepthExceeded as error:
            return error.child

    run = Drive(wf, may_have_children=False)
    assert run.result == "ship"
    assert run.written == [
        "started +1 +1.0 +1.1", "failed 1.1 DepthExceeded", "closed 1.0", "failed 1 1",
    ]  # fmt: skip


def test_a_workflow_whose_context_is_not_annotated_at_run_time_can_be_a_child() -> None:
    def child(ctx: NotThere, order: Order) -> Flow[Order]:  # type: ignore[name-defined]  # noqa: F821 - on purpose
        yield ctx.sleep(1)
        return order

    workflow(child)

    def wf(ctx: Context) -> Any:
        return (yield ctx.child(child, Order("book")))

    assert drive(wf, {"1": {"item": "pen"}}).result == Order("pen")


class TestDetached:
    """``ctx.options(detached=True).spawn(...)``: a run of its own."""

    def test_it_is_started_and_is_none_of_its_starters_children(self) -> None:
        def wf(ctx: Context) -> Any:
            handle = yield from ctx.options(detached=True).spawn(ship, Order("book"))
            yield handle.send(GO, Order("pen"))
            changed = yield handle.cancel()
            return handle.id, changed

        run = drive(wf)
        started = run.asks()["1"].child
        assert run.children == [started]
        assert run.run.children == {}
        assert run.feed({"2": None, "3": True}).result == (started, True)

    def test_its_handle_has_no_result(self) -> None:
        def wf(ctx: Context) -> Any:
            handle = yield ctx.options(detached=True).spawn(ship, Order("book"))
            try:
                yield handle.result()
            except UsageError as error:
                return str(error)

        assert "is detached, and tells nobody of its end" in drive(wf).result

    def test_it_cannot_be_waited_for_as_a_child(self) -> None:
        def wf(ctx: Context) -> Any:
            try:
                yield ctx.options(detached=True).child(ship, Order("book"))
            except UsageError as error:
                return str(error)

        assert drive(wf).result == "a detached run cannot be waited for: spawn 'ship', or leave detached=True out"

    def test_it_lies_below_nobody_however_deep_its_starter_lies(self) -> None:
        def wf(ctx: Context) -> Any:
            handle = yield ctx.options(detached=True).spawn(ship, Order("book"))
            return handle.id

        run = Drive(wf, may_have_children=False)
        assert run.children == [run.result]
        assert run.retake().result == run.result
