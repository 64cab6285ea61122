"""Who works, on what, under which limits: read for many answers, and so kept for two seconds."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from runnerq.console.models.context import Context
from runnerq.persistence.records import LimitRecord, QueueRecord, RunRecord, Stats, WorkerRecord, served_name

HeldBy: TypeAlias = Literal["worker", "pause", "limit", "slots"]
"""What is missing, or in the way: a worker, the end of a pause, a place under a limit, a slot."""


class Obstacle(msgspec.Struct, frozen=True):
    """Why a run that is ready is not taken up, in words as well."""

    held_by: HeldBy
    text: str


class HeldOn(msgspec.Struct, frozen=True, kw_only=True):
    """The worker that has a run which is running. ``host`` and ``pid`` are None where it is not on record; with
    ``silent_for`` it was not heard of for so many seconds, and its runs were not taken from it yet."""

    id: str
    host: str | None
    pid: int | None
    silent_for: float | None

    @property
    def words(self) -> str:
        """Where it is, and that it is silent."""
        where = f"worker {self.id}" if self.host is None else f"{self.host}, process {self.pid}"
        return where if self.silent_for is None else f"{where}, silent for {silence_words(self.silent_for)}"


class Fleet(msgspec.Struct, frozen=True):
    """The workers at ``at``, those that live first; the queues and the limits, by name."""

    at: datetime

    workers: tuple[WorkerRecord, ...]
    queues: tuple[QueueRecord, ...]
    limits: tuple[LimitRecord, ...]

    def queue(self, name: str) -> QueueRecord | None:
        return next((queue for queue in self.queues if queue.name == name), None)

    def held_on(self, worker_id: int) -> HeldOn:
        """The worker of this id, as a run that it has shows it."""
        worker = next((worker for worker in self.workers if worker.id == worker_id), None)
        if worker is None:
            return HeldOn(id=str(worker_id), host=None, pid=None, silent_for=None)
        return HeldOn(id=str(worker.id), host=worker.host, pid=worker.pid, silent_for=worker.silent_for(self.at))

    def serving(self, served: str, queue: str | None = None) -> list[WorkerRecord]:
        """The workers that take up runs by this name, of this queue or of any: one that is asked to stop does not."""
        return [worker for worker in self.workers if worker.claims and _serves(worker, served, queue)]

    def working_on(self, queue: str) -> list[WorkerRecord]:
        """The workers that take up runs of this queue, by whatever name."""
        return [worker for worker in self.workers if worker.claims and queue in worker.queues]

    def stopping(self, queue: str, served: str | None = None) -> list[WorkerRecord]:
        """The workers of this queue, by this name or by any, that live and are asked to stop."""
        return [
            worker
            for worker in self.workers
            if worker.alive and not worker.claims and queue in worker.queues and served in (None, *worker.served)
        ]

    def silence(self, served: str, queue: str) -> str | None:
        """What there is to say of workers that claim by this name of this queue, and are silent."""
        spans = [
            span
            for worker in self.workers
            if _serves(worker, served, queue) and (span := worker.silent_for(self.at)) is not None
        ]
        if not spans:
            return None
        who = "the one that does has" if len(spans) == 1 else f"the {len(spans)} that do have"
        return f"{who} been silent for {silence_words(min(spans))}"


def worker_words(worker: WorkerRecord) -> str:
    """Where a worker is."""
    return f"{worker.host}, process {worker.pid}"


def silence_words(seconds: float) -> str:
    """How long a worker has not been heard of."""
    return f"{seconds:,.0f} s"


def stopping_words(count: int, what: str) -> str:
    """That those are asked to stop who would serve it."""
    if count == 1:
        return f"the worker that serves {what} is asked to stop, and takes up nothing new"
    return f"the {count:,} workers that serve {what} are asked to stop, and take up nothing new"


def _serves(worker: WorkerRecord, served: str, queue: str | None) -> bool:
    return served in worker.served and (queue is None or queue in worker.queues)


async def fleet(context: Context) -> Fleet:
    """All three."""
    storage = context.client.storage

    async def ask() -> Fleet:
        workers, at = tuple(await storage.workers()), await storage.now()
        return Fleet(at, workers, tuple(await storage.queues()), tuple(await storage.limits()))

    return await context.cache.get("fleet", ask)


async def stats(context: Context) -> Stats:
    """What is open, asked once in two seconds."""
    return await context.cache.get("stats", context.client.storage.stats)


def obstacle(fleet: Fleet, record: RunRecord) -> Obstacle | None:
    """Why a run that is ready is not taken up; None if it is to be any moment."""
    if record.kind == "workflow" and not record.version:
        return Obstacle("worker", f"no worker has registered {record.name!r} so far")
    queue = fleet.queue(record.queue)
    if queue is not None and queue.paused_at is not None:
        return Obstacle("pause", f"queue {record.queue!r} is paused")
    served = served_name(record.kind, record.name, record.version)
    serving = fleet.serving(served, record.queue)
    if not serving:
        return Obstacle("worker", _unserved(fleet, served, record.queue))
    held = _held_back(fleet, record)
    if held is not None:
        return Obstacle("limit", held)
    slots = sum(worker.slots for worker in serving)
    if sum(worker.load.held for worker in serving) < slots:
        return None
    who = "the worker that serves it has" if len(serving) == 1 else f"the {len(serving)} workers that serve it have"
    return Obstacle("slots", f"{who} no free slot: {slots:,} of {slots:,} are taken")


def _unserved(fleet: Fleet, served: str, queue: str) -> str:
    if stopping := fleet.stopping(queue, served):
        return stopping_words(len(stopping), f"{served!r} on queue {queue!r}")
    told = f"no living worker serves {served!r} on queue {queue!r}"
    if silence := fleet.silence(served, queue):
        return f"{told}: {silence}"
    elsewhere = sorted({queue for worker in fleet.serving(served) for queue in worker.queues})
    return f"{told}; those that serve it work on {', '.join(map(repr, elsewhere))}" if elsewhere else told


def _held_back(fleet: Fleet, record: RunRecord) -> str | None:
    if record.limit is None or record.cancel_requested:  # a cancel needs no place
        return None
    scope = record.limit.scope
    found = next((limit for limit in fleet.limits if limit.rule.scope == scope), None)
    if found is None or not found.waiting:
        return None
    return f"limit {scope!r} lets no more of them run now: {limit_words(found)}"


def limit_words(limit: LimitRecord) -> str:
    """A rule in words."""
    rule = limit.rule
    parts = []
    if rule.concurrency is not None:
        parts.append(f"{rule.concurrency:,} at once" if rule.concurrency else "none at all")
    if rule.rate is not None and rule.per is not None:
        parts.append(f"{rule.rate:,} in {rule.per:g} s")
    return " and ".join(parts) + (", of each key" if rule.per_key else "")
