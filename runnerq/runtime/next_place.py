"""Who of a run's transactions may write its entry now, and what waits until it is known whether that is on record.

Rules
- The next place of the journal is given to one transaction at a time, when nothing else of the run is unwritten or
  under way. From when one wants it until it is given back nothing is fed, so that nothing else gets that place, and
  a run that is never at rest gives it soon.
- A transaction that is not given its place for long gives up: its function may hold the run's row itself (it has
  started a child in its own transaction, say), so that what is under way cannot be written before the transaction is
  over.
- Nor may a function keep its run waiting while it runs, by the row that it holds or by the place that it was given
  first: when something has waited for long it makes room, at once for a cancel, and each time later, so that one that
  takes its time comes to its end among many answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol, TypeAlias

import msgspec

from runnerq.persistence.protocol import RunHeld
from runnerq.runtime.timers import Timer, Timers
from runnerq.workflow.tree import Leaf

CROSSED = 2.0
"""Seconds that a transaction waits for its place; and its run for a function, the first time."""
PATIENT = 60.0
"""Seconds that a run waits at most for a function to end beside which it cannot go on."""

Feed: TypeAlias = Callable[[datetime], None]
MakeRoom: TypeAlias = Callable[[], bool]
"""Has a function broken off and run again later; False if it has come to its end, so that its transaction is over
soon."""


class Run(Protocol):
    """The held run."""

    def feed_now(self, feed: Feed) -> None:
        """Feed this, whoever wants the next place."""
        ...

    def look_around(self) -> None:
        """See what there is to do, and whether a place can be given."""
        ...


class Place(msgspec.Struct, frozen=True):
    """Where in the journal an answer goes, and the time that its row has."""

    place: int
    at: datetime


class Bid:
    """One transaction's bid for the next place."""

    __slots__ = ("_given", "_next_place", "leaf", "timers")

    def __init__(self, next_place: NextPlace, leaf: Leaf) -> None:
        self.leaf = leaf
        self.timers = next_place.timers
        self._next_place = next_place
        self._given: asyncio.Future[Place] | None = None

    async def place(self) -> Place:
        """The place, once it is given. Raises RunHeld if that takes long."""
        given: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self._given = given
        self._next_place.ask(self)
        timer = self.timers.call_later(CROSSED, self._crossed)
        try:
            return await given
        finally:
            timer.cancel()
            self._next_place.withdraw(self)

    def give(self, place: Place) -> bool:
        """Give it the place; False if nobody waits for it any more."""
        if self._given is None or self._given.done():
            return False
        self._given.set_result(place)
        return True

    @contextmanager
    def running(self, make_room: MakeRoom) -> Iterator[None]:
        """Meanwhile its function runs, and may be asked to make room."""
        self._next_place.functions[self] = make_room
        self._next_place.count()
        try:
            yield
        finally:
            self._next_place.functions.pop(self, None)

    def give_back(self) -> None:
        """Soon, and not within this call: nothing came of it, and the run may go on."""
        asyncio.get_running_loop().call_soon(self._next_place.release, self, None)

    def _crossed(self) -> None:
        if self._given is not None and not self._given.done():
            self._given.set_exception(RunHeld("what its run had to write before it could not be written beside it"))


class NextPlace:
    """Of one held run.

    ``shut``: a transaction wants the next place, or has it, so that what comes for the run is kept.
    """

    __slots__ = (
        "_kept", "_patience", "_run", "_timer", "_writing", "functions", "given", "shut", "timers", "waiting",
    )  # fmt: skip

    def __init__(self, timers: Timers, run: Run) -> None:
        self.timers = timers
        self._run = run
        self._kept: list[Feed] = []
        self._writing = False
        self._patience = CROSSED
        self._timer: Timer | None = None
        self.functions: dict[Bid, MakeRoom] = {}
        self.waiting: list[Bid] = []
        self.given: Bid | None = None
        self.shut = False

    def ask(self, bid: Bid) -> None:
        """It wants the next place. It is not given within this call."""
        self.waiting.append(bid)
        self.shut = True
        asyncio.get_running_loop().call_soon(self._run.look_around)

    def withdraw(self, bid: Bid) -> None:
        """It waits no more."""
        if bid in self.waiting:
            self.waiting.remove(bid)
            self._open_up()

    def give(self, place: Place, leaves: Mapping[str, Leaf]) -> None:
        """Give the place to the first that waits and whose command is still open."""
        while self.waiting:
            bid = self.waiting.pop(0)
            if leaves.get(bid.leaf.position) is bid.leaf and bid.give(place):
                self.given = bid
                return
        self._open_up()

    def keep(self, feed: Feed) -> None:
        """Feed this when nobody wants the place any more, or has it."""
        self._kept.append(feed)
        self.count()

    def writes(self) -> None:
        """A turn of the run is under way."""
        self._writing = True
        self.count()

    def written(self) -> None:
        """It is no more."""
        self._writing = False
        self._calm()

    def hurry(self) -> None:
        """What was kept is a cancel."""
        if self._kept and self.given is not None:
            self._ask_for_room(self.given)

    def count(self) -> None:
        """Be patient with the functions that run from now on, if something waits."""
        if self._timer is None and self.functions and (self._writing or self._kept):
            self._timer = self.timers.call_later(self._patience, self._lose_patience)

    def _calm(self) -> None:
        if self._timer is not None and not (self._writing or self._kept):
            self._timer.cancel()
            self._timer = None

    def _lose_patience(self) -> None:
        self._timer = None
        self._patience = min(self._patience * 2, PATIENT)
        for bid in tuple(self.functions):
            self._ask_for_room(bid)

    def _ask_for_room(self, bid: Bid) -> None:
        """Its place can be another's at once: it is not committed any more, whenever its function ends."""
        make_room = self.functions.pop(bid, None)
        if make_room is not None and make_room():
            self.release(bid, None)

    def release(self, bid: Bid, feed: Feed | None) -> None:
        """The transaction is over, with what there is to feed of it; then comes what was kept. All at once: what is
        written on the first of it must not leave the run while there is more."""
        if feed is not None:
            self._patience = CROSSED
        if self.given is bid:
            self.given = None
            self._feed_all(feed)
        elif feed is not None and self.shut:
            self.keep(feed)
        elif feed is not None:
            self._run.feed_now(feed)

    def drop(self) -> None:
        """Nothing is fed any more."""
        self._writing = False
        self.functions.clear()
        self.given = None
        self.shut = False
        self._kept.clear()
        self.waiting.clear()
        self._calm()

    def _open_up(self) -> None:
        if self.given is None and not self.waiting and self.shut:
            self.shut = False
            asyncio.get_running_loop().call_soon(self._feed_kept)

    def _feed_kept(self) -> None:
        if self._kept and not self.shut:
            self._feed_all(None)

    def _feed_all(self, first: Feed | None) -> None:
        kept, self._kept = self._kept, []
        self.shut = bool(self.waiting)
        self._calm()

        def together(now: datetime) -> None:
            for each in kept if first is None else (first, *kept):
                each(now)

        self._run.feed_now(together)
