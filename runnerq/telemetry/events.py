"""Everything that workers and clients tell of: one list of events, with documented fields.

Rules
- An event is made only where somebody listens.
- No event carries a payload: no arguments, no results, no messages of errors, no values of signals, no keys.
- A field has one meaning wherever it stands, which ``FIELDS`` says. Durations are seconds, and their names say so.
- ``name`` is the run's workflow or activity, ``step`` the function that an attempt calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

__all__ = [
    "EVENTS", "FIELDS", "AttemptBegan", "AttemptEnded", "AttemptRetried", "BatchCommitted", "Beat", "ClaimAnswered",
    "Event", "LeaseLost", "Maintained", "QueueReading", "QueuesRead", "RunBlocked", "RunClaimed", "RunEnded",
    "RunParked", "RunReaped", "RunReleased", "SignalSent", "StartFailed", "StartSent", "StorageFailed", "TurnCommitted",
    "WorkerJoined", "WorkerLeft", "WorkerRead",
]  # fmt: skip

Move = Literal["going", "parked", "given_back", "blocked", "ended", "renewed"]
"""Where a turn leaves its run: it goes on, waits, is back in its queue, stuck, ended, or in its next generation."""
Left = Literal["parked", "given_back", "blocked", "completed", "failed", "dead_letter", "cancelled", "lost"]
"""How a worker's time with a run ended. ``lost``: the run is somebody else's, or will be."""
Came = Literal["returned", "raised", "timed_out", "cancelled", "not_begun"]
"""What came of an attempt."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened."""

    called: ClassVar[str] = "event"

    def __init_subclass__(cls) -> None:
        # RunClaimed is called run_claimed, in logs.
        cls.called = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")


# --- told by clients --------------------------------------------------------------------------------------------------


class StartSent(Event, frozen=True, kw_only=True):
    """Runs were started, in one commit."""

    name: str
    kind: str
    queue: str
    run_ids: tuple[str, ...]
    created: int
    seconds: float


class StartFailed(Event, frozen=True, kw_only=True):
    """A start was refused, or the storage did not answer."""

    name: str
    kind: str
    queue: str
    error: str
    seconds: float


class SignalSent(Event, frozen=True, kw_only=True):
    """A client has sent a signal."""

    run_id: str
    channel: str
    sent: str
    seconds: float


# --- told by workers, of runs -----------------------------------------------------------------------------------------


class RunClaimed(Event, frozen=True, kw_only=True):
    """A worker has taken up a run: a new one, or one that was parked, given back or taken from another worker."""

    run_id: str
    name: str
    kind: str
    version: int
    queue: str
    priority: int
    worker_id: int
    generation: int
    crashes: int
    resumed: bool
    wait_seconds: float


class TurnCommitted(Event, frozen=True, kw_only=True):
    """One advance of a run has its verdict."""

    run_id: str
    name: str
    kind: str
    queue: str
    move: Move
    rows: int
    children: int
    signals: int
    verdict: str
    lag_seconds: float


class RunParked(Event, frozen=True, kw_only=True):
    """A run waits, and holds nothing."""

    run_id: str
    name: str
    queue: str
    channels: tuple[str, ...]
    awaited: int
    due_in_seconds: float | None


class RunEnded(Event, frozen=True, kw_only=True):
    """A run was ended by a worker, in whichever way. What a client ends, by terminating it, or by cancelling one that
    no worker has, is not told."""

    run_id: str
    name: str
    kind: str
    queue: str
    status: str
    reason: str | None
    error: str | None
    age_seconds: float


class RunBlocked(Event, frozen=True, kw_only=True):
    """A run cannot go on: its code does not follow its journal, or this worker lacks something, such as a key."""

    run_id: str
    name: str
    queue: str
    entry: str | None
    line: str | None
    by_worker: bool


class RunReleased(Event, frozen=True, kw_only=True):
    """A worker's time with a run is over, in whichever way."""

    run_id: str
    name: str
    kind: str
    queue: str
    worker_id: int
    left: Left
    held_seconds: float


class RunReaped(Event, frozen=True, kw_only=True):
    """A run was taken from a worker that is gone."""

    run_id: str
    name: str
    crashes: int
    capped: bool


# --- told by workers, of attempts -------------------------------------------------------------------------------------


class AttemptBegan(Event, frozen=True, kw_only=True):
    """A step's or an activity's function is being called. It is told in the context of that call: what a listener sets
    there (a context variable, a current span) holds for the function, and for nothing else."""

    worker_id: int
    run_id: str
    name: str
    step: str
    entry: str
    kind: str
    attempt: int


class AttemptEnded(Event, frozen=True, kw_only=True):
    """That function has returned or raised, or is not waited for any longer; or it was never called after all."""

    worker_id: int
    run_id: str
    name: str
    step: str
    entry: str
    kind: str
    attempt: int
    came: Came
    error: str | None
    seconds: float | None


class AttemptRetried(Event, frozen=True, kw_only=True):
    """An attempt failed, and there will be another one."""

    run_id: str
    name: str
    step: str
    entry: str
    attempt: int
    error: str | None
    due_in_seconds: float


# --- told by workers, of themselves -----------------------------------------------------------------------------------


class WorkerJoined(Event, frozen=True, kw_only=True):
    """A worker is registered, under a new id."""

    worker_id: int
    build: str
    names: tuple[str, ...]
    queues: tuple[str, ...]
    slots: int


class WorkerLeft(Event, frozen=True, kw_only=True):
    """A worker's time under an id is over."""

    worker_id: int
    how: str


class ClaimAnswered(Event, frozen=True, kw_only=True):
    """A claim has come back."""

    worker_id: int
    asked: int
    claimed: int
    seconds: float


class BatchCommitted(Event, frozen=True, kw_only=True):
    """Turns of many runs were written in one commit."""

    worker_id: int
    turns: int
    seconds: float


class StorageFailed(Event, frozen=True, kw_only=True):
    """The storage did not answer, or refused; what was sent is sent again, or hits the one run that it belongs to."""

    worker_id: int
    what: str
    error: str


class Beat(Event, frozen=True, kw_only=True):
    """A heartbeat has been answered."""

    worker_id: int
    gap_seconds: float


class LeaseLost(Event, frozen=True, kw_only=True):
    """A worker has fenced itself: its lease may have run out, and its runs are others'."""

    worker_id: int
    runs: int
    reason: str


class Maintained(Event, frozen=True, kw_only=True):
    """Maintenance has done something: any worker does it for the whole fleet."""

    worker_id: int
    what: str
    count: int


class WorkerRead(Event, frozen=True, kw_only=True):
    """What a worker has in hand, read at an interval."""

    worker_id: int
    slots: int
    slots_taken: int
    attempts_running: int
    attempts_waiting: int
    stuck: int
    waiting_turns: int
    parked_in_memory: int
    loop_lag_seconds: float


class QueueReading(msgspec.Struct, frozen=True, kw_only=True):
    """One queue, as it was read. ``ready_age_seconds`` is 0 where nothing is ready."""

    queue: str
    ready: int
    delayed: int
    running: int
    waiting: int
    blocked: int
    workers: int
    paused: bool
    ready_age_seconds: float


class QueuesRead(Event, frozen=True, kw_only=True):
    """The fleet's queues, read at an interval by each worker that has a listener."""

    worker_id: int
    queues_read: tuple[QueueReading, ...]
    capped: bool
    seconds: float


EVENTS: tuple[type[Event], ...] = (
    StartSent, StartFailed, SignalSent,
    RunClaimed, TurnCommitted, RunParked, RunEnded, RunBlocked, RunReleased, RunReaped,
    AttemptBegan, AttemptEnded, AttemptRetried,
    WorkerJoined, WorkerLeft, ClaimAnswered, BatchCommitted, StorageFailed, Beat, LeaseLost, Maintained, WorkerRead,
    QueuesRead,
)  # fmt: skip

FIELDS: Mapping[str, str] = {
    "age_seconds": "since the run was created",
    "asked": "how many runs it asked for: the free slots",
    "attempt": "which attempt it is, from 1; a crash does not count",
    "attempts_running": "attempts under way",
    "attempts_waiting": "attempts that wait for a place of max_steps or max_threads",
    "awaited": "how many children the run waits for",
    "build": "the build of the worker's code",
    "by_worker": "a fault of the worker, tried again by itself; else it is the code, and waits for another build",
    "came": "returned, raised, timed_out, cancelled, or not_begun (the worker stopped before)",
    "capped": "of a run: it has crashed too often, and ends as a dead letter; of queues: not all was counted",
    "channel": "the signal's channel",
    "channels": "the channels that the run waits for",
    "children": "how many runs were created with it",
    "claimed": "how many runs came",
    "count": "how many runs, or other things, it was",
    "crashes": "lost leases since the last answer",
    "created": "how many of them are new: the others were found by their key",
    "due_in_seconds": "when it goes on whatever comes; None: nothing is due",
    "entry": "the position in the journal; empty for an activity run",
    "error": "the class of the error, by its name alone",
    "gap_seconds": "since the beat before",
    "generation": "the run's generation",
    "held_seconds": "since the worker took the run up",
    "how": "stopped, fenced, failed, or cancelled (its task was, from outside)",
    "kind": "of a run: workflow or activity; of an attempt: step, transaction or activity",
    "lag_seconds": "from the turn's end to its verdict: what it waited for others, and the commit",
    "left": "parked, given_back, blocked, completed, failed, dead_letter, cancelled, or lost",
    "line": "the line of the workflow's code, where it is known",
    "loop_lag_seconds": "how late the event loop was for a timer",
    "move": "going, parked, given_back, blocked, ended, or renewed (the next generation)",
    "name": "the workflow or activity of the run",
    "names": "the workflows and activities that the worker takes up",
    "parked_in_memory": "parked runs whose generators the worker keeps",
    "priority": "0 critical, 1 high, 2 normal, 3 low",
    "queue": "the run's queue",
    "queues": "the queues that the worker serves",
    "queues_read": "each queue: ready, delayed, running, waiting, blocked, workers, paused, ready_age_seconds",
    "reason": "of a dead letter: attempts, crash_loop or undo_failed; of a lost lease: how it came",
    "resumed": "it goes on in the generator that this worker kept; else it is new, or replayed",
    "rows": "rows of the journal that were written",
    "run_id": "the run",
    "run_ids": "the runs that stand for what was started, in order",
    "runs": "how many runs were dropped",
    "seconds": "how long it took; of an attempt: None if its function was never called",
    "sent": "sent, duplicate, finished or unknown",
    "signals": "how many signals the turn took",
    "slots": "how many runs the worker may hold",
    "slots_taken": "how many it holds",
    "status": "completed, failed, dead_letter or cancelled",
    "step": "the name of the function that is called",
    "stuck": "threads and tasks that do not come back",
    "turns": "turns in the batch",
    "verdict": "done, again (its mailbox has moved), lost (the run is somebody else's) or refused",
    "version": "the workflow's version",
    "wait_seconds": "since the run became ready",
    "waiting_turns": "turns that are not written yet",
    "what": "claim, commit, inbox, transact or reap; of maintenance: wake_due (timers), sweep (mended), unblock, adopt "
    "(started by an unknown name), relieve (limits), fire (schedules), retain (trees to be deleted), purge (deleted)",
    "worker_id": "the worker",
}
"""What a field says, wherever it stands."""
