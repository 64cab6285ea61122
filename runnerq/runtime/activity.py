"""A held activity run: one attempt of its function, and the one turn that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, assert_never

import msgspec

from runnerq.errors import DecodingError, StorageRefused
from runnerq.persistence.records import Arrival, Ask, Back, Claimed, End, Ended, Inbox, Move, Stuck, Turn, Verdict
from runnerq.runtime.current import Current
from runnerq.runtime.dead_letters import Dead, hook_run
from runnerq.runtime.opening import stuck_by, unexpected
from runnerq.runtime.parts import Parts
from runnerq.runtime.registry import Target
from runnerq.runtime.results import Call, Result, Running
from runnerq.runtime.run_log import log_attempt, log_blocked, log_cut, log_end
from runnerq.runtime.steps import Again, Answered, Asking, CutOff, Failed, PutOff, bounds_in, follow
from runnerq.workflow.ending import Blocked
from runnerq.workflow.options import DEFAULTS


class _Lazily:
    """Text for an error message, made only if it is needed."""

    __slots__ = ("_claimed", "_what")

    def __init__(self, what: str, claimed: Claimed) -> None:
        self._what = what
        self._claimed = claimed

    def __str__(self) -> str:
        return f"the {self._what} of activity {self._claimed.name!r}, run {self._claimed.id}"


class HeldActivity:
    """One claimed activity run."""

    __slots__ = ("_asking", "_cancel", "_claimed", "_current", "_parts", "_running", "_target", "run_id", "token")

    def __init__(self, claimed: Claimed, target: Target, parts: Parts) -> None:
        self.run_id = claimed.id
        self.token = claimed.token
        self._claimed = claimed
        self._target = target
        self._parts = parts
        self._running: Running | None = None
        self._cancel = claimed.cancel
        self._asking: Asking | None = None
        self._current: Current | None = None

    def begin(self) -> None:
        claimed, target, parts = self._claimed, self._target, self._parts
        if claimed.cancel is not None:
            self._write(End(status="cancelled", reason=claimed.cancel or None, cancel_requested=True))
            return
        last = claimed.attempts[0] if claimed.attempts else None
        if claimed.options is None:
            bounds = parts.facts.of(target.fn, DEFAULTS).bounds
        else:
            options: Mapping[str, Any] = msgspec.json.decode(claimed.options)
            bounds = bounds_in(options, target.fn)
        self._asking = asking = Asking(
            position="",
            name=claimed.name,
            what=_Lazily("result", claimed),
            type=target.signature.returns,
            failures=0 if last is None else last.number,
            bounds=bounds,
        )
        try:
            args, kwargs = parts.codec.decode_call(claimed.input, target.signature, _Lazily("input", claimed))
        except DecodingError as error:
            self._write(Stuck(message=str(error), build=parts.build, position=""))
            return
        timeout = bounds.timeout
        current = Current(
            run_id=claimed.id,
            workflow=claimed.name,
            name=claimed.name,
            entry="",
            attempt=asking.failures + 1,
            generation=claimed.generation,
            kind="activity",
            metadata={} if claimed.metadata is None else msgspec.json.decode(claimed.metadata),
            timeout=timeout,
            clock=parts.time.now,
            is_async=target.signature.is_async,
            claimed=claimed,
            means=parts.means,
            before=None if last is None else last.details,
        )
        self._current = current
        call = Call(target.fn, args, kwargs, target.signature.is_async, timeout, current)
        self._running = parts.attempts.start(call, self._ended)
        parts.attempts.tell_ended()

    def hear(self, arrival: Arrival) -> None:
        if arrival.cancel is not None and self._cancel is None and self._running is not None:
            self._cancel = arrival.cancel
            self._running.cancel(arrival.cancel)

    def look(self) -> None:
        if self._running is not None:
            self._parts.mailroom.ask(Ask(run_id=self.run_id), self._looked)

    def _looked(self, inbox: Inbox | None) -> None:
        if inbox is None and self._running is not None:
            self.drop()
            self._parts.released(self)

    def stop(self) -> None:
        """It is let finish; the worker's grace bounds it."""

    def drop(self) -> None:
        if self._running is not None:
            self._running.cancel("the run was lost")
            self._running = None
            self._parts.beats.forget(self.run_id, "")

    def _ended(self, result: Result) -> None:
        current, asking = self._current, self._asking
        if self._running is None or asking is None or current is None:
            return
        self._running = None
        parts = self._parts
        asked = self._cancel is not None
        parts.beats.forget(self.run_id, "")
        if current.said is not None or current.before is not None:
            asking = msgspec.structs.replace(asking, details=current.said or current.before)
        try:
            followed = follow(result, asking, parts.codec, parts.modules, parts.time.now, parts.chance)
        except Exception as fault:  # noqa: BLE001 - a fault of our own, even
            self._block(unexpected(fault))
            return
        match followed:
            case Answered(text):
                self._write(End(status="completed", result=text, cancel_requested=asked))
            case Failed(error) if asked:
                log_cut(self._claimed, self._claimed.name, error)
                self._write(End(status="cancelled", reason=self._cancel or None, cancel_requested=True))
            case Failed(error, exhausted):
                status: Ended = "dead_letter" if exhausted else "failed"
                self._write(
                    End(status=status, error=error, reason="attempts" if exhausted else None, cancel_requested=asked)
                )
            case Again(attempt):
                if asked:
                    self._write(End(status="cancelled", reason=self._cancel or None, cancel_requested=True))
                else:
                    log_attempt(self._claimed, self._claimed.name, attempt)
                    if parts.reporter is not None:
                        parts.reporter.retried(self._claimed, self._target.fn, attempt)
                    turn = self._made(Back(due_at=attempt.next_at))
                    self._submit(msgspec.structs.replace(turn, attempts=(attempt,)))
            case PutOff():
                self._write(Back())
            case CutOff():
                self._write(End(status="cancelled", reason=self._cancel or None, cancel_requested=True))
            case _:
                assert_never(followed)

    def _block(self, blocked: Blocked) -> None:
        log_blocked(self._claimed, blocked)
        self._write(stuck_by(blocked, self._claimed, self._parts))

    def _made(self, move: Move) -> Turn:
        claimed = self._claimed
        return Turn(
            run_id=self.run_id,
            token=self.token,
            seen=claimed.seen,
            generation=claimed.generation,
            move=move,
            has_parent=claimed.parent_id is not None,
        )

    def _write(self, move: Move) -> None:
        turn = self._made(move)
        if isinstance(move, End) and move.status == "dead_letter":
            hook = self._target.declaration.on_dead_letter
            told = hook_run(hook, Dead.of(self._claimed), move, self._parts.codec)
            turn = msgspec.structs.replace(turn, children=told)
        self._submit(turn)

    def _submit(self, turn: Turn) -> None:
        self._parts.writer.submit(turn, partial(self._written, turn.move))

    def _written(self, move: Move, answer: Verdict | StorageRefused) -> None:
        parts = self._parts
        if isinstance(answer, StorageRefused) and not isinstance(move, Stuck):
            self._write(Stuck(message=f"the storage refuses the result: {answer}", build=parts.build))
            return
        if isinstance(move, Back) and move.due_at is not None:
            parts.expect(parts.time.until(move.due_at))
        if isinstance(move, End) and move.error is not None and answer is Verdict.DONE:
            log_end(self._claimed, move)
        parts.released(self)
