"""What a worker tells a developer beside what it logs and the database keeps: steps that returned, and parks."""

from __future__ import annotations

from runnerq.cli.doctor.finding import span
from runnerq.cli.telling import say
from runnerq.telemetry.events import AttemptEnded, Event, RunParked


class Tells:
    """A listener that says a line an event."""

    def hear(self, event: Event) -> None:
        line = told(event)
        if line is not None:
            say(line)


def told(event: Event) -> str | None:
    """The event in a line; None for what is logged, or is nothing to a developer."""
    match event:
        case AttemptEnded(came="returned", seconds=float(seconds)):
            return f"{event.name} {event.run_id} {event.step} took {_span(seconds)}"
        case RunParked():
            return f"{event.name} {event.run_id} is parked: it waits for {_awaited(event)}"
        case _:
            return None


def _awaited(event: RunParked) -> str:
    parts = [f"signal {channel!r}" for channel in event.channels]
    if event.awaited:
        parts.append("a child" if event.awaited == 1 else f"{event.awaited} children")
    if event.due_in_seconds is not None:
        parts.append(f"{_span(event.due_in_seconds)} to pass")
    return " or ".join(parts) or "its time"


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else span(seconds)
