"""Workers as they are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from runnerq.client.values import worker_of
from runnerq.console.models.context import Context, bounded
from runnerq.errors import RunnerQError
from runnerq.persistence.records import WorkerRecord

WorkerState: TypeAlias = Literal["alive", "silent", "left", "gone"]


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, as ``WorkerInfo`` has it. ``id`` is text, since it has more digits than a browser's numbers.
    ``beat_age`` is seconds since its last beat. ``silent``: it has missed several beats, and its runs were not taken
    from it yet; ``left``: it signed off; ``gone``: it did not, and its runs were taken from it.
    """

    id: str
    host: str
    pid: int
    build: str
    state: WorkerState
    queues: tuple[str, ...]
    serves: tuple[str, ...]
    slots: int
    held: int
    running: int
    stuck: int
    late: int
    library: str | None
    clock_off: float | None
    drain_at: datetime | None
    lease: float
    registered_at: datetime
    beat_at: datetime
    beat_age: float
    left_at: datetime | None
    reaped_at: datetime | None


class WorkerNotFound(RunnerQError):
    """No worker on record has this id."""

    __match_args__ = ("worker_id",)

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        super().__init__(f"there is no worker {worker_id!r}: those that ended are on record for a day")


@bounded
async def workers(context: Context) -> tuple[WorkerView, ...]:
    """Those that live first."""
    now = await context.now()
    return tuple(_view(each, now) for each in await context.client.storage.workers())


@bounded
async def worker(context: Context, worker_id: str) -> WorkerView:
    """One. Raises WorkerNotFound."""
    found = next((each for each in await context.client.storage.workers() if str(each.id) == worker_id), None)
    if found is None:
        raise WorkerNotFound(worker_id)
    return _view(found, await context.now())


def _state(record: WorkerRecord) -> WorkerState:
    if record.alive:
        return "alive"
    if record.reaped_at is None:
        return "silent"
    return "left" if record.left_at is not None else "gone"


def _view(record: WorkerRecord, now: datetime) -> WorkerView:
    told = msgspec.structs.asdict(worker_of(record))
    del told["alive"]  # the state says it
    beat_age = max(0.0, (now - record.beat_at).total_seconds())
    return WorkerView(**{**told, "id": str(record.id), "state": _state(record), "beat_age": beat_age})
