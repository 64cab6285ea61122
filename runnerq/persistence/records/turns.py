"""Records of turns: what a worker writes about a run it holds, and what became of it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from runnerq.persistence.records.base import Ended, Struct
from runnerq.persistence.records.claims import Attempt
from runnerq.persistence.records.starting import NewRun
from runnerq.workflow.journal import Row


class Going(Struct, frozen=True, tag=True):
    """The run goes on under this token."""


class Park(Struct, frozen=True, kw_only=True, tag=True):
    """The run waits, with no live task. It is woken by a signal of ``signals``; by ``needs`` ends of ``children`` (of
    any child, where None), at once by one that did not complete; by a cancel; and at ``due_at``. ``stack`` is where its
    code stands, a line a frame, shown while it waits."""

    due_at: datetime | None = None
    signals: tuple[str, ...] = ()
    children: tuple[str, ...] | None = ()
    needs: int = 1
    stack: tuple[str, ...] = ()


class Back(Struct, frozen=True, kw_only=True, tag=True):
    """The run is given back to its queue, at once or at ``due_at``: an orderly stop, or an activity's next attempt."""

    due_at: datetime | None = None


class Stuck(Struct, frozen=True, kw_only=True, tag=True):
    """The run is blocked: nothing of it runs until a worker of another build, or a person, takes it up. ``build`` is
    the build that could not follow it, or None for a fault of the worker, which is tried again at ``retry_at``.
    ``quotes`` says whether its texts may have values of the run in them."""

    message: str
    build: str | None
    position: str | None = None
    recorded: str | None = None
    asked: str | None = None
    line: str | None = None
    traceback: str | None = None
    retry_at: datetime | None = None
    quotes: bool = True


class End(Struct, frozen=True, kw_only=True, tag=True):
    """The run ends. ``result`` and ``error`` are JSON text; a completed run has a result, ``null`` included."""

    status: Ended
    result: str | None = None
    error: str | None = None
    reason: str | None = None
    cancel_requested: bool = False


class Renew(Struct, frozen=True, kw_only=True, tag=True):
    """This generation ends, and the run goes on under the same token in the next one, whose row 0 is ``started``."""

    started: Row


Move: TypeAlias = Going | Park | Back | Stuck | End | Renew
GOING = Going()


class Turn(Struct, frozen=True, kw_only=True):
    """One advance of a run, the unit that is written: whole, or not at all.

    ``children`` are created with it. One that names no parent is none: a run of its own, such as a detached start.

    ``generation`` is the run's present one. ``seen`` is the inbox count up to which the worker has read; a park counts
    only if nothing has come since. ``consumed`` are the ids of the signals it took, ``attempts`` the failed attempts to
    keep, ``settled`` the positions whose attempts go away with their answer, ``published`` the run's whole visible
    state when it changed. ``recovered`` says that an answer was recorded, and that crashes and workers' faults before
    it count for nothing. ``has_parent`` is a hint for the storage's choice of statement and changes nothing else.
    """

    run_id: str
    token: int
    seen: int
    generation: int = 1
    move: Move = GOING
    rows: tuple[Row, ...] = ()
    children: tuple[NewRun, ...] = ()
    consumed: tuple[int, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    settled: tuple[str, ...] = ()
    published: str | None = None
    recovered: bool = False
    has_parent: bool = False


class Verdict(StrEnum):
    """What became of a turn."""

    DONE = "done"
    AGAIN = "again"
    BUSY = "busy"
    LOST = "lost"
