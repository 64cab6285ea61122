"""The writes about workers, and what keeps runs moving: register, give back, reap, wake what is due, sweep, unblock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from runnerq.persistence.postgres.deletion import Deletion
from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.postgres.texts import plain
from runnerq.persistence.records import (
    CRASH_CAP,
    Changed,
    Definition,
    Reaped,
    Registered,
    Sent,
    Wake,
    WorkerRow,
    named,
)

PARENT_ENDED = "parent ended"
"""The reason of a cancel that a parent's end asks for."""

_TRIES = 20
_PAUSE = 0.05


class Upkeep(Deletion):
    """What workers do for the fleet and for themselves. Whoever is concerned is told after each statement."""

    async def register(self, worker: WorkerRow, definitions: Sequence[Definition]) -> Registered:
        [record] = await self._connections.fetch(
            self._statements["register_worker"],
            worker.id,
            worker.lease,
            plain(worker.host, "the host"),
            worker.pid,
            plain(worker.build, "the build"),
            list(worker.queues),
            list(worker.served),
            worker.slots,
            [definition.kind for definition in definitions],
            [plain(definition.name, "the name") for definition in definitions],
            [definition.version for definition in definitions],
            [definition.queue for definition in definitions],
            [definition.build for definition in definitions],
            [definition.options for definition in definitions],
            [definition.schema for definition in definitions],
            None if worker.library is None else plain(worker.library, "the version"),
        )
        return Registered(now=record["now"], build_seen=record["build_seen"])

    async def release(self, worker_id: int, held: Sequence[int]) -> int:
        records = await self._connections.fetch_upkeep(self._statements["release_runs"], worker_id, list(held))
        self._tell(record["queue"] for record in records)
        await self._tell_freed(records)
        return sum(record["how_many"] for record in records)

    async def give_back(self, worker_id: int) -> int:
        await self._connections.fetch_patient(self._statements["sign_off"], worker_id)
        count = 0
        for _ in range(_TRIES):
            count += await self.release(worker_id, ())
            [held] = await self._connections.fetch_prompt(self._statements["count_held"], worker_id)
            if held["how_many"] == 0:
                break
            # Somebody's transaction holds the others. Their worker has signed off, so a reaper gives back what stays.
            await asyncio.sleep(_PAUSE)
        return count

    async def drain(self, worker_id: int) -> Changed:
        records = await self._connections.fetch(self._statements["drain_worker"], worker_id)
        if not records:
            return Changed.UNKNOWN
        self._changes.tell(Wake(workers=frozenset((worker_id,))))
        return Changed.CHANGED if records[0]["asked"] else Changed.UNCHANGED

    async def wake_due(self, limit: int) -> int:
        began = self._due_floor.begin(time.monotonic())
        records = await self._connections.fetch_upkeep(self._statements["wake_due"], limit, began)
        found = records[0]
        self._due_floor.walked(began, found["last"], found["scanned"], found["dead"], time.monotonic())
        self._tell(record["queue"] for record in records)
        return sum(record["how_many"] or 0 for record in records)

    async def unblock(self, build: str, served: Sequence[str], limit: int) -> int:
        return await self._moved("unblock_runs", build, list(served), limit)

    async def adopt(self, definitions: Sequence[Definition], limit: int) -> int:
        return await self._moved(
            "adopt_runs",
            [definition.kind for definition in definitions],
            [definition.name for definition in definitions],
            [definition.version for definition in definitions],
            limit,
        )

    async def sweep(self, limit: int) -> int:
        records = await self._connections.fetch_upkeep(self._statements["sweep_runs"], limit)
        await self._connections.fetch_upkeep(self._statements["forget_old"])
        self._tell(record["queue"] for record in records)
        left = [record["run_id"] for record in records if record["fault"] == "left"]
        answers = await self.cancel(left, PARENT_ENDED)
        return len(records) - len(left) + answers.count(Sent.SENT)

    async def reap(self, worker_id: int, token: int, limit: int) -> list[Reaped]:
        records = await self._connections.fetch_upkeep(
            self._statements["reap_workers"], worker_id, token, limit, CRASH_CAP
        )
        if records:
            await self._connections.fetch_upkeep(self._statements["forget_workers"])
        await self._end_transactions([record["run_id"] for record in records])
        self._tell(record["ready_queue"] for record in records)
        await self._tell_freed(records)
        return [
            Reaped(
                run_id=record["run_id"],
                name=named(record["served"])[0],
                crashes=record["crashes"],
                token=token if record["held"] else None,
            )
            for record in records
        ]

    async def _moved(self, statement: str, *args: object) -> int:
        """Run a statement that makes runs ready and answers with how many a queue.

        What it skipped, as somebody held it, is tried for a moment more: the end of a child holds its parent for as
        long as a commit takes, and the next look may be a minute away.
        """
        moved = 0
        for _ in range(_TRIES):
            records: Sequence[Record] = await self._connections.fetch_upkeep(self._statements[statement], *args)
            self._tell(record["queue"] for record in records)
            moved += sum(record["how_many"] for record in records)
            if not any(record["skipped"] for record in records):
                break
            await asyncio.sleep(_PAUSE)
        return moved

    def _tell(self, queues: Iterable[str | None]) -> None:
        self._changes.tell(Wake(queues=frozenset(queue for queue in queues if queue is not None)))
