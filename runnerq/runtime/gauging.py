"""Reads, for whoever listens, what a worker has in hand and how the fleet's queues stand: one loop a worker.

Rules
- Each worker reads the queues, as it cannot know whether another one has a listener. What that costs the database is
  bounded for the whole fleet: the workers together read for no more than ``SHARE`` of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from runnerq.errors import StorageUnavailable
from runnerq.persistence.protocol import Reads
from runnerq.persistence.records import QueueRecord
from runnerq.runtime.callbacks import jittered, log
from runnerq.runtime.reporter import Reporter
from runnerq.runtime.timers import Timers, pause
from runnerq.telemetry.events import QueueReading, QueuesRead, WorkerRead

INTERVAL = 15.0
SHARE = 0.05


class Gauging:
    """Of one worker. ``read`` says what it has in hand, given how late the event loop was for the last timer."""

    def __init__(
        self, storage: Reads, *, reporter: Reporter, read: Callable[[float], WorkerRead], timers: Timers
    ) -> None:
        self._storage = storage
        self._reporter = reporter
        self._read = read
        self._timers = timers

    async def run(self) -> None:
        late = 0.0
        while True:
            self._reporter.tell(self._read(late))
            wait = jittered(max(INTERVAL, await self._queues() / SHARE))
            due_at = self._timers.time() + wait
            await pause(self._timers, wait)
            late = max(0.0, self._timers.time() - due_at)

    async def _queues(self) -> float:
        """Read the queues; how many seconds of reading that is, if all workers do the same."""
        began = self._timers.time()
        try:
            queues, now = await self._storage.queues(), await self._storage.now()
        except StorageUnavailable as error:
            log.debug("the queues cannot be read for gauges: %s", error)
            return 0.0
        except Exception as error:  # noqa: BLE001 - runs go on without gauges, whatever it is
            log.error("reading the queues for gauges failed: %r", error, exc_info=error)
            return 0.0
        seconds = self._timers.time() - began
        readings = tuple(_reading(record, now) for record in queues)
        capped = any(record.capped for record in queues)
        self._reporter.tell(
            QueuesRead(worker_id=self._reporter.worker_id, queues_read=readings, capped=capped, seconds=seconds)
        )
        return seconds * max((record.workers for record in queues), default=1)


def _reading(record: QueueRecord, now: datetime) -> QueueReading:
    since = record.oldest_ready_at
    return QueueReading(
        queue=record.name,
        ready=record.ready,
        delayed=record.delayed,
        running=record.running,
        waiting=record.waiting,
        blocked=record.blocked,
        workers=record.workers,
        paused=record.paused_at is not None,
        ready_age_seconds=0.0 if since is None else max(0.0, (now - since).total_seconds()),
    )
