"""What a run of the hammer does next, decided from its journal, its mailbox and its id alone, as a replay is.

Rules
- Each row's value says what kind of entry it is and which token wrote it, so that the checks at the end can tell two
  owners apart.
- A position moves on at entries of ``MOVING`` kinds; a run ends after ``LENGTH`` of them.
"""

from __future__ import annotations

import json
import random
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from runnerq.ids import new_run_id
from runnerq.persistence.records import (
    GOING,
    MANY_CHILDREN,
    Attempt,
    Back,
    Claimed,
    End,
    Ended,
    Inbox,
    Mail,
    Move,
    NewRun,
    Outcome,
    Park,
    Stuck,
    Turn,
)
from runnerq.workflow.journal import Row

LENGTH = 8
DEPTH = 2
COUNTS = (1, 1, 1, 3, 3, MANY_CHILDREN + 1)
"""How many children are asked for at once."""

QUEUE = "q"
NAMES = ("a", "b")
CHANNELS = ("s0", "s1", "s2")
PAIRS = tuple((QUEUE, f"{name}@1") for name in NAMES)
SERVED = tuple(served for _, served in PAIRS)
BUILD, NEXT_BUILD = "b1", "b2"
MOVING = frozenset({"step", "signal", "children", "slept", "retried", "unstuck", "published"})


def chance(run_id: str, position: int, salt: int = 0) -> float:
    """The same number for the same place, in whatever process."""
    return random.Random(zlib.crc32(f"{run_id}/{position}/{salt}".encode())).random()


@dataclass(slots=True)
class Held:
    """One held run, as its holder knows it."""

    run: Claimed
    entries: list[dict[str, Any]]
    seen: int
    cancel: str | None
    mail: list[Mail]
    outcomes: dict[str, Outcome]
    recorded_at_claim: int
    woken: bool = False
    answered: bool = False
    pending: Turn | None = None
    failures: int = 0
    wants: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: Claimed) -> Held:
        entries = [json.loads(row.value or "null") for row in run.rows]
        return cls(
            run=run,
            entries=entries,
            seen=run.seen,
            cancel=run.cancel,
            mail=list(run.signals),
            outcomes={outcome.run_id: outcome for outcome in run.outcomes},
            recorded_at_claim=len(entries),
        )

    def read(self, box: Inbox) -> None:
        """Take over what the mailbox holds."""
        self.seen, self.cancel, self.mail = box.seen, box.cancel, list(box.signals)
        self.outcomes |= {outcome.run_id: outcome for outcome in box.outcomes}
        self.woken = True

    def children(self) -> tuple[str, ...]:
        """Those of the entry that waits for children, if the last one does."""
        last = self.entries[-1] if self.entries else {}
        return tuple(last["ids"]) if last.get("kind") == "spawn" else ()

    def written(self, turn: Turn) -> None:
        """The turn is on record, whether or not its move counted."""
        self.entries += [json.loads(row.value or "null") for row in turn.rows]
        self.mail = [mail for mail in self.mail if mail.id not in turn.consumed]

    def next(self) -> Turn:
        """The next turn."""
        if self.cancel is not None:
            return self._turn(End(status="cancelled", reason="asked", cancel_requested=True))
        position = sum(entry["kind"] in MOVING for entry in self.entries)
        if position >= LENGTH:
            status: Ended = "completed" if chance(self.run.id, 99) < 0.8 else "failed"
            return self._turn(End(status=status, result=json.dumps(self.run.id)))
        last = self.entries[-1]["kind"] if self.entries else ""
        match last:
            case "spawn":
                return self._wait_for_children(position)
            case "sleep":
                return self._wake(position)
            case "retry":
                return self._record({"kind": "retried"}, settled=("r",))
            case "stuck":
                return self._record({"kind": "unstuck"})
            case _:
                return self._advance(position)

    def _advance(self, position: int) -> Turn:
        number = chance(self.run.id, position)
        if number < 0.30:
            return self._record({"kind": "step"})
        if number < 0.35:
            return self._record({"kind": "published"}, published=json.dumps(len(self.entries)))
        if number < 0.62:
            return self._wait_for_signal(position)
        if number < 0.82 and self.run.depth < DEPTH:
            return self._spawn(position)
        if number < 0.90:
            return self._record({"kind": "sleep"}, Park(due_at=_soon(3)))
        if number < 0.96:
            failed = Attempt(position="r", number=1, error="{}", at=datetime.now(UTC), next_at=None)
            return self._record({"kind": "retry"}, Back(due_at=_soon(2)), attempts=(failed,))
        return self._record({"kind": "stuck"}, Stuck(message="another build, please", build=BUILD))

    def _wait_for_signal(self, position: int) -> Turn:
        channel = CHANNELS[int(chance(self.run.id, position, 3) * len(CHANNELS))]
        for mail in self.mail:
            if mail.channel == channel:
                return self._record({"kind": "signal", "value": json.loads(mail.value or "null")}, consumed=(mail.id,))
        due_at = _soon(20) if chance(self.run.id, position, 4) < 0.1 else None
        return self._turn(Park(signals=(channel,), due_at=due_at))

    def _spawn(self, position: int) -> Turn:
        count = COUNTS[int(chance(self.run.id, position, 8) * len(COUNTS))]
        if self.run.depth == DEPTH - 1:
            count = min(count, 2)
        children = tuple(self._child(position, index) for index in range(count))
        ids = tuple(child.id for child in children)
        asked = {"kind": "spawn", "ids": ids}
        if chance(self.run.id, position, 9) < 0.6:
            return self._record(asked, children=children)
        return self._record(asked, _park_for(ids, count), children=children)

    def _child(self, position: int, index: int) -> NewRun:
        keyed = chance(self.run.id, position, 20 + index) < 0.1
        return NewRun(
            id=new_run_id(),
            kind="workflow",
            name=NAMES[index % 2],
            version=1,
            queue=QUEUE,
            input="[]",
            root_id=self.run.root_id,
            parent_id=self.run.id,
            parent_position=str(len(self.entries)),
            depth=self.run.depth + 1,
            key=f"k{int(chance(self.run.id, position, 40 + index) * 20)}" if keyed else None,
            due_in=0.01 if chance(self.run.id, position, 60 + index) < 0.3 else None,
        )

    def _wait_for_children(self, position: int) -> Turn:
        ids = self.children()
        ended = [self.outcomes[each] for each in ids if each in self.outcomes]
        if len(ended) == len(ids) or any(outcome.status != "completed" for outcome in ended):
            return self._record({"kind": "children", "ended": len(ended), "of": len(ids)})
        left = tuple(each for each in ids if each not in self.outcomes)
        return self._turn(_park_for(left, len(left)))

    def _wake(self, position: int) -> Turn:
        if self.woken or self.recorded_at_claim == len(self.entries) or chance(self.run.id, position, 5) < 0.5:
            return self._record({"kind": "slept"})
        return self._turn(Park(due_at=_soon(3)))

    def _record(self, entry: dict[str, Any], move: Move = GOING, **given: Any) -> Turn:
        place = len(self.entries)
        value = json.dumps(entry | {"token": self.run.token})
        row = Row(place=place, kind="answered", position=str(place), at=datetime.now(UTC), value=value)
        return self._turn(move, rows=(row,), recovered=self.run.crashes > 0, **given)

    def _turn(self, move: Move, **given: Any) -> Turn:
        return Turn(run_id=self.run.id, token=self.run.token, seen=self.seen, move=move, **given)


def _park_for(ids: tuple[str, ...], needs: int) -> Park:
    return Park(children=ids if len(ids) <= MANY_CHILDREN else None, needs=needs)


def _soon(milliseconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(milliseconds=milliseconds)
