"""Who works, on what, under which limits: read for many answers, and so kept for two seconds."""

from __future__ import annotations

import msgspec

from runnerq.console.models.context import Context
from runnerq.persistence.records import LimitRecord, QueueRecord, RunRecord, Stats, WorkerRecord, served_name


class Fleet(msgspec.Struct, frozen=True):
    """The workers, those that live first; the queues and the limits, by name."""

    workers: tuple[WorkerRecord, ...]
    queues: tuple[QueueRecord, ...]
    limits: tuple[LimitRecord, ...]

    def queue(self, name: str) -> QueueRecord | None:
        return next((queue for queue in self.queues if queue.name == name), None)

    def serving(self, served: str, queue: str | None = None) -> list[WorkerRecord]:
        """The living workers that claim by this name, of this queue or of any."""
        return [
            worker
            for worker in self.workers
            if worker.alive and served in worker.served and (queue is None or queue in worker.queues)
        ]


async def fleet(context: Context) -> Fleet:
    """All three."""
    storage = context.client.storage

    async def ask() -> Fleet:
        return Fleet(tuple(await storage.workers()), tuple(await storage.queues()), tuple(await storage.limits()))

    return await context.cache.get("fleet", ask)


async def stats(context: Context) -> Stats:
    """What is open, asked once in two seconds."""
    return await context.cache.get("stats", context.client.storage.stats)


def obstacle(fleet: Fleet, record: RunRecord) -> str | None:
    """Why a run that is ready is not taken up, in words; None if it is to be any moment."""
    if record.kind == "workflow" and not record.version:
        return f"no worker has registered {record.name!r} so far"
    queue = fleet.queue(record.queue)
    if queue is not None and queue.paused_at is not None:
        return f"queue {record.queue!r} is paused"
    served = served_name(record.kind, record.name, record.version)
    serving = fleet.serving(served, record.queue)
    if not serving:
        elsewhere = sorted({queue for worker in fleet.serving(served) for queue in worker.queues})
        rest = f"; those that serve it work on {', '.join(map(repr, elsewhere))}" if elsewhere else ""
        return f"no living worker serves {served!r} on queue {record.queue!r}{rest}"
    held = _held_back(fleet, record)
    if held is not None:
        return held
    slots = sum(worker.slots for worker in serving)
    if sum(worker.load.held for worker in serving) < slots:
        return None
    who = "the worker that serves it has" if len(serving) == 1 else f"the {len(serving)} workers that serve it have"
    return f"{who} no free slot: {slots:,} of {slots:,} are taken"


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
