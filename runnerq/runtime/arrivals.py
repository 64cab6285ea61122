"""What has come for a run, in the order in which it is fed: by database time, then by position. Pure.

Rules (DESIGN section 5, rule 3)
- A signal's time is when it was received, a child's when it ended, a timer's when it was due.
- A signal received by the deadline of a wait wins, even if the worker comes later; so a wait times out only when the
  mailbox was read after its deadline.
- A reading looks for the ends of some children. One that is waited for later may have ended before that reading, and
  then nothing tells of it any more: the mailbox must be read again.
- What one arrival makes the workflow ask for competes at once with what is still to be fed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from heapq import heappop, heappush
from typing import TypeAlias

import msgspec

from runnerq.persistence.records import Mail, Outcome
from runnerq.workflow.commands import SignalSpec
from runnerq.workflow.tree import Leaf


class SignalCame(msgspec.Struct, frozen=True):
    """A signal for a wait; ``dropped`` are older ones that a wait for the latest passes over."""

    leaf: Leaf
    mail: Mail
    dropped: tuple[Mail, ...]


class ChildEnded(msgspec.Struct, frozen=True):
    """A child that is waited for has ended."""

    leaf: Leaf
    outcome: Outcome


class TimeCame(msgspec.Struct, frozen=True):
    """A sleep is over, or a wait for a signal has timed out."""

    leaf: Leaf


Came: TypeAlias = SignalCame | ChildEnded | TimeCame


class Arrivals:
    """A run's mailbox, and the order in which what it holds is fed."""

    def __init__(self) -> None:
        self._signals: dict[str, list[Mail]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._heap: list[tuple[datetime, tuple[int, ...], int, Leaf]] = []
        self._count = 0
        self._taken: set[int] = set()
        self._looked_for: set[str] = set()
        self.read_at: datetime | None = None

    def read(
        self, signals: Sequence[Mail], outcomes: Iterable[Outcome], now: datetime, looked_for: Iterable[str]
    ) -> None:
        """Take a fresh reading of the mailbox; what was consumed and is not written yet stays consumed.

        ``looked_for`` are the children whose ends it would have shown.
        """
        self._signals = {}
        for mail in signals:
            if mail.id not in self._taken:
                self._signals.setdefault(mail.channel, []).append(mail)
        for outcome in outcomes:
            self._outcomes[outcome.run_id] = outcome
        self._looked_for = set(looked_for)
        self.read_at = now

    def started(self, children: Iterable[str]) -> None:
        """These did not exist when the mailbox was last read, so that their ends are still to come."""
        self._looked_for.update(children)

    def may_have_missed(self, child: str) -> bool:
        """Whether its end may lie before the last reading, which did not look for it."""
        return child not in self._looked_for and child not in self._outcomes

    def forget_taken(self, ids: Iterable[int]) -> None:
        """These are consumed on record: they will not be read again."""
        self._taken.difference_update(ids)

    def knows(self, child: str) -> bool:
        return child in self._outcomes

    def watch(self, leaves: Iterable[Leaf], now: datetime) -> None:
        """Consider these open commands."""
        for leaf in leaves:
            found = self._look(leaf, now)
            if found is not None:
                self._count += 1
                heappush(self._heap, (found[0], _path(leaf.position), self._count, leaf))

    def next(self, leaves: dict[str, Leaf], now: datetime) -> Came | None:
        """The next arrival for a command that is still open; a signal it brings is taken."""
        while self._heap:
            at, path, _, leaf = heappop(self._heap)
            if leaves.get(leaf.position) is not leaf:
                continue
            found = self._look(leaf, now)
            if found is None:
                continue
            if found[0] != at:
                self._count += 1
                heappush(self._heap, (found[0], path, self._count, leaf))
                continue
            arrival = found[1]
            if isinstance(arrival, SignalCame):
                self._take(arrival)
            # A child's end stays: the workflow may wait for it again.
            return arrival
        return None

    def stale_for(self, leaf: Leaf, now: datetime) -> bool:
        """Whether a wait may have timed out, but the mailbox was last read before its deadline."""
        deadline = leaf.asked.deadline
        return (
            deadline is not None
            and leaf.command.kind == "signal"
            and deadline <= now
            and (self.read_at is None or self.read_at < deadline)
        )

    def _look(self, leaf: Leaf, now: datetime) -> tuple[datetime, Came] | None:
        kind = leaf.command.kind
        deadline = leaf.asked.deadline
        if kind == "signal":
            mail = self._first(leaf)
            if mail is not None and (deadline is None or mail[0].at <= deadline):
                return mail[0].at, SignalCame(leaf, *mail)
            if deadline is not None and self.read_at is not None and deadline <= self.read_at:
                return deadline, TimeCame(leaf)
        elif kind == "child":
            outcome = self._outcomes.get(leaf.asked.child or "")
            if outcome is not None:
                return outcome.ended_at, ChildEnded(leaf, outcome)
        elif kind == "sleep" and deadline is not None and deadline <= now:
            return deadline, TimeCame(leaf)
        return None

    def _first(self, leaf: Leaf) -> tuple[Mail, tuple[Mail, ...]] | None:
        waiting = self._signals.get(leaf.command.name)
        if not waiting:
            return None
        spec = leaf.command.spec
        if isinstance(spec, SignalSpec) and spec.latest:
            return waiting[-1], tuple(waiting[:-1])
        return waiting[0], ()

    def _take(self, came: SignalCame) -> None:
        waiting = self._signals[came.mail.channel]
        for mail in (came.mail, *came.dropped):
            waiting.remove(mail)
            self._taken.add(mail.id)


def _path(position: str) -> tuple[int, ...]:
    return tuple(map(int, position.split(".")))
