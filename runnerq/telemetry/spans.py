"""From events to spans: one a start, one a stretch of a run, one a turn, one an attempt.

Rules
- A run lives for days and in many workers, and a span in one process: so a run's span is a stretch of it, from when a
  worker takes it up to when it parks, ends, or is left. All stretches of a run have one parent, what it was started
  with, and each is linked to the one before: to the last that this process had, else to the one that began the journal.
- What a run was started with is in its options, a child's is its parent's stretch; so a tree of runs is one trace.
- A run that was started without a trace has its root's id as the id of its trace: every worker finds the same one, and
  nothing is stored. Its parent is a span that nobody has exported.
- A turn and an attempt are below the stretch that they belong to. An attempt's span is the current one in its function.
- A turn that takes signals is linked to what sent them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from runnerq.telemetry.events import (
    AttemptBegan,
    AttemptEnded,
    AttemptRetried,
    Event,
    Left,
    RunBlocked,
    RunClaimed,
    RunEnded,
    RunParked,
    RunReleased,
    TurnCommitted,
)
from runnerq.telemetry.listeners import Trace

REMEMBERED = 10_000
"""Runs whose last stretch is remembered, to link the next one to it."""
_NANOSECONDS = 1_000_000_000
_RANDOM_BITS = 62
"""The lowest bits of a run's id, which are random."""
_W3C = TraceContextTextMapPropagator()
_ERRORS = frozenset({"failed", "dead_letter"})


class _Held(msgspec.Struct, frozen=True):
    """A stretch that is open, in which worker, and the context that is below it."""

    span: Span
    context: Context
    worker_id: int


class _Attempt(msgspec.Struct, frozen=True):
    """The span of an attempt that is under way, and the context that was current before."""

    span: Span
    before: Context


class Spans:
    """Of all workers and clients that it hears of."""

    def __init__(self, tracer: Tracer, share: float) -> None:
        self._tracer = tracer
        self._share = share
        self._came: dict[str, tuple[Context, SpanContext | None]] = {}
        self._held: dict[str, _Held] = {}
        self._took: dict[str, list[Link]] = {}
        self._attempts: dict[tuple[int, str, str], _Attempt] = {}
        self._last: OrderedDict[str, SpanContext] = OrderedDict()

    # --- what goes with runs ------------------------------------------------------------------------------------------

    def starting(self, name: str, kind: str) -> _Sending:
        attributes = {"runnerq.name": name, "runnerq.kind": kind}
        return _Sending(self._tracer.start_span(f"start {name}", kind=SpanKind.PRODUCER, attributes=attributes))

    def sending(self, run_id: str, channel: str) -> _Sending:
        attributes = {"runnerq.run_id": run_id, "runnerq.channel": channel}
        return _Sending(self._tracer.start_span(f"send {channel}", kind=SpanKind.PRODUCER, attributes=attributes))

    def took(self, run_id: str, traces: Sequence[Trace]) -> None:
        if run_id in self._held:
            self._took[run_id] = [Link(sender) for trace in traces if (sender := _extracted(trace)) is not None]

    def carried(self, run_id: str) -> Trace | None:
        held = self._held.get(run_id)
        return None if held is None else _injected(held.context)

    def came_with(self, run_id: str, root_id: str, started: Trace | None, begun: Trace | None) -> None:
        parent = _extracted(started)
        context = set_span_in_context(NonRecordingSpan(parent or self._of_nobody(root_id)), Context())
        self._came[run_id] = (context, _extracted(begun))

    def _of_nobody(self, root_id: str) -> SpanContext:
        """What a run is taken to have been started with that was started without a trace."""
        number = UUID(root_id).int
        drawn = (number & ((1 << _RANDOM_BITS) - 1)) / (1 << _RANDOM_BITS)
        flags = TraceFlags(TraceFlags.SAMPLED if drawn < self._share else TraceFlags.DEFAULT)
        return SpanContext(number, number & ((1 << 64) - 1), is_remote=True, trace_flags=flags)

    # --- events -------------------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        match event:
            case RunClaimed():
                self._claimed(event)
            case TurnCommitted():
                self._turn(event)
            case RunParked(run_id=run_id):
                self._note(run_id, {
                    "runnerq.parked.channels": event.channels, "runnerq.parked.children": event.awaited,
                })  # fmt: skip
            case RunEnded(run_id=run_id):
                self._note(run_id, {"runnerq.status": event.status, "runnerq.reason": event.reason or ""})
                if event.status in _ERRORS:
                    self._fail(run_id, event.error or event.status)
            case RunBlocked(run_id=run_id):
                self._note(run_id, {"runnerq.entry": event.entry or "", "code.line": event.line or ""})
                self._fail(run_id, "blocked")
            case RunReleased():
                self._released(event)
            case AttemptBegan():
                self._began(event)
            case AttemptRetried():
                self._note_attempt(event)
            case AttemptEnded():
                self._ended(event)
            case _:
                pass  # it is no part of a trace

    # --- runs ---------------------------------------------------------------------------------------------------------

    def _claimed(self, event: RunClaimed) -> None:
        context, begun = self._came.pop(event.run_id, (Context(), None))
        if (held := self._held.get(event.run_id)) is not None:
            # Another worker of this process had it, and does not know yet that it has not.
            self._leave(event.run_id, held, "lost")
        before = self._last.pop(event.run_id, begun)
        span = self._tracer.start_span(
            f"run {event.name}",
            context=context,
            kind=SpanKind.CONSUMER,
            attributes={
                "runnerq.run_id": event.run_id,
                "runnerq.name": event.name,
                "runnerq.kind": event.kind,
                "runnerq.version": event.version,
                "runnerq.queue": event.queue,
                "runnerq.generation": event.generation,
                "runnerq.crashes": event.crashes,
                "runnerq.resumed": event.resumed,
                "runnerq.wait_seconds": event.wait_seconds,
                "runnerq.worker_id": str(event.worker_id),
            },
            links=() if before is None else (Link(before),),
        )
        self._held[event.run_id] = _Held(span, set_span_in_context(span, context), event.worker_id)

    def _turn(self, event: TurnCommitted) -> None:
        held = self._held.get(event.run_id)
        if held is not None:
            ended = time.time_ns()
            self._tracer.start_span(
                "turn",
                context=held.context,
                attributes={
                    "runnerq.move": event.move,
                    "runnerq.rows": event.rows,
                    "runnerq.children": event.children,
                    "runnerq.signals": event.signals,
                    "runnerq.verdict": event.verdict,
                },
                links=self._took.pop(event.run_id, ()),
                start_time=ended - int(event.lag_seconds * _NANOSECONDS),
            ).end(ended)

    def _note(self, run_id: str, attributes: dict[str, Any]) -> None:
        held = self._held.get(run_id)
        if held is not None:
            held.span.set_attributes(attributes)

    def _fail(self, run_id: str, why: str) -> None:
        held = self._held.get(run_id)
        if held is not None:
            held.span.set_status(StatusCode.ERROR, why)

    def _released(self, event: RunReleased) -> None:
        held = self._held.get(event.run_id)
        if held is not None and held.worker_id == event.worker_id:
            self._leave(event.run_id, held, event.left)

    def _leave(self, run_id: str, held: _Held, left: Left) -> None:
        del self._held[run_id]
        self._took.pop(run_id, None)
        held.span.set_attribute("runnerq.left", left)
        held.span.end()
        self._last[run_id] = held.span.get_span_context()
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def _began(self, event: AttemptBegan) -> None:
        held = self._held.get(event.run_id)
        context = Context() if held is None else held.context
        span = self._tracer.start_span(
            f"{event.kind} {event.step}",
            context=context,
            attributes={
                "runnerq.run_id": event.run_id,
                "runnerq.name": event.name,
                "runnerq.step": event.step,
                "runnerq.entry": event.entry,
                "runnerq.attempt": event.attempt,
            },
        )
        self._attempts[event.worker_id, event.run_id, event.entry] = _Attempt(span, contexts.get_current())
        contexts.attach(set_span_in_context(span, context))

    def _note_attempt(self, event: AttemptRetried) -> None:
        held = self._held.get(event.run_id)
        if held is not None:
            held.span.add_event(
                "retry",
                {
                    "runnerq.step": event.step,
                    "runnerq.entry": event.entry,
                    "runnerq.attempt": event.attempt,
                    "runnerq.due_in_seconds": event.due_in_seconds,
                    "error.type": event.error or "",
                },
            )

    def _ended(self, event: AttemptEnded) -> None:
        attempt = self._attempts.pop((event.worker_id, event.run_id, event.entry), None)
        if attempt is None:
            return
        span = attempt.span
        if get_current_span() is span:
            # Told where the function has returned, which goes on to the run. Not detached: it may be told elsewhere.
            contexts.attach(attempt.before)
        span.set_attribute("runnerq.came", event.came)
        if event.error is not None:
            span.set_attribute("error.type", event.error)
        if event.came in {"raised", "timed_out"}:
            span.set_status(StatusCode.ERROR, event.error or event.came)
        span.end()


class _Sending:
    """A start or a signal that is being sent: its span goes with it."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def trace(self) -> Trace:
        return _injected(set_span_in_context(self._span, Context())) or {}

    def sent(self, run_ids: tuple[str, ...]) -> None:
        self._span.set_attribute("runnerq.runs", len(run_ids))
        if len(run_ids) == 1:
            self._span.set_attribute("runnerq.run_id", run_ids[0])
        self._span.end()

    def failed(self, error: BaseException) -> None:
        # Its class alone: what a message says may be of the caller's data.
        self._span.set_attribute("error.type", type(error).__name__)
        self._span.set_status(StatusCode.ERROR, type(error).__name__)
        self._span.end()


def _injected(context: Context) -> Trace | None:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return carrier or None


def _extracted(trace: Trace | None) -> SpanContext | None:
    """The span that this trace names; None where it names none."""
    if trace is None:
        return None
    found = get_current_span(_W3C.extract(trace, Context())).get_span_context()
    return found if found.is_valid else None
