"""From events to metrics: the one place that says which event changes which of ``INSTRUMENTS``.

Rules
- A label of a metric has at most ``MOST_VALUES`` values; what comes beyond is put as ``other``. So a caller who makes
  up names, or a queue for every customer, fills no memory, and takes no other metric its values.
- What never began was no attempt, and took no time.
- Counters of what is to wake somebody begin at 0, for each name and queue of a worker: of one that first shows as 1,
  Prometheus says that it has not increased.
- The workers of a process may share a place for metrics, and its gauges know no worker: they are of all of them
  together, the latest of the event loops. A worker that has left has nothing in hand.
- A gauge of a queue that is no longer there is set to 0, and so are all queues' where the last worker has left: nobody
  reads them any more. One that was fenced has not: it goes on under a new id.
- Where there are too many queues, those with the most open runs come first, and the rest have no gauges: others that
  overwrite each other would say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runnerq.telemetry.events import (
    AttemptEnded,
    AttemptRetried,
    BatchCommitted,
    Beat,
    ClaimAnswered,
    Event,
    LeaseLost,
    Maintained,
    QueueReading,
    QueuesRead,
    RunBlocked,
    RunClaimed,
    RunEnded,
    RunReaped,
    RunReleased,
    SignalSent,
    StartFailed,
    StartSent,
    StorageFailed,
    TurnCommitted,
    WorkerJoined,
    WorkerLeft,
    WorkerRead,
)
from runnerq.telemetry.listeners import Listener
from runnerq.telemetry.metrics import INSTRUMENTS, Metrics

MOST_VALUES = 200
OTHER = "other"
_DEPTHS = ("ready", "delayed", "running", "waiting", "blocked")


def measured_by(metrics: Metrics | None) -> tuple[Listener, ...]:
    """What keeps these metrics: they themselves, where they can hear, and so count once though given twice."""
    if metrics is None:
        return ()
    return (metrics,) if isinstance(metrics, Listener) else (Measuring(metrics),)


class Measuring:
    """A listener that keeps metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._seen: Mapping[str, tuple[tuple[str, set[str]], ...]] = {
            instrument.name: tuple((label, set()) for label in instrument.labels) for instrument in INSTRUMENTS
        }
        self._shown: set[str] = set()
        self._in_hand: dict[int, WorkerRead] = {}

    def __repr__(self) -> str:
        # What a log says that is at fault is where the metrics go.
        return repr(self._metrics)

    def hear(self, event: Event) -> None:
        match event:
            case StartSent(name=name, queue=queue):
                self._count("runs_started", event.created, name, queue, "created")
                self._count("runs_started", len(event.run_ids) - event.created, name, queue, "existing")
                self._observe("start_seconds", event.seconds)
            case StartFailed():
                self._count("start_failures", 1, event.name, event.queue)
            case SignalSent():
                self._count("signals_sent", 1, event.sent)
            case RunClaimed():
                self._count("runs_claimed", 1, event.name, event.queue)
                self._observe("run_wait_seconds", event.wait_seconds, event.name, event.queue)
            case TurnCommitted():
                self._count("turns", 1, event.name, event.queue, event.move)
                self._count("journal_rows", event.rows, event.name, event.queue)
                self._observe("turn_lag_seconds", event.lag_seconds)
            case RunEnded(name=name, queue=queue, status=status):
                self._count("runs_ended", 1, name, queue, status)
                self._observe("run_seconds", event.age_seconds, name, queue, status)
            case RunBlocked():
                self._count("runs_blocked", 1, event.name, event.queue, "worker" if event.by_worker else "code")
            case RunReaped():
                self._count("runs_crashed", 1, event.name)
            case RunReleased():
                self._observe("run_held_seconds", event.held_seconds, event.name, event.queue, event.left)
            case AttemptEnded(seconds=float(seconds)):
                self._count("attempts", 1, event.name, event.step, event.came)
                self._observe("attempt_seconds", seconds, event.name, event.step)
            case AttemptRetried():
                self._count("retries", 1, event.name, event.step)
            case _:
                self._of_the_worker(event)

    def _of_the_worker(self, event: Event) -> None:
        match event:
            case ClaimAnswered():
                self._count("claims", 1)
                self._observe("claim_seconds", event.seconds)
                if event.claimed:
                    self._observe("claim_runs", event.claimed)
            case BatchCommitted():
                self._observe("commit_seconds", event.seconds)
                self._observe("commit_turns", event.turns)
            case StorageFailed():
                self._count("storage_failures", 1, event.what)
            case Beat():
                self._count("beats", 1)
                self._observe("beat_gap_seconds", event.gap_seconds)
            case LeaseLost():
                self._count("leases_lost", 1)
            case Maintained():
                self._count("maintained", event.count, event.what)
            case WorkerJoined():
                self._begin(event)
            case WorkerRead():
                self._in_hand[event.worker_id] = event
                self._of_workers()
            case WorkerLeft():
                self._in_hand.pop(event.worker_id, None)
                self._of_workers()
                if not self._in_hand and event.how != "fenced":
                    self._of_queues({})
            case QueuesRead(queues_read=queues):
                self._of_queues({reading.queue: reading for reading in queues})
            case _:
                pass  # told to others: it changes no metric

    def _begin(self, joined: WorkerJoined) -> None:
        for name in joined.names:
            self._count("runs_crashed", 0, name)
            for queue in joined.queues:
                for status in ("failed", "dead_letter"):
                    self._count("runs_ended", 0, name, queue, status)
                for fault in ("code", "worker"):
                    self._count("runs_blocked", 0, name, queue, fault)

    def _of_workers(self) -> None:
        # A copy: a worker may be on an event loop of another thread.
        readings = tuple(self._in_hand.values())
        self._gauge("slots", sum(each.slots for each in readings))
        self._gauge("slots_taken", sum(each.slots_taken for each in readings))
        self._gauge("attempts_running", sum(each.attempts_running for each in readings))
        self._gauge("attempts_waiting", sum(each.attempts_waiting for each in readings))
        self._gauge("stuck", sum(each.stuck for each in readings))
        self._gauge("turns_waiting", sum(each.waiting_turns for each in readings))
        self._gauge("parked_in_memory", sum(each.parked_in_memory for each in readings))
        self._gauge("loop_lag_seconds", max((each.loop_lag_seconds for each in readings), default=0.0))

    def _of_queues(self, readings: Mapping[str, QueueReading]) -> None:
        gone = [_nothing(queue) for queue in self._shown - readings.keys()]
        for reading in sorted([*readings.values(), *gone], key=_open, reverse=True):
            for status, depth in _depths(reading):
                self._gauge("queue_runs", depth, reading.queue, status)
            self._gauge("queue_ready_age_seconds", reading.ready_age_seconds, reading.queue)
            self._gauge("queue_workers", reading.workers, reading.queue)
            self._gauge("queue_paused", float(reading.paused), reading.queue)
        self._shown = set(readings)

    # --- to the metrics -----------------------------------------------------------------------------------------------

    def _count(self, name: str, by: float, *values: str) -> None:
        self._metrics.count(name, self._labels(name, values), by)

    def _observe(self, name: str, value: float, *values: str) -> None:
        self._metrics.observe(name, self._labels(name, values), value)

    def _gauge(self, name: str, value: float, *values: str) -> None:
        labels = self._labels(name, values)
        if OTHER not in labels.values():
            self._metrics.gauge(name, labels, value)

    def _labels(self, name: str, values: tuple[str, ...]) -> dict[str, str]:
        return {label: _bounded(seen, value) for (label, seen), value in zip(self._seen[name], values, strict=True)}


def _bounded(seen: set[str], value: str) -> str:
    if value not in seen:
        if len(seen) >= MOST_VALUES:
            return OTHER
        seen.add(value)
    return value


def _depths(reading: QueueReading) -> Iterator[tuple[str, int]]:
    return ((status, getattr(reading, status)) for status in _DEPTHS)


def _open(reading: QueueReading) -> int:
    return sum(depth for _, depth in _depths(reading))


def _nothing(queue: str) -> QueueReading:
    return QueueReading(
        queue=queue, ready=0, delayed=0, running=0, waiting=0, blocked=0, workers=0, paused=False, ready_age_seconds=0.0
    )
