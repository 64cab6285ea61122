"""What of a held workflow is carried out here: attempts at its steps, and the signals and cancels that it sends.

Rules
- Nothing is begun before it is on record; the held run sees to that by when it calls ``begin``.
- A failed attempt is kept for the next turn; the next attempt begins when it is due, here or wherever the run is then.
- An answer that nobody waits for any more (its composite was decided, its run lost) is ignored.
- A step that a cancel cuts off is interrupted: an async one is cancelled, a sync one waited for, one between two
  attempts ends at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any, Protocol, assert_never

import msgspec

from runnerq.errors import StorageRefused
from runnerq.persistence.records import Attempt, Claimed, Sent
from runnerq.runtime.calls import asking_of, call_of, signal_of
from runnerq.runtime.current import Current
from runnerq.runtime.effects import Answer
from runnerq.runtime.facts import StepFacts
from runnerq.runtime.failing import sent_failure
from runnerq.runtime.next_place import Bid, Feed, NextPlace, Place, Run
from runnerq.runtime.parts import Parts
from runnerq.runtime.results import Call, Result, Returned, Running
from runnerq.runtime.run_log import log_attempt, log_cut
from runnerq.runtime.steps import Again, Answered, CutOff, Failed, Followed, PutOff, follow
from runnerq.runtime.transacting import Committed, Lost, Transacting
from runnerq.runtime.turns import Unwritten
from runnerq.workflow.commands import ATTEMPTED, SendSpec
from runnerq.workflow.interpreter import Interpreter
from runnerq.workflow.journal import Row
from runnerq.workflow.tree import Leaf

CARRIED_OUT = ATTEMPTED | {"send", "cancel"}

__all__ = ["CARRIED_OUT", "Carrying", "Feed"]


class Held(Run, Protocol):
    """The held run, as what is carried out for it uses it."""

    def advance(self, feed: Feed) -> None:
        """Feed an answer, and go on."""
        ...

    def let_go(self) -> None:
        """It is somebody else's."""
        ...


class Carrying:
    """Of one held run, which is not called any more after ``drop``."""

    __slots__ = (
        "_claimed",
        "_effects",
        "_held",
        "_interpreter",
        "_lost",
        "_metadata",
        "_parts",
        "_running",
        "_waiting",
        "failures",
        "next_place",
        "unwritten",
    )  # fmt: skip

    def __init__(
        self,
        interpreter: Interpreter,
        claimed: Claimed,
        parts: Parts,
        held: Held,
    ) -> None:
        self._interpreter = interpreter
        self._claimed = claimed
        self._parts = parts
        self._held = held
        self.next_place = NextPlace(parts.timers, held)
        self._metadata: dict[str, Any] | None = None
        self._running: dict[str, Running] = {}
        self._effects: set[str] = set()
        self._waiting: list[Leaf] = []
        self._lost: list[str] = []
        self.failures: dict[str, Attempt] = {attempt.position: attempt for attempt in claimed.attempts}
        self.unwritten = Unwritten()

    # --- what there is to do ------------------------------------------------------------------------------------------

    def add(self, leaves: Iterable[Leaf]) -> None:
        """These were asked for."""
        self._waiting += leaves

    def close(self, rows: Iterable[Row]) -> None:
        """Their decided composites lost what these rows close: no attempt at it follows, and ``begin`` cuts it off."""
        for row in rows:
            if row.kind == "closed":
                self._forget_failures(row.position)
                if row.position in self._running:
                    self._lost.append(row.position)

    @property
    def runs(self) -> bool:
        """Whether something is under way."""
        return bool(self._running or self._effects)

    def next_attempts(self) -> list[datetime]:
        """When steps that have failed are due to be tried again; one that is being tried is due for nothing."""
        return [
            attempt.next_at
            for position, attempt in self.failures.items()
            if attempt.next_at is not None and position not in self._running
        ]

    def can_begin(self) -> bool:
        """Whether something that was asked for can be begun now."""
        now = self._parts.time.now() if self.failures else None
        leaves = self._interpreter.leaves
        for leaf in self._waiting:  # a generator costs three times as much, and this is asked for every answer
            if (
                leaf.command.kind in CARRIED_OUT
                and (now is None or self._due(leaf, now))
                and leaves.get(leaf.asked.position) is leaf
            ):
                return True
        return False

    def begin(self, *, stopping: bool) -> None:
        """Begin what can be begun; cut off what was closed or cancelled. Raises Blocked.

        While ``stopping`` no attempt is begun: another worker will.
        """
        interpreter = self._interpreter
        waiting, self._waiting = self._waiting, []
        now = self._parts.time.now() if self.failures else None
        for leaf in waiting:
            position = leaf.asked.position
            if interpreter.leaves.get(position) is not leaf:
                continue
            kind = leaf.command.kind
            if position in interpreter.cutting:
                self._forget_failures(position)
                interpreter.interrupt(position, self._parts.time.now())
            elif kind in ATTEMPTED:
                if stopping or (now is not None and not self._due(leaf, now)):
                    self._waiting.append(leaf)
                elif kind == "transaction":
                    self._start_transaction(leaf)
                else:
                    self._start_step(leaf)
            elif kind in CARRIED_OUT:
                self._start_effect(leaf)
        if self._lost or (self._running and interpreter.cutting):
            self._cut()

    def drop(self) -> None:
        """Cancel what runs; nothing of it is heard any more."""
        self.next_place.drop()
        running, self._running = self._running, {}
        for position, each in running.items():
            each.cancel("the run is no longer held here")
            self._parts.beats.forget(self._claimed.id, position)
        self._effects.clear()
        self._waiting.clear()

    def _due(self, leaf: Leaf, now: datetime) -> bool:
        last = self.failures.get(leaf.position)
        return last is None or last.next_at is None or last.next_at <= now or leaf.position in self._interpreter.cutting

    def _cut(self) -> None:
        lost, self._lost = self._lost, []
        for position in lost:
            running = self._running.pop(position, None)
            if running is not None:
                running.cancel("its composite was decided without it")
                # Again: it went on, and may have spoken, until the turn that closed it was written.
                self._parts.beats.forget(self._claimed.id, position)
        for position in self._interpreter.cutting:
            running = self._running.get(position)
            if running is not None:
                running.cancel(self._interpreter.cancel_reason)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _start_step(self, leaf: Leaf) -> None:
        parts = self._parts
        if leaf.command.fn is None:
            raise AssertionError(f"{leaf!r} has no function")
        facts = parts.facts.of(leaf.command.fn, leaf.command.options)
        call = self._call(leaf, facts)
        ended = partial(self._step_ended, leaf, facts, call.current)
        self._running[leaf.asked.position] = parts.attempts.start(call, ended)

    def _call(self, leaf: Leaf, facts: StepFacts) -> Call:
        metadata = self._metadata
        if metadata is None:
            text = self._claimed.metadata
            metadata = self._metadata = {} if text is None else msgspec.json.decode(text, type=dict[str, Any])
        return call_of(leaf, facts, self._claimed, metadata, self._parts, self.failures.get(leaf.asked.position))

    def _step_ended(self, leaf: Leaf, facts: StepFacts, current: Current, result: Result) -> None:
        if self._running.pop(leaf.asked.position, None) is not None:
            self._held.advance(partial(self._feed_step, leaf, facts, current, result))

    def _feed_step(self, leaf: Leaf, facts: StepFacts, current: Current, result: Result, now: datetime) -> None:
        parts = self._parts
        asking = asking_of(leaf, facts, current)
        self._feed_followed(leaf, follow(result, asking, parts.codec, parts.modules, lambda: now, parts.chance), now)

    def _feed_followed(self, leaf: Leaf, followed: Followed, now: datetime) -> None:
        interpreter, position = self._interpreter, leaf.asked.position
        match followed:
            case Answered(text, value):
                self._forget_failures(position)
                interpreter.answer(position, text, value, now)
            case Failed(error):
                self._forget_failures(position)
                if position in interpreter.cutting:
                    # What a step makes of being cancelled is no failure of the run.
                    log_cut(self._claimed, leaf.command.name, error)
                    interpreter.interrupt(position, now)
                else:
                    interpreter.fail(position, error, now)
            case CutOff():
                self._forget_failures(position)
                interpreter.interrupt(position, now)
            case Again(attempt):
                if interpreter.leaves.get(position) is leaf:
                    log_attempt(self._claimed, leaf.command.name, attempt)
                    if self._parts.reporter is not None and leaf.command.fn is not None:
                        self._parts.reporter.retried(self._claimed, leaf.command.fn, attempt)
                    self.failures[position] = attempt
                    self.unwritten.attempts.append(attempt)
                    self._waiting.append(leaf)
            case PutOff():
                if interpreter.leaves.get(position) is leaf:
                    self._waiting.append(leaf)
            case _:
                assert_never(followed)

    def _forget_failures(self, position: str) -> None:
        """Failed attempts, and what was said in any, go away with the answer."""
        failed = self.failures and self.failures.pop(position, None) is not None
        if self._parts.beats.forget(self._claimed.id, position) or failed:
            self.unwritten.settled.append(position)

    # --- transactions -------------------------------------------------------------------------------------------------

    def _start_transaction(self, leaf: Leaf) -> None:
        parts, position = self._parts, leaf.asked.position
        if leaf.command.fn is None:
            raise AssertionError(f"{leaf!r} has no function")
        facts = parts.facts.of_transaction(leaf.command.fn, leaf.command.options)
        call = self._call(leaf, facts)
        current, bid = call.current, Bid(self.next_place, leaf)

        def followed(value: Any) -> Followed:
            asking = asking_of(leaf, facts, current)
            return follow(Returned(value), asking, parts.codec, parts.modules, parts.time.now, parts.chance)

        def settles() -> bool:
            return position in self.failures or current.said is not None

        around = Transacting(parts.storage, self._claimed, bid, followed, settles)
        call = msgspec.structs.replace(call, timeout=None, around=around)
        ended = partial(self._transaction_ended, leaf, facts, current, bid)
        self._running[position] = parts.transactions.start(call, ended)
        asyncio.get_running_loop().call_soon(parts.transactions.tell_ended)

    def give_place(self) -> None:
        """Nothing of the run is unwritten or under way: the next place is for a transaction's entry."""
        recorder = self._interpreter.recorder
        self.next_place.give(Place(recorder.place, max(self._parts.time.now(), recorder.at)), self._interpreter.leaves)

    def _transaction_ended(self, leaf: Leaf, facts: StepFacts, current: Current, bid: Bid, result: Result) -> None:
        if self._running.pop(leaf.asked.position, None) is None:
            return
        came = result.value if isinstance(result, Returned) else None
        if isinstance(came, Lost):
            self._held.let_go()
        elif isinstance(came, Committed):
            self.next_place.release(bid, partial(self._feed_committed, leaf, came))
        elif came is not None:
            self.next_place.release(bid, partial(self._feed_followed, leaf, came))
        else:
            self.next_place.release(bid, partial(self._feed_step, leaf, facts, current, result))

    def _feed_committed(self, leaf: Leaf, committed: Committed, now: datetime) -> None:  # noqa: ARG002 - it has its own
        self._forget_failures(leaf.asked.position)
        self._interpreter.follow(leaf.asked.position, committed.value, committed.at)

    # --- effects ------------------------------------------------------------------------------------------------------

    def _start_effect(self, leaf: Leaf) -> None:
        spec = leaf.command.spec
        if not isinstance(spec, SendSpec):
            raise AssertionError(f"{leaf!r} has nobody to reach")  # noqa: TRY004 - no type error: it cannot happen
        self._effects.add(leaf.position)
        effects = self._parts.effects
        if leaf.command.kind == "send":
            signal = signal_of(leaf, self._claimed)
            if self._parts.reporter is not None:
                signal = self._parts.reporter.traced(self._claimed.id, signal)
            effects.send(signal, partial(self._sent, leaf, spec.run_id))
        else:
            reason = f"cancelled by run {self._claimed.id}"
            effects.cancel(spec.run_id, reason, partial(self._cancelled, leaf, spec.run_id))

    def _sent(self, leaf: Leaf, run_id: str, sent: Answer) -> None:
        failed = sent not in (Sent.SENT, Sent.DUPLICATE)
        self._effect_ended(leaf, sent_failure(run_id, sent, self._parts.modules) if failed else None, None)

    def _cancelled(self, leaf: Leaf, run_id: str, sent: Answer) -> None:
        failed = sent is Sent.UNKNOWN or isinstance(sent, StorageRefused)
        failure = sent_failure(run_id, sent, self._parts.modules) if failed else None
        self._effect_ended(leaf, failure, sent is Sent.SENT)

    def _effect_ended(self, leaf: Leaf, failure: str | None, value: bool | None) -> None:
        if leaf.position in self._effects:
            self._effects.discard(leaf.position)
            self._held.advance(partial(self._feed_effect, leaf.position, failure, value))

    def _feed_effect(self, position: str, failure: str | None, value: bool | None, now: datetime) -> None:
        if failure is not None:
            self._interpreter.fail(position, failure, now)
        else:
            self._interpreter.answer(position, msgspec.json.encode(value).decode(), value, now)
