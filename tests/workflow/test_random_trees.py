"""Random workflows, answered in random orders, with failures and cancels: every prefix of every journal replays."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runnerq.errors import Cancelled
from runnerq.serialization.failures import record
from runnerq.workflow.commands import Winner
from runnerq.workflow.context import Context
from runnerq.workflow.ending import ContinuedAsNew, Raised, UndoFailed
from runnerq.workflow.forking import before_answer, forked, open_children
from runnerq.workflow.journal import Row
from runnerq.workflow.reopening import effective, reopening, undo_began
from runnerq.workflow.wants import wants
from tests.workflow.driver import MODULES, CutOff, Drive, Fails, an_info, asked_in
from tests.workflow.steps import GO, Declined, Order, anything, ship, stored

FORK_ID = "018f3d5e-7a0c-7c2b-8b7e-000000000001"


class One(msgspec.Struct, frozen=True):
    """A command that is no composite."""

    kind: str


class Many(msgspec.Struct, frozen=True):
    """A composite."""

    kind: str
    members: tuple[Any, ...]
    limit: int | None
    return_errors: bool


class Line(msgspec.Struct, frozen=True):
    """A branch: commands one after the other."""

    commands: tuple[Any, ...]
    catches: bool
    cleans: bool
    raises: bool
    undoes: bool
    patched: bool


def composites(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lines = st.builds(
        Line,
        commands=st.lists(inner, max_size=3).map(tuple),
        catches=st.booleans(),
        cleans=st.booleans(),
        raises=st.sampled_from([False, False, False, True]),
        undoes=st.sampled_from([False, False, False, True]),
        patched=st.booleans(),
    )
    return st.builds(
        Many,
        kind=st.sampled_from(["all", "gather", "race"]),
        members=st.lists(st.one_of(inner, lines), min_size=1, max_size=4).map(tuple),
        limit=st.sampled_from([None, 1, 2]),
        return_errors=st.booleans(),
    )


KINDS = ["step", "step", "transaction", "sleep", "signal", "child", "spawn", "publish", "send", "nothing", "refused"]
COMMANDS = st.recursive(st.builds(One, kind=st.sampled_from(KINDS)), composites, max_leaves=8)
WORKFLOWS = st.builds(
    Line, commands=st.lists(COMMANDS, min_size=1, max_size=4).map(tuple), catches=st.booleans(), cleans=st.booleans(),
    raises=st.booleans(), undoes=st.booleans(), patched=st.booleans(),
)  # fmt: skip


def made(ctx: Context, what: Any) -> Any:
    """The command or branch that this describes."""
    match what:
        case Line():
            return walked(ctx, what)
        case Many("gather", members, limit, return_errors):
            return ctx.gather([made(ctx, member) for member in members], limit=limit, return_errors=return_errors)
        case Many(kind, members):
            return getattr(ctx, kind)(*[made(ctx, member) for member in members])
        case One(kind):
            return {
                "step": lambda: ctx.step(anything, kind),
                "transaction": lambda: ctx.transaction(stored, kind),
                "sleep": lambda: ctx.sleep(5),
                "signal": lambda: ctx.signal(GO, timeout=50, default=None),
                "child": lambda: ctx.child(ship, Order("book")),
                "spawn": lambda: ctx.spawn(ship, Order("book")),
                "publish": lambda: ctx.publish(last=kind),
                "send": lambda: ctx.send(ctx.info.id, "go", 1),
                "nothing": ctx.all,
                "refused": lambda: 42,
            }[kind]()


def walked(ctx: Context, line: Line) -> Any:
    seen: list[Any] = []
    for command in line.commands:
        if line.undoes:
            ctx.compensate(anything, len(seen))
        if line.patched:
            seen.append(ctx.patched("other way"))
        try:
            seen.append(shown((yield made(ctx, command))))
        except Declined as error:
            seen.append(["declined", error.code])
            if not line.catches:
                raise
        except Cancelled:
            if not line.cleans:
                raise
            yield ctx.step(anything, "clean")
            seen.append("cancelled")
        except Exception as error:
            seen.append(type(error).__name__)
        seen.append([str(ctx.uuid()), ctx.now().timestamp()])
    if line.raises:
        raise Declined(len(seen))
    return seen


def shown(value: Any) -> Any:
    match value:
        case Winner(index, won):
            return ["winner", index, shown(won)]
        case list() | tuple():
            return [shown(item) for item in value]
        case None | int() | str() | Order():
            return value
        case _:
            return type(value).__name__


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(line=WORKFLOWS, data=st.data())
def test_any_workflow_stands_alike_after_any_prefix_of_its_journal(line: Line, data: st.DataObject) -> None:
    run = Drive(lambda ctx: walked(ctx, line))
    answered(run, data)
    positions = [asked.position for row in run.rows for asked in asked_in(row)]
    assert len(positions) == len(set(positions))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(line=WORKFLOWS, data=st.data())
def test_any_workflow_that_ended_badly_is_opened_again_and_goes_on(line: Line, data: st.DataObject) -> None:
    run = Drive(lambda ctx: walked(ctx, line))
    for _ in range(3):
        answered(run, data)
        match run.end:
            case UndoFailed(error):
                reopened = reopening(run.rows, record(error, MODULES, retryable=True))
            case Raised(error) if not undo_began(run.rows) and not isinstance(error, Cancelled):
                reopened = reopening(run.rows, record(error, MODULES, retryable=True))
            case _:
                return
        run.reopen(reopened)
        assert run.blocked is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(line=WORKFLOWS, data=st.data())
def test_any_workflow_is_forked_from_any_of_its_entries(line: Line, data: st.DataObject) -> None:
    run = Drive(lambda ctx: walked(ctx, line))
    answered(run, data)
    own = [asked.position for row in run.rows for asked in asked_in(row) if asked.kind != "undo"]
    if not own:
        return
    position = data.draw(st.sampled_from(own), label="forked from")
    rows = before_answer(run.rows, position)
    new = {child: f"018f3d5e-7a0c-7c2b-8b7e-1{index:011}" for index, child in enumerate(open_children(rows))}
    fork = Drive(run.code)
    fork.info, fork.at, fork.children = an_info(id=FORK_ID), run.at, []
    fork.rows = list(forked(rows, new, run.at))
    fork.retake()
    assert fork.blocked is None
    assert _answers(fork.rows) == _answers(run.rows)[: len(_answers(fork.rows))]
    answered(fork, data)


def _answers(rows: list[Row]) -> list[tuple[str, str, str | None]]:
    fed = effective(rows)
    return [(row.kind, row.position, row.value) for row in fed if row.kind not in ("started", "mark")]


def answered(run: Drive, data: st.DataObject) -> None:
    """Answer what is open until the run has ended, in any order, with a cancel among it."""
    cancels_at = data.draw(st.sampled_from([None, None, 0, 1, 2, 4]), label="cancels after")
    events = 0
    while run.open:
        wanted = wants(run.run)
        assert wanted.needs <= len(wanted.children)
        if events == cancels_at:
            run.cancel("enough")
        else:
            position = data.draw(st.sampled_from(sorted(run.open)), label="answers")
            run.answer(position, data.draw(answers_to(run, position), label="with"))
        events += 1
        if data.draw(st.sampled_from([False, False, True]), label="taken up"):
            run.retake()
    assert run.blocked is None
    assert run.end is not None
    assert not isinstance(run.end, ContinuedAsNew)


def answers_to(run: Drive, position: str) -> st.SearchStrategy[Any]:
    kind = run.leaf(position).command.kind
    value: Any = {"signal": {"item": "pen"}, "child": {"item": "pen"}, "step": 7, "transaction": 8}.get(kind)
    answers: list[Any] = [value, value]
    if kind != "sleep":
        answers.append(Fails(Declined(3)))
    if position in run.run.cutting or kind == "undo":
        answers.append(CutOff())
    return st.sampled_from(answers)
