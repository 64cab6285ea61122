"""What a held workflow writes: a turn that goes on, parks, gives back, renews or ends; and one that blocks.

A turn that blocks keeps what is on record: every answer that was fed, with what was asked on it, but nothing of what
was asked on the answer that the code failed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from runnerq.persistence.records import MANY_CHILDREN, Attempt, Claimed, End, Move, NewRun, Park, Renew, Stuck, Turn
from runnerq.runtime.calls import child_run
from runnerq.runtime.dead_letters import Dead, hook_run
from runnerq.runtime.parts import Parts
from runnerq.workflow.ending import ContinuedAsNew
from runnerq.workflow.interpreter import Interpreter, Progress
from runnerq.workflow.journal import Row, Started, asks_of
from runnerq.workflow.tree import Leaf
from runnerq.workflow.wants import wants

_ANSWERS = frozenset({"answered", "failed"})


DEEPEST = 20
"""Lines of the parked place that are kept, the innermost ones."""


class Unwritten(msgspec.Struct):
    """What a held run has to write beside what its interpreter tells: signals it took, attempts that failed, and
    positions whose failed attempts are over."""

    consumed: list[int] = []
    attempts: list[Attempt] = []
    settled: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.consumed or self.attempts or self.settled)


def turn_of(claimed: Claimed, seen: int, move: Move, progress: Progress, unwritten: Unwritten, parts: Parts) -> Turn:
    """The turn that writes all this."""
    rows = progress.rows
    children = _children(progress.children, claimed, parts)
    if isinstance(move, End) and move.status == "dead_letter":
        children += _hook(move, claimed, parts)
    return Turn(
        run_id=claimed.id,
        token=claimed.token,
        seen=seen,
        generation=claimed.generation,
        move=move,
        rows=rows,
        children=children,
        consumed=tuple(unwritten.consumed),
        attempts=tuple(unwritten.attempts),
        settled=tuple(unwritten.settled),
        published=None if progress.published is None else _state(progress.published, claimed, parts),
        recovered=bool(claimed.crashes or claimed.faults) and any(row.kind in _ANSWERS for row in rows),
    )


def park(interpreter: Interpreter, due_at: Callable[[datetime | None], datetime | None]) -> Park:
    """The move of a run that waits; ``due_at`` says when it must go on, given when its waits end by themselves."""
    wanted = wants(interpreter)
    return Park(
        due_at=due_at(wanted.due_at),
        signals=wanted.signals,
        children=wanted.children if len(wanted.children) <= MANY_CHILDREN else None,
        needs=max(1, wanted.needs),
        stack=tuple(interpreter.stack()[-DEEPEST:]),
    )


def renewal(end: ContinuedAsNew, interpreter: Interpreter, claimed: Claimed, parts: Parts) -> Renew:
    """The move to the next generation. Its first row is not fed yet: whoever takes it up does that."""
    started = Started(
        seed=parts.seed(claimed.id, claimed.generation + 1),
        build=parts.build,
        version=claimed.version,
        arguments=msgspec.Raw(end.arguments.encode()),
        state=interpreter.state,
        began_at=interpreter.began_at,
    )
    return Renew(started=Row(0, "started", "", interpreter.recorder.at, msgspec.json.encode(started).decode()))


def renewed(claimed: Claimed, renew: Renew) -> Claimed:
    """The claim as it would be of the next generation; its mailbox is still to be read."""
    return msgspec.structs.replace(
        claimed,
        generation=claimed.generation + 1,
        rows=(renew.started,),
        signals=(),
        outcomes=(),
        attempts=(),
        crashes=0,
        faults=0,
    )


def blocking_turn(
    claimed: Claimed, seen: int, stuck: Stuck, interpreter: Interpreter, unwritten: Unwritten, parts: Parts
) -> Turn:
    """The turn that blocks the run behind what is on record."""
    rows = interpreter.recorder.take_rows()
    asked = [each for row in rows for each in asks_of(row)]
    on_record = {each.child for each in asked}
    children = [leaf for leaf in interpreter.new_children if leaf.asked.child in on_record]
    published = any(each.kind == "publish" for each in asked)
    return Turn(
        run_id=claimed.id,
        token=claimed.token,
        seen=seen,
        generation=claimed.generation,
        move=stuck,
        rows=rows,
        children=_children(children, claimed, parts),
        consumed=tuple(unwritten.consumed),
        attempts=tuple(unwritten.attempts),
        settled=tuple(unwritten.settled),
        published=_state(interpreter.state, claimed, parts) if published else None,
    )


def bare_turn(claimed: Claimed, seen: int, stuck: Stuck) -> Turn:
    """The turn that blocks the run and writes nothing else: its last one was refused, and what follows needs that."""
    return Turn(run_id=claimed.id, token=claimed.token, seen=seen, generation=claimed.generation, move=stuck)


def _children(leaves: Sequence[Leaf], claimed: Claimed, parts: Parts) -> tuple[NewRun, ...]:
    return tuple([child_run(leaf, claimed, parts) for leaf in leaves])


def _hook(end: End, claimed: Claimed, parts: Parts) -> tuple[NewRun, ...]:
    """The run that is told of a dead letter, if the workflow names one."""
    target = parts.registry.get(claimed.kind, claimed.name, claimed.version)
    hook = None if target is None else target.declaration.on_dead_letter
    return hook_run(hook, Dead.of(claimed), end, parts.codec)


def _state(values: dict[str, object], claimed: Claimed, parts: Parts) -> str:
    return parts.codec.encode(values, f"the published state of run {claimed.id}")
