"""Metrics: what they are called, what they are labelled with, and the protocol of where they go.

Rules
- Labels are few and bounded: names of functions, queues, and words of ours; never a run's id, key or message.
- A name ends in its unit. Where a place for metrics has names of its own kind (``_total``), it adds that itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of what takes milliseconds, as a commit does."""
LONG = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0, 604800.0)
"""Bounds of what may take a week, as a run does."""
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
"""Bounds of how many there are in a batch."""


class Instrument(msgspec.Struct, frozen=True):
    """One metric. ``unit`` is ``s`` for seconds; ``bounds`` are a histogram's."""

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    says: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    bounds: tuple[float, ...] = ()


class Metrics(Protocol):
    """Where metrics go. Called on the event loop of a worker or client: MUST return at once.

    ``name`` is that of one of ``INSTRUMENTS``, and ``labels`` has a value for each of its labels.
    """

    def count(self, name: str, labels: Mapping[str, str], by: float) -> None:
        """Add to a counter. ``by`` may be 0: then the counter is there before there is anything to count."""
        ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Have a histogram count a value."""
        ...

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set what is so now."""
        ...


def _counter(name: str, says: str, *labels: str) -> Instrument:
    return Instrument(name, "counter", says, labels)


def _seconds(name: str, says: str, *labels: str, bounds: tuple[float, ...] = SHORT) -> Instrument:
    return Instrument(name, "histogram", says, labels, "s", bounds)


def _sizes(name: str, says: str) -> Instrument:
    return Instrument(name, "histogram", says, bounds=SIZES)


def _gauge(name: str, says: str, *labels: str, unit: str = "") -> Instrument:
    return Instrument(name, "gauge", says, labels, unit)


INSTRUMENTS: tuple[Instrument, ...] = (
    # by clients
    _counter("runs_started", "Runs that were started: new ones, or found by their key", "name", "queue", "how"),
    _counter("start_failures", "Starts that were refused or got no answer", "name", "queue"),
    _seconds("start_seconds", "How long a start took, of one run or of a commit of many"),
    _counter("signals_sent", "Signals that clients sent, by what became of them", "sent"),
    # by workers, of runs
    _counter("runs_claimed", "Runs that were taken up, again after a park included", "name", "queue"),
    _seconds("run_wait_seconds", "From when a run became ready to when it was taken up", "name", "queue", bounds=LONG),
    _counter("turns", "Turns that have a verdict", "name", "queue", "move"),
    _seconds("turn_lag_seconds", "From a turn's end to its verdict: waiting for a batch, and its commit"),
    _counter("journal_rows", "Rows of journals that were written", "name", "queue"),
    _counter("runs_ended", "Runs that ended", "name", "queue", "status"),
    _seconds("run_seconds", "From a run's creation to its end", "name", "queue", "status", bounds=LONG),
    _counter("runs_blocked", "Runs that could not go on; of the code, or of the worker", "name", "queue", "fault"),
    _counter("runs_crashed", "Runs that were taken from workers that are gone", "name"),
    _seconds("run_held_seconds", "How long a worker had a run", "name", "queue", "left", bounds=LONG),
    # by workers, of attempts
    _counter("attempts", "Attempts of steps and activities, by what came of them", "name", "step", "came"),
    _seconds("attempt_seconds", "How long an attempt took", "name", "step", bounds=LONG),
    _counter("retries", "Attempts that failed and are made again", "name", "step"),
    # by workers, of themselves
    _counter("claims", "Claims that were answered"),
    _seconds("claim_seconds", "How long a claim took"),
    _sizes("claim_runs", "How many runs a claim brought that brought any"),
    _seconds("commit_seconds", "How long a commit of a batch took"),
    _sizes("commit_turns", "How many turns were in a batch"),
    _counter("storage_failures", "What the storage did not answer, or refused", "what"),
    _counter("beats", "Heartbeats that were answered"),
    _seconds("beat_gap_seconds", "From one answered heartbeat to the next", bounds=LONG),
    _counter("leases_lost", "How often a worker fenced itself"),
    _counter("maintained", "What maintenance did, for the whole fleet", "what"),
    # by the workers of a process, together
    _gauge("slots", "How many runs the workers may hold"),
    _gauge("slots_taken", "How many runs they hold"),
    _gauge("attempts_running", "Attempts under way"),
    _gauge("attempts_waiting", "Attempts that wait for a place"),
    _gauge("stuck", "Threads and tasks that do not come back"),
    _gauge("turns_waiting", "Turns that are not written yet"),
    _gauge("parked_in_memory", "Parked runs whose generators the workers keep"),
    _gauge("loop_lag_seconds", "How late an event loop was for a timer; of several, the latest", unit="s"),
    # by each worker, of the fleet: take the largest, not the sum
    _gauge("queue_runs", "Open runs of a queue, as every worker sees them", "queue", "status"),
    _gauge("queue_ready_age_seconds", "How long the run that waits longest has been ready", "queue", unit="s"),
    _gauge("queue_workers", "Living workers that serve a queue", "queue"),
    _gauge("queue_paused", "1 while a queue is paused", "queue"),
)  # fmt: skip
