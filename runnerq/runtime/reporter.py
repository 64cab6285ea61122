"""What a shift reports to telemetry of its runs and their attempts. Made only where somebody listens.

Rules
- Nothing waits for it and nothing asks it: whoever tells it something tests an attribute for None, and goes on.
- A run that is held is known by its id from ``claimed`` to ``released``. One that is not, and of which a turn is
  written all the same, is known from ``apart`` to that turn's verdict. What is told of others is passed over.
- How a run was left is what its last turn that counted says; where none did, it is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeAlias, assert_never

import msgspec

from runnerq.errors import DecodingError, StorageRefused
from runnerq.persistence.records import (
    HEAD_START,
    Attempt,
    Back,
    Claimed,
    End,
    Going,
    Mail,
    NewRun,
    NewSignal,
    Park,
    Renew,
    RunRecord,
    Stuck,
    Turn,
    Verdict,
    WorkerRow,
    named,
)
from runnerq.runtime.reading import DatabaseTime
from runnerq.runtime.results import Call, Interrupted, NotBegun, Raised, Result, Returned, TimedOut
from runnerq.serialization.failures import read
from runnerq.telemetry.carrying import PARENT, trace_in, with_trace
from runnerq.telemetry.events import (
    AttemptBegan,
    AttemptEnded,
    AttemptRetried,
    Beat,
    Came,
    Event,
    LeaseLost,
    Left,
    Move,
    RunBlocked,
    RunClaimed,
    RunEnded,
    RunParked,
    RunReleased,
    TurnCommitted,
    WorkerJoined,
    WorkerLeft,
)
from runnerq.telemetry.listeners import Telemetry
from runnerq.workflow.declare import callable_name
from runnerq.workflow.journal import Row

Run: TypeAlias = Claimed | RunRecord


class _Hold(msgspec.Struct):
    """A run that is held, since when, how it was left by its last turn, and the traces of signals that it may take."""

    claimed: Claimed
    began: float
    left: Left = "lost"
    traces: dict[int, str] = {}


class Reporter:
    """Makes the events of one worker id."""

    def __init__(self, telemetry: Telemetry, worker_id: int, now: DatabaseTime) -> None:
        self._telemetry = telemetry
        self.worker_id = worker_id
        self._time = now
        self._holds: dict[str, _Hold] = {}
        self._apart: dict[tuple[str, int], Run] = {}
        self._beaten_at = time.monotonic()

    def tell(self, event: Event) -> None:
        self._telemetry.tell(event)

    # --- the worker ---------------------------------------------------------------------------------------------------

    def joined(self, row: WorkerRow) -> None:
        """The worker is registered."""
        names = tuple(dict.fromkeys(named(served)[0] for served in row.served))
        self.tell(WorkerJoined(worker_id=row.id, build=row.build, names=names, queues=row.queues, slots=row.slots))

    def left(self, how: str) -> None:
        """Its time under this id is over, and whatever it still held is lost."""
        self._dropped()
        self.tell(WorkerLeft(worker_id=self.worker_id, how=how))

    def beaten(self) -> None:
        """A beat was answered."""
        before, self._beaten_at = self._beaten_at, time.monotonic()
        self.tell(Beat(worker_id=self.worker_id, gap_seconds=self._beaten_at - before))

    def fenced(self, runs: int, reason: str) -> None:
        """It has lost its runs."""
        self.tell(LeaseLost(worker_id=self.worker_id, runs=runs, reason=reason))
        self._dropped()

    # --- runs ---------------------------------------------------------------------------------------------------------

    def claimed(self, claimed: Claimed) -> None:
        """A run is taken up; where it was held here before, that is over."""
        self.released(claimed.id)
        self._holds[claimed.id] = _Hold(claimed, time.monotonic())
        self.mail(claimed.id, claimed.signals)
        begun = trace_in(claimed.rows[0].value) if claimed.rows else None
        started = trace_in(claimed.options)
        self._telemetry.came_with(claimed.id, claimed.root_id, started, begun)
        self.tell(
            RunClaimed(
                run_id=claimed.id,
                name=claimed.name,
                kind=claimed.kind,
                version=claimed.version,
                queue=claimed.queue,
                priority=claimed.priority,
                worker_id=self.worker_id,
                generation=claimed.generation,
                crashes=claimed.crashes,
                resumed=claimed.resumed,
                wait_seconds=self._waited(claimed),
            )
        )

    def _waited(self, claimed: Claimed) -> float:
        if claimed.rank is None:
            return 0.0
        ready_at = claimed.rank + timedelta(seconds=HEAD_START[claimed.priority])
        return max(0.0, (self._time.now() - ready_at).total_seconds())

    def mail(self, run_id: str, signals: Sequence[Mail]) -> None:
        """These are in the mailbox of a run."""
        hold = self._holds.get(run_id)
        if hold is not None:
            hold.traces |= {mail.id: mail.trace for mail in signals if mail.trace is not None}

    def traced(self, run_id: str, signal: NewSignal) -> NewSignal:
        """The signal that this run sends, with its trace."""
        return msgspec.structs.replace(signal, trace=self._telemetry.carried(run_id).get(PARENT))

    def released(self, run_id: str) -> None:
        """A run is no longer held; nothing, if it was not."""
        hold = self._holds.pop(run_id, None)
        if hold is None:
            return
        claimed = hold.claimed
        self.tell(
            RunReleased(
                run_id=run_id,
                name=claimed.name,
                kind=claimed.kind,
                queue=claimed.queue,
                worker_id=self.worker_id,
                left=hold.left,
                held_seconds=time.monotonic() - hold.began,
            )
        )

    def _dropped(self) -> None:
        for run_id in list(self._holds):
            self.released(run_id)

    # --- turns --------------------------------------------------------------------------------------------------------

    def carried(self, turn: Turn) -> Turn:
        """The turn as it is to be written: what it starts, and the journal that it begins, carry the run's trace."""
        rows, renew = turn.rows, isinstance(turn.move, Renew)
        begins = bool(rows) and rows[0].kind == "started"
        if not (begins or renew or turn.children) or turn.run_id not in self._holds:
            return turn
        trace = self._telemetry.carried(turn.run_id)
        if not trace:
            return turn

        def marked(row: Row) -> Row:
            return msgspec.structs.replace(row, value=with_trace(row.value, trace))

        def child(new: NewRun) -> NewRun:
            return msgspec.structs.replace(new, options=with_trace(new.options, trace))

        if isinstance(turn.move, Renew):
            turn = msgspec.structs.replace(turn, move=Renew(started=marked(turn.move.started)))
        return msgspec.structs.replace(
            turn,
            rows=(marked(rows[0]), *rows[1:]) if begins else rows,
            children=tuple(child(new) for new in turn.children),
        )

    def apart(self, run: Run, token: int) -> None:
        """A turn of this run is written under this token, though it is not held."""
        self._apart[run.id, token] = run

    def committed(self, turn: Turn, answer: Verdict | StorageRefused, lag: float) -> None:
        """A turn has its verdict, after so many seconds."""
        run, hold = self._apart.pop((turn.run_id, turn.token), None), None
        if run is None:
            hold = self._holds.get(turn.run_id)
            if hold is None:
                return
            run = hold.claimed
            self._took(turn, hold)
        self.tell(
            TurnCommitted(
                run_id=run.id,
                name=run.name,
                kind=run.kind,
                queue=run.queue,
                move=_move(turn),
                rows=len(turn.rows),
                children=len(turn.children),
                signals=len(turn.consumed),
                verdict="refused" if isinstance(answer, StorageRefused) else answer.value,
                lag_seconds=lag,
            )
        )
        if answer is Verdict.DONE:
            if hold is not None and hold.claimed.token == turn.token:
                # Else it was taken up anew meanwhile, and this is not what becomes of it now.
                hold.left = _left(turn, hold.left)
            self._moved(turn, run)

    def _took(self, turn: Turn, hold: _Hold) -> None:
        taken = [{PARENT: trace} for number in turn.consumed if (trace := hold.traces.pop(number, None)) is not None]
        if taken:
            self._telemetry.took(turn.run_id, taken)

    def _moved(self, turn: Turn, run: Run) -> None:
        match turn.move:
            case Going() | Renew() | Back():
                pass  # it is open, and waits for nothing
            case Park(due_at=due_at, signals=signals, children=children, needs=needs):
                due_in = None if due_at is None else self._time.until(due_at)
                awaited = needs if children is None else len(children)
                self.tell(RunParked(run_id=run.id, name=run.name, queue=run.queue, channels=signals, awaited=awaited,
                                    due_in_seconds=due_in))  # fmt: skip
            case Stuck() as stuck:
                self.tell(RunBlocked(run_id=run.id, name=run.name, queue=run.queue, entry=stuck.position,
                                     line=stuck.line, by_worker=stuck.build is None))  # fmt: skip
            case End() as end:
                self.tell(
                    RunEnded(
                        run_id=run.id,
                        name=run.name,
                        kind=run.kind,
                        queue=run.queue,
                        status=end.status,
                        # What a cancel gives as its reason is a person's text.
                        reason=end.reason if end.status == "dead_letter" else None,
                        error=_class_of(end.error),
                        age_seconds=max(0.0, (self._time.now() - run.created_at).total_seconds()),
                    )
                )
            case _:
                assert_never(turn.move)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def began(self, call: Call) -> None:
        """A function is about to be called; called in the context that it will have."""
        current = call.current
        self.tell(
            AttemptBegan(
                worker_id=self.worker_id,
                run_id=current.run_id,
                name=current.workflow,
                step=callable_name(call.fn),
                entry=current.entry,
                kind=current.kind,
                attempt=current.attempt,
            )
        )

    def ended(self, call: Call, result: Result) -> None:
        """What came of it."""
        current = call.current
        came, error = _came(result)
        began = None if came == "not_begun" else current.began
        self.tell(
            AttemptEnded(
                worker_id=self.worker_id,
                run_id=current.run_id,
                name=current.workflow,
                step=callable_name(call.fn),
                entry=current.entry,
                kind=current.kind,
                attempt=current.attempt,
                came=came,
                error=error,
                seconds=None if began is None else time.monotonic() - began,
            )
        )

    def retried(self, claimed: Claimed, fn: Callable[..., object], attempt: Attempt) -> None:
        """An attempt failed, and the next one has its time."""
        due_in = 0.0 if attempt.next_at is None else self._time.until(attempt.next_at)
        self.tell(
            AttemptRetried(
                run_id=claimed.id,
                name=claimed.name,
                step=callable_name(fn),
                entry=attempt.position,
                attempt=attempt.number,
                error=_class_of(attempt.error),
                due_in_seconds=due_in,
            )
        )


def _move(turn: Turn) -> Move:
    match turn.move:
        case Going():
            return "going"
        case Park():
            return "parked"
        case Back():
            return "given_back"
        case Stuck():
            return "blocked"
        case End():
            return "ended"
        case Renew():
            return "renewed"
        case _:
            assert_never(turn.move)


def _left(turn: Turn, before: Left) -> Left:
    match turn.move:
        case Going() | Renew():
            return before
        case Park():
            return "parked"
        case Back():
            return "given_back"
        case Stuck():
            return "blocked"
        case End(status=status):
            return status
        case _:
            assert_never(turn.move)


def _came(result: Result) -> tuple[Came, str | None]:
    match result:
        case Returned():
            return "returned", None
        case Raised(error):
            return "raised", type(error).__name__
        case TimedOut():
            return "timed_out", None
        case Interrupted():
            return "cancelled", None
        case NotBegun():
            return "not_begun", None
        case _:
            assert_never(result)


def _class_of(failure: str | None) -> str | None:
    """The name of the class that a recorded failure is of; None where it cannot be read."""
    if failure is None:
        return None
    try:
        return read(failure).type
    except DecodingError:
        # Whoever needs it will say so: telling must not be what fails.
        return None
