"""Code that asks for something else than its journal holds is blocked, with the place, and can do nothing about it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from runnerq.workflow.context import Context
from runnerq.workflow.ending import Blocked
from runnerq.workflow.journal import RULES, Row
from runnerq.workflow.recorder import without_digests
from tests.workflow.driver import MODULES, START, Body, Drive, Fails, an_interpreter, drive, line_in
from tests.workflow.steps import GO, Declined, Order, anything, charge, find, price, ship


def original(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, cost)
    yield ctx.signal(GO)


def recorded() -> Drive:
    return drive(original, {"1": 10, "2": None, "3": 0})


def blocked_by(run: Drive, changed: Body) -> Blocked:
    rows = list(run.rows)
    block = run.retake(changed).block
    assert run.rows == rows, "a divergence writes nothing"
    assert not block.by_worker
    assert block.error is None
    return block


# --- commands ---------------------------------------------------------------------------------------------------------


def test_another_name_at_a_position() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.step(find, "book")

    block = blocked_by(recorded(), changed)
    assert block.position == "1"
    assert block.recorded is not None
    assert block.recorded.startswith("step 'price' (")
    assert block.asked is not None
    assert block.asked.startswith("step 'find' (")
    assert block.line == f"{line_in(changed, 'find')} in changed"
    assert "recorded step 'price', the workflow now asks for step 'find'" in block.message


def test_another_kind_at_a_position() -> None:
    def changed(ctx: Context) -> Any:
        cost = yield ctx.step(price, "book")
        yield ctx.signal(GO)
        yield ctx.step(charge, cost)

    block = blocked_by(recorded(), changed)
    assert (block.position, block.line) == ("2", f"{line_in(changed, 'GO')} in changed")
    assert "recorded sleep, the workflow now asks for signal 'go'" in block.message


def test_other_arguments() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.step(price, "pen")

    block = blocked_by(recorded(), changed)
    assert block.position == "1"
    assert "with other arguments" in block.message


def test_another_timer() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        yield ctx.sleep(61)

    block = blocked_by(recorded(), changed)
    assert block.position == "2"
    assert "recorded sleep, the workflow now asks for sleep of another length at" in block.message


def test_another_timeout_of_a_signal() -> None:
    def changed(ctx: Context) -> Any:
        cost = yield ctx.step(price, "book")
        yield ctx.sleep(60)
        yield ctx.step(charge, cost)
        yield ctx.signal(GO, timeout=5)

    block = blocked_by(recorded(), changed)
    assert block.position == "4"
    assert "signal 'go' with another timeout, default or latest at" in block.message


def test_a_wait_for_another_child() -> None:
    def waiting(number: int) -> Body:
        def wf(ctx: Context) -> Any:
            handles = yield ctx.all(ctx.spawn(ship, Order("a")), ctx.spawn(ship, Order("b")))
            yield handles[number].result()

        return wf

    block = blocked_by(drive(waiting(0)), waiting(1))
    assert block.position == "2"
    assert "with other arguments" in block.message


def test_an_inserted_step_even_if_it_calls_the_same_function() -> None:
    def changed(ctx: Context) -> Any:
        cost = yield ctx.step(price, "book")
        yield ctx.step(price, "book")
        yield ctx.sleep(60)
        yield ctx.step(charge, cost)

    assert blocked_by(recorded(), changed).position == "2"


def test_a_removed_step() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        yield ctx.step(charge, 10)

    assert blocked_by(recorded(), changed).position == "2"


def test_reordered_steps() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.sleep(60)
        yield ctx.step(price, "book")

    assert blocked_by(recorded(), changed).position == "1"


def test_an_early_return() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        return "early"

    block = blocked_by(recorded(), changed)
    assert block.position == "2"
    assert "recorded sleep, the workflow asks for nothing" in block.message


def test_an_early_error() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise ValueError("early")

    assert blocked_by(recorded(), changed).position == "2"


def test_rows_left_over_when_the_code_returns() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.publish(at="start")
        yield ctx.race(ctx.sleep(1), ctx.sleep(2))

    run = drive(wf, {"2.0": None})
    last = Row(len(run.rows), "cancel", "", run.at, None, "[]")
    run.rows.append(last)
    block = run.retake().block
    assert "the journal goes on with 'cancel' (row 4), but the workflow has ended" in block.message


def test_a_command_asked_where_none_was() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(price, "book")

    def changed(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        yield ctx.sleep(1)

    block = blocked_by(drive(wf, {"1": 5}), changed)
    assert block.position == "2"
    assert block.recorded is None
    assert "nothing is recorded, the workflow now asks for sleep" in block.message
    assert block.line == f"{line_in(changed, 'sleep')} in changed"


# --- composites, branches, cancels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["all", "race", "gather", "limit", "return_errors"])
def test_another_number_of_members_or_shape(shape: str) -> None:
    def composite(ctx: Context, count: int, **options: Any) -> Any:
        members = [ctx.sleep(number) for number in range(count)]
        if shape in ("all", "race"):
            return getattr(ctx, shape)(*members)
        return ctx.gather(members, **options)

    def wf(ctx: Context) -> Any:
        yield composite(ctx, 3)

    def changed(ctx: Context) -> Any:
        options: dict[str, Any] = {"limit": {"limit": 4}, "return_errors": {"return_errors": True}}.get(shape, {})
        yield composite(ctx, 3 if options else 2, **options)

    assert blocked_by(drive(wf), changed).position == "1"


def test_fewer_commands_of_a_branch() -> None:
    def branch(ctx: Context) -> Any:
        yield ctx.publish(a=1)
        yield ctx.sleep(1)

    def shorter(ctx: Context) -> Any:
        yield ctx.publish(a=1)

    def wf(ctx: Context) -> Any:
        yield ctx.all(branch(ctx), ctx.sleep(2))

    def changed(ctx: Context) -> Any:
        yield ctx.all(shorter(ctx), ctx.sleep(2))

    block = blocked_by(drive(wf), changed)
    assert block.position == "1.0.2"
    assert "at position 1.1" in block.message


def test_fewer_commands_at_the_end_of_an_event_name_the_line_by_which_their_branch_ended() -> None:
    def branch(ctx: Context) -> Any:
        yield ctx.publish(a=1)

    def nothing(ctx: Context) -> Any:
        return  # nothing
        yield

    def wf(ctx: Context) -> Any:
        yield ctx.all(ctx.sleep(2), branch(ctx))

    def changed(ctx: Context) -> Any:
        yield ctx.all(ctx.sleep(2), nothing(ctx))

    block = blocked_by(drive(wf), changed)
    assert (block.position, block.line) == ("1.1.1", f"{line_in(nothing, '# nothing')} in nothing")


def test_events_that_follow_from_one_must_be_the_recorded_ones() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.all(ctx.step(price, "book"), ctx.step(price, "pen"))

    run = drive(wf, {"1.0": Fails(Declined(1))})
    with pytest.raises(Blocked) as blocked:
        an_interpreter(wf).replay([*run.rows[:2], run.rows[3]], START)
    assert "goes on with 'failed 1' (row 3), but the workflow goes on with 'closed 1.1'" in str(blocked.value)


@pytest.mark.parametrize(
    ("kind", "position", "message"),
    [
        ("answered", "7", "the workflow does not wait for that"),
        ("mark", "1", "the workflow waits for <step 'price'> there"),
        ("started", "", "the workflow does not wait for that"),
    ],
)
def test_a_row_that_the_code_has_no_place_for(kind: Any, position: str, message: str) -> None:
    run = drive(original)
    run.rows.append(Row(1, kind, position, START, None, "[]"))
    block = run.retake().block
    assert message in block.message
    assert block.recorded == f"{kind} {position}".strip()
    assert block.line == f"{line_in(original, 'book')} in original"


def test_a_journal_that_begins_with_something_else() -> None:
    run = an_interpreter(original)
    with pytest.raises(Blocked, match=r"'cancel' \(row 0\)"):
        run.replay([Row(0, "cancel", "", START, None, "[]")], START)


def test_a_failed_row_that_is_not_followed_by_its_mark() -> None:
    run = drive(original)
    rows = [msgspec.structs.replace(run.rows[0], asked=None), Row(1, "answered", "1", START, "1", "[]")]
    with pytest.raises(Blocked, match="the workflow failed on the row before it"):
        an_interpreter(original).replay(rows, START)


def test_a_journal_of_newer_rules_is_refused_before_any_of_it_is_fed() -> None:
    seen = []

    def wf(ctx: Context) -> Any:
        seen.append(ctx)
        yield ctx.sleep(1)

    run = drive(original, {"1": 5})
    started = msgspec.json.decode(run.rows[0].value or "")
    newer = msgspec.json.encode({**started, "rules": RULES + 1, "unheard": "of"}).decode()
    rows = [msgspec.structs.replace(run.rows[0], value=newer), *run.rows[1:]]
    rows.append(msgspec.structs.replace(rows[1], place=2, kind="unheard"))
    with pytest.raises(Blocked, match=f"was written by rules {RULES + 1} of runnerq") as blocked:
        an_interpreter(wf).replay(rows, START)
    assert seen == []
    assert not blocked.value.by_worker, "for this build; a newer worker takes it up"


def test_a_journal_of_older_rules_reads_the_same() -> None:
    run = drive(original, {"1": 5})
    older = '{"seed":"seed","build":"b","rules":1,"version":1,"arguments":null}'
    run.rows[0] = msgspec.structs.replace(run.rows[0], value=older)
    assert run.retake().open == {"2": "sleep"}


def test_fewer_members_started_in_an_event_name_the_line_that_waits() -> None:
    def wf(ctx: Context, limit: int = 3) -> Any:
        yield ctx.options(arguments="any").gather([ctx.sleep(1) for _ in range(3)], limit=limit)

    block = blocked_by(drive(wf), lambda ctx: wf(ctx, 2))
    assert (block.position, block.line) == ("1.2", f"{line_in(wf, 'gather')} in wf")


@pytest.mark.parametrize("damage", [{"asked": "[[1"}, {"value": "{"}, {"kind": "failed", "value": "no"}])
def test_a_row_that_cannot_be_read_blocks(damage: dict[str, Any]) -> None:
    run = drive(original, {"1": 5})
    rows = [*run.rows[:1], msgspec.structs.replace(run.rows[1], **damage)]
    with pytest.raises(Blocked) as blocked:
        an_interpreter(original).replay(rows, START)
    assert blocked.value.position in (None, "1")


# --- what user code can do about it -----------------------------------------------------------------------------------


def test_no_except_of_user_code_sees_it() -> None:
    seen = []

    def changed(ctx: Context) -> Any:
        try:
            yield ctx.step(find, "book")
        except BaseException as error:
            seen.append(error)
            raise

    run = recorded()
    blocked_by(run, changed)
    assert seen == []
    assert run.run.close() == []
    assert [type(error) for error in seen] == [GeneratorExit]


def test_the_same_code_goes_on_after_a_divergence() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.step(find, "book")

    run = recorded()
    blocked_by(run, changed)
    assert run.retake(original).answer("4", {"item": "pen"}).result is None


def test_an_answer_that_no_longer_fits_its_annotation_blocks() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.options(name="load").step(anything, "book")
        yield ctx.sleep(1)

    def changed(ctx: Context) -> Any:
        yield ctx.options(name="load").step(find, "book")
        yield ctx.sleep(1)

    block = drive(wf, {"1": ["no", "order"]}).retake(changed).block
    assert block.position == "1"
    assert "no longer fits" in block.message
    assert block.line == f"{line_in(changed, 'find')} in changed"
    assert not block.by_worker


def test_a_failure_whose_class_is_gone_blocks_for_this_worker_only() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, 1)
        except Declined:
            yield ctx.sleep(1)

    run = drive(wf, {"1": Fails(Declined(1))})
    without = msgspec.structs.replace(run.run.identity, modules=MODULES - {"tests.workflow.steps"})
    run.run.identity = without
    elsewhere = type(run.run)(without, run.codec)
    with pytest.raises(Blocked, match="cannot be rebuilt here") as blocked:
        elsewhere.replay(run.rows, START)
    assert blocked.value.by_worker
    assert blocked.value.position == "1"
    assert blocked.value.line is not None


def test_what_a_block_compares_is_told_to_people_without_digests() -> None:
    assert without_digests("step 'pay' (0a1b)", "step 'pay' (2c3d)") == (
        "step 'pay'",
        "step 'pay' with other arguments",
    )
    assert without_digests("step 'pay' (0a1b)", "step 'ship' (2c3d)") == ("step 'pay'", "step 'ship'")
    assert without_digests(None, "step 'ship' (2c3d)") == (None, "step 'ship'")
    assert without_digests("step 'pay' (0a1b)", None) == ("step 'pay'", None)
