"""Where a trace is kept: in a run's options, and in the first row of its journal, under one name. Both are JSON objects
whose readers pass over what they do not know."""

from __future__ import annotations

import msgspec

from runnerq.telemetry.listeners import Trace

TRACE = "trace"
PARENT = "traceparent"
"""What of a trace goes with a signal: it says which span that was sent in."""


class _Carries(msgspec.Struct, frozen=True):
    trace: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_Carries).decode


def with_trace(text: str | None, trace: Trace) -> str:
    """This JSON object, or a new one, with the trace in it; one that has a trace keeps that."""
    given = {} if text is None else msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({TRACE: trace, **given}).decode()


def trace_in(text: str | None) -> Trace | None:
    """The trace that this JSON object carries; None where it has none that can be read."""
    if text is None:
        return None
    try:
        return _decode(text).trace
    except msgspec.MsgspecError:
        # Nobody has to write traces as we do, and a run is not to suffer from one.
        return None
