"""Closing a parked run: at once, on this thread, with an inert context, and with nothing left behind."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from runnerq.errors import UsageError
from runnerq.workflow.context import Context
from runnerq.workflow.driver import Inert
from runnerq.workflow.ending import Blocked
from runnerq.workflow.journal import Started
from tests.workflow.driver import START, Drive, Fails, an_interpreter, drive, line_in
from tests.workflow.steps import GO, Declined, anything, price


def test_finally_blocks_run_on_the_closing_thread() -> None:
    seen: list[Any] = []

    def wf(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        finally:
            seen.append(threading.get_ident())

    run = drive(wf)
    seen.clear()
    assert run.run.close() == []
    assert seen == [threading.get_ident()]


def test_every_branch_is_closed_innermost_first() -> None:
    seen: list[str] = []

    def branch(ctx: Context, name: str, inside: Any = None) -> Any:
        try:
            yield ctx.all(inside, ctx.sleep(1)) if inside else ctx.sleep(1)
        finally:
            seen.append(name)

    def wf(ctx: Context) -> Any:
        try:
            yield ctx.race(branch(ctx, "a", branch(ctx, "a.a")), branch(ctx, "b"))
        finally:
            seen.append("root")

    run = drive(wf)
    seen.clear()
    run.run.close()
    assert seen == ["b", "a.a", "a", "root"]


def test_branches_are_closed_after_a_block_in_the_middle_of_a_start() -> None:
    seen: list[str] = []

    def branch(ctx: Context) -> Any:
        try:
            yield ctx.sleep(1)
        finally:
            seen.append("closed")

    def broken(ctx: Context) -> Any:
        raise TypeError
        yield ctx.sleep(1)

    def wf(ctx: Context) -> Any:
        yield ctx.all(branch(ctx), broken(ctx))

    run = drive(wf)
    assert run.block
    assert seen == []
    assert run.run.close() == []
    assert seen == ["closed"]


def test_the_context_is_inert_and_silent(caplog: pytest.LogCaptureFixture) -> None:
    seen: dict[str, Any] = {}

    def wf(ctx: Context) -> Any:
        ctx.log.warning("live")
        try:
            yield ctx.signal(GO)
        finally:
            seen["replaying"] = ctx.replaying
            seen["now"] = ctx.now()
            seen["uuid"] = ctx.uuid()
            seen["dice"] = ctx.random.random()
            seen["info"] = ctx.info.id
            ctx.log.warning("parked")
            ctx.step(anything, "never")

    run = drive(wf)
    seen.clear()
    rows = list(run.rows)
    with caplog.at_level(logging.DEBUG, "runnerq.workflow"):
        assert run.run.close() == []
    assert seen["replaying"] is True
    assert seen["now"] == START
    assert "parked" not in caplog.text
    assert run.rows == rows
    assert run.run.never_yielded() == ()


def test_commands_raise_three_times_and_then_go_nowhere() -> None:
    raised: list[type[BaseException]] = []

    def wf(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        finally:
            for _ in range(5):
                try:
                    ctx.step(price, "book")
                except BaseException as error:
                    raised.append(type(error))

    run = drive(wf)
    raised.clear()
    run.run.close()
    assert raised == [Inert] * 3


@pytest.mark.filterwarnings("error")
def test_a_yield_in_finally_closes_after_all() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        finally:
            yield None
            yield None

    assert drive(wf).run.close() == []


def test_no_loop_of_user_code_can_hang_it_and_what_refuses_is_given_back() -> None:
    enough: list[bool] = []

    def wf(ctx: Context) -> Any:
        while not enough:
            try:
                yield ctx.signal(GO)
            except BaseException:  # noqa: S112 - as the worst user writes it
                continue

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    [kept] = run.close()
    assert kept.gi_frame is not None
    enough.append(True)
    kept.close()


def test_an_error_in_a_finally_keeps_nothing_open() -> None:
    def branch(ctx: Context) -> Any:
        try:
            yield ctx.sleep(1)
        finally:
            raise ValueError

    def wf(ctx: Context) -> Any:
        yield ctx.all(branch(ctx), branch(ctx))

    assert drive(wf).run.close() == []


def test_a_ctrl_c_while_closing_is_passed_on_when_all_are_closed() -> None:
    seen: list[str] = []

    def branch(ctx: Context) -> Any:
        try:
            yield ctx.sleep(1)
        finally:
            raise KeyboardInterrupt

    def wf(ctx: Context) -> Any:
        try:
            yield ctx.all(branch(ctx), ctx.sleep(1))
        finally:
            seen.append("closed")

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    with pytest.raises(KeyboardInterrupt):
        run.close()
    assert seen == ["closed"]


def test_closing_twice_or_after_the_end_does_nothing() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)

    run = drive(wf, {"1": None})
    assert run.run.close() == []
    assert run.run.close() == []
    assert run.run.stack() == []


def test_a_generator_that_is_not_pythons_own_is_closed_as_well() -> None:
    class Wrapped(Generator[Any, Any, Any]):
        def __init__(self, inner: Generator[Any, Any, Any]) -> None:
            self.inner = inner

        def send(self, value: Any) -> Any:
            return self.inner.send(value)

        def throw(self, *error: Any) -> Any:
            return self.inner.throw(*error)

    def inner(ctx: Context) -> Any:
        a = yield ctx.sleep(1)
        b = yield ctx.all(Wrapped(part(ctx)))
        return a, b

    def part(ctx: Context) -> Any:
        return (yield ctx.step(price, "book"))

    run = an_interpreter(lambda ctx: Wrapped(inner(ctx)))
    run.begin(Started(seed="s", build="b"), START)
    run.answer("1", None, None, START)
    assert list(run.leaves) == ["2.0.1"]
    assert run.close() == []


def test_the_stack_of_the_parked_place_is_known() -> None:
    def deep(ctx: Context) -> Any:
        yield from ctx.signal(GO)  # deep

    def wf(ctx: Context) -> Any:
        yield from deep(ctx)  # outer

    assert drive(wf).run.stack() == [
        f"{line_in(wf, '# outer')} in wf", f"{line_in(deep, '# deep')} in deep",
    ]  # fmt: skip


# --- nothing left behind ----------------------------------------------------------------------------------------------


def left_by(once: Callable[[], None]) -> list[Any]:
    """What of ours only the garbage collector can end after this has been called."""
    once()  # Whatever is made the first time is kept.
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        once()
        gc.collect()
        return [left for left in gc.garbage if type(left).__module__.startswith("runnerq.") or is_generator(left)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def is_generator(left: Any) -> bool:
    return isinstance(left, Generator) and left.gi_code.co_filename == __file__


def waiting(ctx: Context) -> Any:
    try:
        yield ctx.all(ctx.sleep(1), waiting_branch(ctx), ctx.signal(GO))
    finally:
        ctx.log.info("done")


def waiting_branch(ctx: Context) -> Any:
    yield ctx.race(ctx.step(price, "book"), ctx.sleep(5))


def failing(ctx: Context) -> Any:
    yield ctx.race(failing_branch(ctx), waiting_branch(ctx))


def failing_branch(ctx: Context) -> Any:
    ctx.step(price, "forgotten")
    try:
        yield ctx.publish(a=1)
        yield None
    except UsageError as error:
        raise Declined(1) from error


def broken(ctx: Context) -> Any:
    yield ctx.race(broken_branch(ctx), ctx.sleep(1))


def broken_branch(ctx: Context) -> Any:
    try:
        yield 5
    except UsageError as error:
        yield ctx.publish(a=1)
        raise KeyError("k") from error


def losing(ctx: Context) -> Any:
    yield ctx.all(ctx.all(raising(ctx)), ctx.all(ctx.step(price, "book"), raising(ctx)))


def raising(ctx: Context) -> Any:
    yield ctx.publish(a=1)
    raise Declined(2)


@pytest.mark.parametrize("wf", [waiting, failing, broken, losing])
def test_no_cycle_is_left_for_the_garbage_collector(wf: Any) -> None:
    def once() -> None:
        run = an_interpreter(wf)
        try:
            run.begin(Started(seed="s", build="b"), START)
        except Blocked as blocked:
            assert blocked.position == "1.0.1"  # noqa: PT017 - kept no longer than this
        run.collect()
        run.close()

    assert left_by(once) == []


def test_a_replay_of_the_whole_journal_leaves_none_either() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.all(waiting_branch(ctx), failing_branch(ctx))
        except Declined:
            return (yield from caught(ctx))

    def caught(ctx: Context) -> Any:
        try:
            yield ctx.step(price, "pen")
        except Declined as error:
            yield ctx.sleep(1)
            raise ValueError("last") from error

    run = Drive(wf).feed({"1.0.1.0": 1, "2": Fails(Declined(2)), "3": None})
    assert str(run.error) == "last"
    rows = list(run.rows)

    def once() -> None:
        again = an_interpreter(wf)
        again.replay(rows, START)
        again.close()

    assert left_by(once) == []
