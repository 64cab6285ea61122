"""What a client tells of its starts and signals. Called only where somebody listens."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from runnerq.client.starting import Template
from runnerq.persistence.records import NewSignal, Sent
from runnerq.telemetry.carrying import PARENT, with_trace
from runnerq.telemetry.events import SignalSent, StartFailed, StartSent
from runnerq.telemetry.listeners import Telemetry


class Started(Protocol):
    """A run that stands for one that was to be started."""

    created: bool

    @property
    def id(self) -> str: ...


S = TypeVar("S", bound=Started)


async def reported_start(telemetry: Telemetry, of: Template, send: Callable[[Template], Awaitable[list[S]]]) -> list[S]:
    """What ``send`` answers, whose runs carry the trace of this start."""
    target, began = of.target, time.monotonic()
    starting = telemetry.starting(target.name, target.kind)
    try:
        if starting.trace:
            of = msgspec.structs.replace(of, stored=with_trace(of.stored, starting.trace))
        started = await send(of)
    except BaseException as error:
        starting.failed(error)
        telemetry.tell(
            StartFailed(
                name=target.name,
                kind=target.kind,
                queue=of.queue,
                error=type(error).__name__,
                seconds=time.monotonic() - began,
            )
        )
        raise
    run_ids = tuple(run.id for run in started)
    starting.sent(run_ids)
    telemetry.tell(
        StartSent(
            name=target.name,
            kind=target.kind,
            queue=of.queue,
            run_ids=run_ids,
            created=sum(run.created for run in started),
            seconds=time.monotonic() - began,
        )
    )
    return started


async def reported_send(
    telemetry: Telemetry, signal: NewSignal, send: Callable[[Sequence[NewSignal]], Awaitable[Sequence[Sent]]]
) -> Sent:
    """What became of the signal, which carries the trace that it is sent in."""
    began = time.monotonic()
    sending = telemetry.sending(signal.run_id, signal.channel)
    try:
        signal = msgspec.structs.replace(signal, trace=sending.trace.get(PARENT))
        [sent] = await send([signal])
    except BaseException as error:
        sending.failed(error)
        raise
    sending.sent((signal.run_id,))
    seconds = time.monotonic() - began
    telemetry.tell(SignalSent(run_id=signal.run_id, channel=signal.channel, sent=sent.value, seconds=seconds))
    return sent
