"""How a worker id is signed on with, and signed off."""

from __future__ import annotations

from runnerq.errors import StorageError
from runnerq.persistence.protocol import Runs
from runnerq.persistence.records import WorkerRow
from runnerq.runtime.builds import version
from runnerq.runtime.callbacks import log
from runnerq.runtime.settings import Settings


def row_of(worker_id: int, settings: Settings) -> WorkerRow:
    """What the storage is told of a worker of these settings."""
    return WorkerRow(
        id=worker_id,
        lease=settings.lease,
        host=settings.host,
        pid=settings.pid,
        build=settings.build,
        queues=settings.queues,
        served=settings.served,
        slots=settings.max_workers,
        library=version(),
    )


async def sign_off(storage: Runs, worker_id: int) -> None:
    """Give back what is left under this id, and end it."""
    try:
        back = await storage.give_back(worker_id)
    except StorageError as error:
        log.warning("worker %d could not sign off; its runs go on when its lease ends: %s", worker_id, error)
    else:
        if back:
            log.warning("worker %d gave back %d runs that had not come to rest", worker_id, back)
