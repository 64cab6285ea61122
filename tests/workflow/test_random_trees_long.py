"""Random workflows, answered in random orders, with failures and cancels: every prefix of every journal replays."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runnerq.errors import Cancelled
from runnerq.workflow.commands import Winner
from runnerq.workflow.context import Context
from runnerq.workflow.wants import wants
from tests.workflow.driver import CutOff, Drive, Fails, asked_in
from tests.workflow.steps import GO, Declined, Order, anything, ship


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


def composites(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lines = st.builds(
        Line,
        commands=st.lists(inner, max_size=3).map(tuple),
        catches=st.booleans(),
        cleans=st.booleans(),
        raises=st.sampled_from([False, False, False, True]),
    )
    return st.builds(
        Many,
        kind=st.sampled_from(["all", "gather", "race"]),
        members=st.lists(st.one_of(inner, lines), min_size=1, max_size=4).map(tuple),
        limit=st.sampled_from([None, 1, 2]),
        return_errors=st.booleans(),
    )


KINDS = ["step", "step", "sleep", "signal", "child", "spawn", "publish", "send", "nothing", "refused"]
COMMANDS = st.recursive(st.builds(One, kind=st.sampled_from(KINDS)), composites, max_leaves=8)
WORKFLOWS = st.builds(
    Line, commands=st.lists(COMMANDS, min_size=1, max_size=4).map(tuple), catches=st.booleans(), cleans=st.booleans(),
    raises=st.just(False),
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


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(line=WORKFLOWS, data=st.data())
def test_any_workflow_stands_alike_after_any_prefix_of_its_journal(line: Line, data: st.DataObject) -> None:
    run = Drive(lambda ctx: walked(ctx, line))
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
    positions = [asked.position for row in run.rows for asked in asked_in(row)]
    assert len(positions) == len(set(positions))


def answers_to(run: Drive, position: str) -> st.SearchStrategy[Any]:
    kind = run.leaf(position).command.kind
    value: Any = {"signal": {"item": "pen"}, "child": {"item": "pen"}, "step": 7}.get(kind)
    answers: list[Any] = [value, value]
    if kind != "sleep":
        answers.append(Fails(Declined(3)))
    if position in run.run.cutting:
        answers.append(CutOff())
    return st.sampled_from(answers)
