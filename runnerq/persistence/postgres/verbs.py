"""What a person asks of one run or one queue."""

from __future__ import annotations

from datetime import datetime

from runnerq.persistence.postgres.runs import RunWrites
from runnerq.persistence.postgres.starts import wake_of
from runnerq.persistence.postgres.texts import plain
from runnerq.persistence.records import Changed, Wake


class Verbs(RunWrites):
    """Writes of clients."""

    async def run_now(self, run_id: str) -> Changed:
        return await self._change("run_now", run_id)

    async def reschedule(self, run_id: str, at: datetime) -> Changed:
        return await self._change("reschedule_run", run_id, at)

    async def set_priority(self, run_id: str, priority: int) -> Changed:
        return await self._change("prioritize_run", run_id, priority)

    async def pause(self, queue: str) -> bool:
        return bool(await self._connections.fetch(self._statements["pause_queue"], plain(queue, "the queue")))

    async def resume(self, queue: str) -> bool:
        resumed = await self._connections.fetch(self._statements["resume_queue"], plain(queue, "the queue"))
        self._changes.tell(Wake(queues=frozenset((queue,) if resumed else ())))
        return bool(resumed)

    async def _change(self, statement: str, run_id: str, *args: object) -> Changed:
        """What the statement answers; asked again while the run is worked on between its snapshot and its lock."""
        while True:
            [record] = await self._connections.fetch_patient(self._statements[statement], run_id, *args)
            if record["changed"] != "again":
                break
        if record["changed"] == Changed.CHANGED:
            self._changes.tell(wake_of([record], ("queue",), (), (run_id,)))
        return Changed(record["changed"])
