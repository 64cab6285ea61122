"""What a worker hears of the runs it holds: in a beat's reply, and by wake-ups that name it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runnerq.persistence.records import Pulse, Wake
from runnerq.runtime.parts import HeldRun
from runnerq.runtime.timers import Timer, Timers

NUDGE_PAUSE = 0.05
"""Seconds from a wake-up that names this worker to the beat that hears what has come: many make one beat."""


class News:
    """Tells the held runs; ``hurry`` makes the next beat come at once."""

    def __init__(self, worker_id: int, held: Mapping[str, HeldRun], timers: Timers, hurry: Callable[[], None]) -> None:
        self._worker_id = worker_id
        self._held = held
        self._timers = timers
        self._hurry = hurry
        self._nudged: Timer | None = None

    def pulse(self, pulse: Pulse) -> None:
        """A beat was answered."""
        for arrival in pulse.arrivals:
            held = self._held.get(arrival.run_id)
            if held is not None:
                held.hear(arrival)

    def hear(self, wake: Wake) -> None:
        """Something has changed somewhere."""
        if self._worker_id not in wake.workers:
            return
        # Also of an end that was none of this worker's: a run that was terminated.
        for run_id in wake.runs & self._held.keys():
            self._held[run_id].look()
        if self._nudged is None:
            self._nudged = self._timers.call_later(NUDGE_PAUSE, self._nudge)

    def close(self) -> None:
        """Hurry no more."""
        if self._nudged is not None:
            self._nudged.cancel()

    def _nudge(self) -> None:
        self._nudged = None
        self._hurry()
