"""A held activity run: one attempt of its function, and the one turn that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from runnerq.errors import DecodingError, StorageRefused
from runnerq.persistence.records import Arrival, Back, Claimed, End, Move, Stuck, Turn, Verdict
from runnerq.runtime.attempts import Call, Result, Running
from runnerq.runtime.current import Current
from runnerq.runtime.registry import Target
from runnerq.runtime.services import Services
from runnerq.runtime.steps import Again, Answered, Asking, CutOff, Failed, follow, limits_in


class HeldActivity:
    """One claimed activity run."""

    __slots__ = ("_asking", "_cancel", "_claimed", "_running", "_services", "_target", "_turn", "run_id", "token")

    def __init__(self, claimed: Claimed, target: Target, services: Services) -> None:
        self.run_id = claimed.id
        self.token = claimed.token
        self._claimed = claimed
        self._target = target
        self._services = services
        self._running: Running | None = None
        self._cancel = claimed.cancel
        self._asking: Asking | None = None
        self._turn: Turn | None = None

    def begin(self) -> None:
        claimed, target, services = self._claimed, self._target, self._services
        if claimed.cancel is not None:
            self._write(End(status="cancelled", reason=claimed.cancel or None, cancel_requested=True))
            return
        options: Mapping[str, Any] = {} if claimed.options is None else msgspec.json.decode(claimed.options)
        last = claimed.attempts[0] if claimed.attempts else None
        limits = limits_in(options, target.fn)
        self._asking = asking = Asking(
            position="",
            name=claimed.name,
            what=f"the result of activity {claimed.name!r}, run {claimed.id}",
            type=target.signature.returns,
            failures=0 if last is None else last.number,
            limits=limits,
        )
        try:
            args, kwargs = services.codec.decode_call(
                claimed.input, target.signature, f"the input of activity {claimed.name!r}, run {claimed.id}"
            )
        except DecodingError as error:
            self._write(Stuck(message=str(error), build=services.build, position=""))
            return
        timeout = limits.timeout
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
            clock=services.time.now,
            client=services.client,
            is_async=target.signature.is_async,
        )
        call = Call(target.fn, args, kwargs, target.signature.is_async, timeout, current)
        self._running = services.attempts.start(call, self._ended)

    def hear(self, arrival: Arrival) -> None:
        if arrival.cancel is not None and self._cancel is None and self._running is not None:
            self._cancel = arrival.cancel
            self._running.cancel(arrival.cancel)

    def nudge(self) -> None:
        """A cancel is heard with the next beat; nothing else can come for it."""

    def stop(self) -> None:
        """It is let finish; the worker's grace bounds it."""

    def drop(self) -> None:
        if self._running is not None:
            self._running.cancel("the run was lost")
            self._running = None

    def _ended(self, result: Result) -> None:
        if self._running is None or self._asking is None:
            return
        self._running = None
        services = self._services
        asked = self._cancel is not None
        followed = follow(result, self._asking, services.codec, services.modules, services.time.now())
        match followed:
            case Answered(text):
                self._write(End(status="completed", result=text, cancel_requested=asked))
            case Failed(error, exhausted):
                status: Any = "dead_letter" if exhausted else "failed"
                self._write(
                    End(status=status, error=error, reason="attempts" if exhausted else None, cancel_requested=asked)
                )
            case Again(attempt):
                if asked:
                    self._write(End(status="cancelled", reason=self._cancel or None, cancel_requested=True))
                else:
                    turn = self._made(Back(due_at=attempt.next_at))
                    self._submit(msgspec.structs.replace(turn, attempts=(attempt,)))
            case CutOff():
                self._write(End(status="cancelled", reason=self._cancel or None, cancel_requested=True))
            case _:
                assert_never(followed)

    def _made(self, move: Move) -> Turn:
        claimed = self._claimed
        return Turn(run_id=self.run_id, token=self.token, seen=claimed.seen, generation=claimed.generation, move=move)

    def _write(self, move: Move) -> None:
        self._submit(self._made(move))

    def _submit(self, turn: Turn) -> None:
        self._turn = turn
        self._services.writer.submit(turn, self._written)

    def _written(self, answer: Verdict | StorageRefused) -> None:
        services = self._services
        if isinstance(answer, StorageRefused) and not isinstance(self._turn and self._turn.move, Stuck):
            self._write(Stuck(message=f"the storage refuses the result: {answer}", build=services.build))
            return
        move = None if self._turn is None else self._turn.move
        if isinstance(move, Back) and move.due_at is not None:
            services.expect(services.time.until(move.due_at))
        services.released(self)
