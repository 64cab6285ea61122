"""What a worker has in hand: told to the storage with each beat, and to whoever listens."""

from __future__ import annotations

from collections.abc import Sized

from runnerq.persistence.records import Load
from runnerq.runtime.attempts import Attempts
from runnerq.runtime.writer import Writer
from runnerq.telemetry.events import WorkerRead


class InHand:
    """Of one worker id: its held runs, its attempts, its turns, its parked generators."""

    def __init__(
        self, worker_id: int, slots: int, held: Sized, attempts: tuple[Attempts, ...], writer: Writer, parked: Sized
    ) -> None:
        self._worker_id = worker_id
        self._slots = slots
        self._held = held
        self._attempts = attempts
        self._writer = writer
        self._parked = parked

    def load(self) -> Load:
        """For a beat; called in the heart's thread."""
        each = [attempts.stats for attempts in self._attempts]
        return Load(
            held=len(self._held),
            running=sum(stats.running for stats in each),
            stuck=sum(stats.stuck for stats in each),
            late=sum(stats.late for stats in each),
        )

    def read(self, late: float) -> WorkerRead:
        """For listeners; the event loop was so late for a timer."""
        load = self.load()
        return WorkerRead(
            worker_id=self._worker_id,
            slots=self._slots,
            slots_taken=load.held,
            attempts_running=load.running,
            attempts_waiting=sum(attempts.stats.waiting for attempts in self._attempts),
            stuck=load.stuck,
            waiting_turns=self._writer.stats.waiting,
            parked_in_memory=len(self._parked),
            loop_lag_seconds=late,
        )
