"""An attempt at a transaction: the function, the place of its entry, and the commit of both.

Rules
- The function runs in a transaction of the storage's. Its answer is encoded and decoded before anything is written; one
  that cannot be, or what the function raises, rolls the transaction back and is a failed attempt, as a step's.
- The place of the entry is given last, by the held run, whose feeding stands still then until what became of it is
  known.
- What others did to the transaction burns no attempt: it is run again after a moment, and only after MOST such times it
  is a failed one. Where the run's own row could not be had, or the place was not given for long, it is run again with
  the place given first: then nothing of the run is in its way.
- A commit without an answer is looked up until it is known; nothing of the run goes on before.
- What has been asked to end is never committed, whatever its function makes of that, and what is committed is never
  told as anything else: which of the two is decided at one point, as the commit begins.
- Its timeout counts from each time that the function is called, and cuts off no commit that is under way.
- A function beside which its run cannot go on, because it holds the run's row or has its place, is broken off when
  something has waited for long, and at once for a cancel; it is run again when that is fed, if it still counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from enum import Enum, auto
from typing import Any, TypeAlias

import msgspec

from runnerq.errors import StorageUnavailable, TransactionConflict
from runnerq.persistence.protocol import CommitUnclear, RunHeld, Transactions
from runnerq.persistence.records import Claimed, Turn, Verdict
from runnerq.runtime.attempts import GRACE
from runnerq.runtime.callbacks import away, doubling, log, of_run
from runnerq.runtime.next_place import Bid, Place
from runnerq.runtime.results import Bound
from runnerq.runtime.steps import Answered, Followed
from runnerq.runtime.timers import Timer
from runnerq.workflow.journal import Row

MOST = 10
"""Times that others may be in the way before it counts as a failed attempt."""
AGAIN_FIRST, AGAIN_MOST = 0.01, 1.0
"""Seconds before the next of them, doubling."""
ROOM = 0.7
"""The same behind one that has made room: longer than whoever wants the run's row, to cancel it for one, waits between
two tries."""


class Committed(msgspec.Struct, frozen=True):
    """It is on record: its answer, and the time that its row has."""

    value: Any
    at: datetime


class Lost(msgspec.Struct, frozen=True):
    """The run is somebody else's, and nothing of it was written."""


Came: TypeAlias = Committed | Lost | Followed
"""What came of an attempt at a transaction that was not cut off and raised nothing."""


class Phase(Enum):
    """Where an attempt is; and with it, what becomes of one that somebody asks to end, or to make room."""

    WAITING = auto()
    """For a connection, or to be run again. To end: at once."""
    RUNNING = auto()
    """Its function does. To end, or to make room: the function is cancelled, and whatever it makes of that is rolled
    back."""
    FENCING = auto()
    """It has an answer, and waits for its place and for the run's lock. To end: it is rolled back."""
    COMMITTING = auto()
    """To end: if nothing comes of the commit."""
    UNCLEAR = auto()
    """The commit has no answer, and is looked up. To end: nothing is said of it."""


_MAY_BE_CUT = frozenset({Phase.WAITING, Phase.RUNNING, Phase.FENCING})


class _Undone(Exception):
    """Its answer cannot be kept: the transaction is to be rolled back."""

    def __init__(self, followed: Followed) -> None:
        super().__init__()
        self.followed = followed


class _MadeRoom(Exception):
    """It was rolled back because its run could not go on beside it."""


class Transacting:
    """What is done around one attempt's function; to its storage, the work of a transaction.

    ``follow`` says what follows from what the function returned, ``settles`` whether there are failed attempts, or
    details of some, to be done away with.
    """

    def __init__(
        self,
        storage: Transactions,
        claimed: Claimed,
        bid: Bid,
        follow: Callable[[Any], Followed],
        settles: Callable[[], bool],
    ) -> None:
        self._storage = storage
        self._claimed = claimed
        self._bid = bid
        self._follow = follow
        self._settles = settles
        self._phase = Phase.WAITING
        self._connection: Any = None
        self._turn: Turn | None = None
        self._value: Any = None
        self._alone = False
        self._again = False
        self._makes_room = False
        self._grace: Timer | None = None

    # --- around the function ------------------------------------------------------------------------------------------

    def bind(self, bound: Bound) -> None:
        self._bound = bound

    @property
    def may_be_cut(self) -> bool:
        return self._phase in _MAY_BE_CUT

    def abandon(self) -> None:
        """It does not end though it was cut off: its connection is taken from it, so that it keeps nothing locked.

        Behind the function's end the storage bounds all that it waits for.
        """
        terminate = getattr(self._connection, "terminate", None)
        if terminate is not None:
            terminate()

    async def run(self) -> Came:
        """Carry it out until it is known what came of it. Raises what the function raises."""
        tries = conflicts = 0
        while True:
            least = AGAIN_FIRST
            try:
                return await self._once()
            except TransactionConflict as conflict:
                if isinstance(conflict, RunHeld):
                    self._alone = True
                else:
                    conflicts += 1
                if conflicts == MOST:
                    raise
                log.info("run %s: a transaction is run again: %s", self._claimed.id, conflict,
                         extra=of_run(self._claimed.id, self._claimed.name))  # fmt: skip
            except _MadeRoom:
                self._alone = True
                least = ROOM
                log.info("run %s: a transaction is run again: its run could not go on beside it", self._claimed.id,
                         extra=of_run(self._claimed.id, self._claimed.name))  # fmt: skip
            self._enter(Phase.WAITING)
            self._again = True
            self._bid.give_back()
            tries += 1
            await asyncio.sleep(max(least, doubling(tries, AGAIN_FIRST, AGAIN_MOST)))

    async def _once(self) -> Came:
        """Once. Raises TransactionConflict or _MadeRoom if it is to be done again."""
        try:
            verdict = await self._begun()
        except _Undone as undone:
            return undone.followed
        except CommitUnclear as unclear:
            return await self._found_out(unclear)
        except asyncio.CancelledError as cancelled:
            if self._phase is Phase.COMMITTING:
                # By nobody here, and it may be on record.
                return await self._found_out(cancelled)
            if self._makes_room and not self._bound.is_cut:
                raise _MadeRoom from None
            raise
        finally:
            self._bound.rests()
        return self._came(verdict)

    async def _begun(self) -> Verdict:
        """Once the storage has a connection for it: to wait for that burns nothing."""
        tries = 0
        while True:
            self._makes_room = False
            try:
                return await self._storage.transact(self)
            except StorageUnavailable as error:
                if self._phase is not Phase.WAITING:
                    raise
                tries += 1
                log.warning("run %s: a transaction has to wait for the storage: %s", self._claimed.id, error,
                            extra=of_run(self._claimed.id, self._claimed.name))  # fmt: skip
            await asyncio.sleep(away(tries))

    def _came(self, verdict: Verdict) -> Came:
        match verdict:
            case Verdict.DONE:
                return Committed(self._value, self._entry.rows[0].at)
            case Verdict.LOST:
                return Lost()
            case _:
                raise TransactionConflict("a COMMIT had no answer, and did not come through")

    async def _found_out(self, why: BaseException) -> Came:
        """What became of a commit without an answer."""
        self._phase = Phase.UNCLEAR
        turn = self._entry
        log.warning("run %s: %r; it is looked up", turn.run_id, why, extra=of_run(turn.run_id, self._claimed.name))
        tries = 0
        while not self._bound.is_cut:
            try:
                return self._came(await self._storage.look_up(turn))
            except TransactionConflict:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, what became of the commit is not known
                tries += 1
                log.warning("run %s: its commit cannot be looked up: %r", turn.run_id, error,
                            extra=of_run(turn.run_id, self._claimed.name))  # fmt: skip
            await asyncio.sleep(away(tries))
        # Whoever takes the run up finds out. Nothing may be told of it here: it may be on record, as something else.
        return Lost()

    # --- its phases ---------------------------------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        """Go on, unless somebody has asked it to end, whatever the function has made of that: it is rolled back then.

        The last such step is the one to COMMITTING: what was asked to end before is never committed, and what is
        committed is never told as something else.
        """
        if self._bound.is_cut or (self._makes_room and phase is not Phase.WAITING):
            raise asyncio.CancelledError
        self._phase = phase

    def _make_room(self) -> bool:
        """Have it rolled back and run again, with the place given first; False if its function is through."""
        if self._phase is not Phase.RUNNING:
            return False
        if not self._makes_room:
            self._makes_room = True
            self._bound.break_off()
            self._grace = self._bid.timers.call_later(GRACE, self.abandon)
        return True

    # --- the work of a transaction ------------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        return self._claimed.id

    @property
    def position(self) -> str:
        return self._bid.leaf.position

    @property
    def is_again(self) -> bool:
        return self._again or self._claimed.crashes > 0 or self._bound.call.current.attempt > 1

    @property
    def patience(self) -> float | None:
        return self._bound.call.current.timeout

    async def carry_out(self, connection: Any) -> Turn:
        call = self._bound.call
        self._connection, self._turn = connection, None
        self._bound.begins()
        try:
            place = await self._bid.place() if self._alone else None
            self._enter(Phase.RUNNING)
            with self._bid.running(self._make_room):
                value = await call.fn(connection, *call.args, **call.kwargs)
            self._enter(Phase.FENCING)
            followed = self._follow(value)
            if not isinstance(followed, Answered):
                raise _Undone(followed)
            self._value = followed.value
            turn = self._turn = self._turn_of(followed.text, place or await self._bid.place())
            return turn
        finally:
            self._connection = None
            if self._grace is not None:
                self._grace.cancel()

    def committing(self) -> None:
        self._enter(Phase.COMMITTING)
        self._bound.rests()

    @property
    def _entry(self) -> Turn:
        if self._turn is None:
            raise AssertionError(f"run {self._claimed.id}: a transaction came to its end without an entry")
        return self._turn

    def _turn_of(self, text: str, place: Place) -> Turn:
        claimed, position = self._claimed, self.position
        return Turn(
            run_id=claimed.id,
            token=claimed.token,
            seen=claimed.seen,
            generation=claimed.generation,
            rows=(Row(place.place, "answered", position, place.at, text),),
            settled=(position,) if self._settles() else (),
            recovered=bool(claimed.crashes or claimed.faults),
        )
