"""A held workflow run: what came is fed, what was asked is written, and only then carried out.

Rules
- One turn is under way at a time. What comes meanwhile is fed, and goes into the next turn.
- Nothing is carried out before the turn that asked for it is written.
- It parks when nothing of it runs here. AGAIN: its mailbox has moved, so it is read, fed, and written again.
- LOST: the run is somebody else's; everything of it here is dropped, and nothing is sent.
- Cancels of children go out after the write that closed them is done; a stale worker's never do.
- Whatever goes wrong with it blocks this run, and reaches neither the worker nor the other runs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, assert_never

from runnerq.errors import StorageRefused
from runnerq.persistence.records import (
    GOING,
    Arrival,
    Ask,
    Back,
    Claimed,
    End,
    Going,
    Inbox,
    Move,
    Park,
    Renew,
    Stuck,
    Turn,
    Verdict,
)
from runnerq.runtime.arrivals import Arrivals
from runnerq.runtime.callbacks import log
from runnerq.runtime.carrying import Carrying, Feed
from runnerq.runtime.failing import end_of
from runnerq.runtime.opening import interpreter_of, open_workflow, stuck_by, unexpected
from runnerq.runtime.parts import Parts
from runnerq.runtime.reading import later
from runnerq.runtime.run_log import about, log_blocked, log_end, log_long, log_lost, log_never_yielded
from runnerq.runtime.sealed import sealed_in_inbox
from runnerq.runtime.timers import Timer
from runnerq.runtime.turns import Unwritten, bare_turn, blocking_turn, park, renewal, renewed, turn_of
from runnerq.workflow.ending import Blocked, ContinuedAsNew
from runnerq.workflow.interpreter import Interpreter, Progress


class HeldWorkflow:
    """One claimed workflow run."""

    __slots__ = (
        "_arrivals", "_cancels", "_carrying", "_claimed", "_deadline", "_gone", "_interpreter", "_next", "_next_place",
        "_parts", "_reading", "_seen", "_stopping", "_timeout", "_timer", "_turn", "run_id", "token",
    )  # fmt: skip

    def __init__(
        self, claimed: Claimed, parts: Parts, timeout: float | None, parked: Interpreter | None = None
    ) -> None:
        """``parked`` is the interpreter that was parked under the token that the run still carried."""
        self.run_id = claimed.id
        self.token = claimed.token
        self._parts = parts
        self._set_up(claimed, interpreter_of(claimed, parts) if parked is None else parked)
        self._seen = claimed.seen
        self._cancels: list[str] = []
        self._turn: Turn | None = None
        self._next: Turn | None = None
        self._timer: Timer | None = None
        self._timeout = timeout
        self._deadline: datetime | None = None
        self._reading = False
        self._stopping = False
        self._gone = False

    def _set_up(self, claimed: Claimed, interpreter: Interpreter) -> None:
        """What there is for one generation."""
        self._claimed = claimed
        self._interpreter = interpreter
        self._carrying = Carrying(interpreter, claimed, self._parts, self)
        self._next_place = self._carrying.next_place
        self._arrivals = Arrivals()

    # --- taking up and letting go -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take the run up where its journal, or its parked interpreter, stands."""
        claimed, interpreter = self._claimed, self._interpreter
        if interpreter.recorder.place:
            self._carrying.add(interpreter.leaves.values())
        else:
            try:
                open_workflow(interpreter, claimed, self._parts)
            except Blocked as blocked:
                self._block(blocked)
                return
        if self._timeout is not None:
            self._deadline = later(interpreter.began_at, self._timeout)
        ended = [outcome.run_id for outcome in claimed.outcomes]
        self._arrivals.read(claimed.signals, claimed.outcomes, self._parts.time.now(), ended)
        children = self._awaited_children()
        if any(not self._arrivals.knows(child) for child in children):
            self._read_mailbox(children)
        else:
            self._take_in(claimed.cancel)

    def hear(self, arrival: Arrival) -> None:
        if arrival.inbox > self._seen:
            self.look()

    def look(self) -> None:
        leaving = self._turn is not None and self._turn.move is not GOING
        if not (self._gone or self._reading or leaving):
            self._read_mailbox(self._awaited_children())

    def stop(self) -> None:
        self._stopping = True
        self.look_around()

    def look_around(self) -> None:
        if not self._gone:
            self._guarded(self._settle)

    def drop(self) -> None:
        if self._gone:
            return
        self._gone = True
        self._disarm()
        self._carrying.drop()
        self._close()

    def _renew(self, renew: Renew) -> None:
        """Begin the next generation, as another worker would that found its first row."""
        interpreter = self._interpreter
        log_never_yielded(self._claimed, interpreter.never_yielded())
        if isinstance(interpreter.end, ContinuedAsNew) and interpreter.end.lost is not None:
            log_lost(self._claimed, interpreter.end.lost)
        self._carrying.drop()
        self._close()
        claimed = renewed(self._claimed, renew)
        self._set_up(claimed, interpreter_of(claimed, self._parts))
        self._guarded(open_workflow, self._interpreter, claimed, self._parts)
        if self._turn is None:
            self._read_mailbox(self._awaited_children())

    def let_go(self) -> None:
        self.drop()
        self._parts.released(self)

    def _close(self) -> None:
        self._parts.keep(self.run_id, self._interpreter.close())

    # --- the mailbox --------------------------------------------------------------------------------------------------

    def _awaited_children(self) -> tuple[str, ...]:
        leaves = self._interpreter.leaves.values()
        return tuple(leaf.asked.child for leaf in leaves if leaf.asked.child is not None)

    def _read_mailbox(self, children: tuple[str, ...]) -> None:
        self._reading = True
        read = partial(self._mailbox_read, children)
        self._parts.mailroom.ask(Ask(run_id=self.run_id, children=children), read)

    def _mailbox_read(self, children: tuple[str, ...], inbox: Inbox | None) -> None:
        self._reading = False
        if self._gone:
            return
        if inbox is None:
            self.let_go()
            return
        sealed = sealed_in_inbox(inbox)
        if sealed is not None:
            self._block(Blocked(str(sealed), error=sealed))
            return
        self._seen = inbox.seen
        self._parts.time.sync(inbox.now)
        self._arrivals.read(inbox.signals, inbox.outcomes, inbox.now, children)
        self._take_in(inbox.cancel)

    def _take_in(self, cancel: str | None) -> None:
        """Consider everything that is open anew: the mailbox was read, or a time has come."""

        def feed(now: datetime) -> None:
            interpreter = self._interpreter
            if cancel is not None:
                interpreter.cancel(cancel or None, now)
            elif self._deadline is not None and self._deadline <= now:
                interpreter.cancel("timeout", now)
            self._arrivals.watch(interpreter.leaves.values(), now)
            self._feed_arrivals(now)

        self.advance(feed)
        overdue = self._deadline is not None and self._deadline <= self._parts.time.now()
        if (cancel is not None or overdue) and self._interpreter.heeds_cancel:
            self._next_place.hurry()

    def _feed_arrivals(self, now: datetime) -> None:
        consumed = self._carrying.unwritten.consumed
        must_read = self._parts.feeder.feed(self._interpreter, self._arrivals, now, consumed)
        if must_read and not self._reading:
            self._read_mailbox(self._awaited_children())

    def advance(self, feed: Feed) -> None:
        """Feed something, then what has come for what was asked on it; then write, or go on waiting."""
        if self._next_place.shut:
            # A transaction's entry is to have the next place: what becomes of it comes first.
            self._next_place.keep(feed)
        else:
            self._guarded(self._feed, feed)

    def feed_now(self, feed: Feed) -> None:
        if not self._gone:
            self._guarded(self._feed, feed)

    def _feed(self, feed: Feed) -> None:
        now = self._parts.time.now()
        feed(now)
        if self._interpreter.opened:
            self._feed_arrivals(now)
        self._settle()

    def _guarded(self, act: Callable[..., None], *args: Any) -> None:
        """Do it; whatever goes wrong blocks the run."""
        try:
            act(*args)
        except Blocked as blocked:
            self._block(blocked)
        except Exception as error:  # noqa: BLE001 - a fault of our own, even
            self._block(unexpected(error))

    # --- turns --------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Write what there is to write and go on, or wait for what is under way."""
        if self._turn is not None or self._reading or self._gone or self._next_place.given is not None:
            return
        carrying = self._carrying
        progress = self._interpreter.collect()
        if progress.starts:
            carrying.add(progress.starts)
        if progress.rows:
            carrying.close(progress.rows)
        if progress.cancels:
            self._cancels += progress.cancels
        if progress.grown_long:
            log_long(self._claimed)
        move = self._move(progress)
        if move is GOING and not (progress.rows or progress.children or progress.published or carrying.unwritten):
            self._carry_on()
            return
        turn = turn_of(self._claimed, self._seen, move, progress, carrying.unwritten, self._parts)
        carrying.unwritten = Unwritten()
        self._arrivals.started(child.id for child in turn.children)
        self._submit(turn)

    def _move(self, progress: Progress) -> Move:
        interpreter = self._interpreter
        if isinstance(progress.end, ContinuedAsNew):
            return renewal(progress.end, interpreter, self._claimed, self._parts)
        if progress.end is not None:
            return end_of(progress.end, interpreter.cancel_requested, self._parts.modules)
        if self._carrying.runs or (not self._stopping and self._carrying.can_begin()):
            return GOING
        return Back() if self._stopping else park(interpreter, self._due_at)

    def _submit(self, turn: Turn) -> None:
        if turn.move is not GOING:
            # Nothing may be fed between this turn and its verdict: what it leaves behind is what is on record.
            self._disarm()
        self._turn = turn
        self._next_place.writes()
        self._parts.writer.submit(turn, self._written)

    def _due_at(self, waits_until: datetime | None) -> datetime | None:
        """When it must go on, whatever comes: a wait's deadline, a step's next attempt, the run's own deadline."""
        times = self._carrying.next_attempts()
        if waits_until is not None:
            times.append(waits_until)
        if self._deadline is not None and self._interpreter.heeds_cancel:
            times.append(self._deadline)
        return min(times, default=None)

    def _written(self, answer: Verdict | StorageRefused) -> None:
        turn, self._turn = self._turn, None
        if self._gone or turn is None:
            return
        self._next_place.written()
        if isinstance(answer, StorageRefused):
            self._refused(turn, answer)
            return
        if answer is Verdict.LOST:
            self.let_go()
            return
        if turn.consumed and not self._reading:
            self._arrivals.forget_taken(turn.consumed)
        self._send_cancels()
        if self._next is not None:
            turn, self._next = self._next, None
            self._submit(turn)
            return
        match turn.move:
            case Going():
                self._guarded(self._carry_on)
            case Park(due_at=due_at) if answer is Verdict.DONE:
                self._parked(due_at)
            case Park():
                self._read_mailbox(self._awaited_children())
            case Renew() as renew:
                self._renew(renew)
            case End() as end:
                self._ended(end)
            case Back() | Stuck():
                self.let_go()
            case _:
                assert_never(turn.move)

    def _parked(self, due_at: datetime | None) -> None:
        parts = self._parts
        if due_at is not None:
            parts.expect(parts.time.until(due_at))
        self._gone = True
        parts.cache.put(self.run_id, self.token, self._interpreter)
        parts.released(self)

    def _ended(self, end: End) -> None:
        interpreter = self._interpreter
        log_end(self._claimed, end)
        log_never_yielded(self._claimed, interpreter.never_yielded())
        open_children = [
            child for child, leaf in interpreter.children.items() if leaf.command.options.parent_close != "abandon"
        ]
        if open_children:
            self._parts.effects.cancel_children(open_children, f"its parent ended as {end.status}")
        self.let_go()

    def _send_cancels(self) -> None:
        if self._cancels:
            cancels, self._cancels = self._cancels, []
            self._parts.effects.cancel_children(cancels, "its parent no longer waits for it")

    def _refused(self, turn: Turn, refusal: StorageRefused) -> None:
        if isinstance(turn.move, Stuck):
            log.error("run %s can neither be written nor blocked: %s", self.run_id, refusal, extra=about(self._claimed))
            self.let_go()
            return
        self._carrying.drop()
        # What was fed since needs the rows that are refused: none of it can be written.
        self._next = None
        stuck = Stuck(message=f"the storage refuses its turn: {refusal}", build=self._parts.build)
        self._submit(bare_turn(self._claimed, self._seen, stuck))

    def _block(self, blocked: Blocked) -> None:
        """Block the run, with the answers that were fed and not what was asked on the last."""
        stuck = stuck_by(blocked, self._claimed, self._parts)
        log_blocked(self._claimed, blocked)
        self._carrying.drop()
        unwritten, interpreter = self._carrying.unwritten, self._interpreter
        turn = blocking_turn(self._claimed, self._seen, stuck, interpreter, unwritten, self._parts)
        if self._turn is None:
            self._submit(turn)
        else:
            self._next = turn

    # --- going on -----------------------------------------------------------------------------------------------------

    def _carry_on(self) -> None:
        """What was asked for is on record: begin it."""
        self._carrying.begin(stopping=self._stopping)
        self._arm()
        carrying = self._carrying
        if self._interpreter.recorder.rows or carrying.unwritten or not carrying.runs:
            self._settle()
        if self._next_place.waiting and self._turn is None and not self._gone:
            carrying.give_place()
        # Last: after a KeyboardInterrupt out of the workflow's code nothing more is done for this run.
        self._parts.attempts.tell_ended()

    def _arm(self) -> None:
        """Keep the timer that a park would have kept, while something of it runs."""
        self._disarm()
        timed = self._interpreter.timed()
        if not timed and not self._carrying.failures and self._deadline is None:
            return
        due = self._due_at(min((leaf.asked.deadline for leaf in timed if leaf.asked.deadline), default=None))
        if due is not None:
            self._timer = self._parts.timers.call_later(self._parts.time.past(due), self._tick)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        if not self._gone:
            self._take_in(None)
