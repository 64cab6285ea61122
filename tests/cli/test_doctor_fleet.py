"""``runnerq doctor``, of who works and what waits: each fault is made, and found."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from runnerq.cli.doctor import fleet
from runnerq.client.client import Client
from runnerq.client.schedule import Schedule
from runnerq.clock import ManualClock
from runnerq.ids import new_token
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Definition, Load, ScheduleRow, WorkerRow
from runnerq.runtime.builds import version
from runnerq.runtime.worker import Worker
from tests.cli.flows import greeting
from tests.console.shop import mistaken


async def registered(storage: Any, **changed: Any) -> WorkerRow:
    row = WorkerRow(
        id=new_token(), lease=60.0, host="web-1", pid=1, build="b", queues=("default",), served=("greeting@1",),
        slots=2, library=version(),
    )  # fmt: skip
    row = msgspec.structs.replace(row, **changed)
    await storage.register(row, [])
    return row


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


class TestFleet:
    @pytest.mark.parametrize(
        ("library", "told"), [("0.0.1", "an older runnerq"), (None, "an older runnerq"), ("99.0", "another runnerq")]
    )
    async def test_a_worker_of_another_version_is_named(
        self, storage: MemoryStorage, library: str | None, told: str
    ) -> None:
        await registered(storage)
        assert (await fleet.versions(storage)).level == "ok"
        other = await registered(storage, library=library)
        found = await fleet.versions(storage)
        assert (found.level, told in found.found, str(other.id) in found.details[0]) == ("warn", True, True)
        await storage.give_back(other.id)
        assert (await fleet.versions(storage)).level == "ok"

    async def test_ready_runs_that_no_living_worker_serves_are_an_error(self, storage: MemoryStorage) -> None:
        client = Client(storage)
        await client.options(queue="slow").start(greeting, "Ada")
        await client.options(delay=3600, queue="later").start(greeting, "Ada")
        found = await fleet.queues(storage)
        assert (found.level, found.details) == ("error", ("1 run of greeting@1 on queue slow",))
        worker = await registered(storage, queues=("slow",))
        assert (await fleet.queues(storage)).level == "ok"
        await storage.drain(worker.id)
        assert (await fleet.queues(storage)).details == found.details
        assert "1 asked to stop" in (await fleet.workers(storage)).found
        elsewhere = await registered(storage)
        assert (await fleet.queues(storage)).level == "error"
        await registered(storage, queues=("slow",))
        assert (await fleet.queues(storage)).level == "ok"
        await storage.pause("slow")
        assert (await fleet.queues(storage)).level == "warn"
        await storage.give_back(elsewhere.id)

    async def test_a_blocked_run_is_an_error(self, storage: MemoryStorage) -> None:
        assert (await fleet.blocked(storage)).level == "ok"
        async with Client(storage) as client, Worker(client, workflows=[mistaken], build="b") as worker:
            await client.start(mistaken)
            await worker.idle()
        found = await fleet.blocked(storage)
        assert (found.level, found.details) == ("error", ("1 of mistaken",))

    async def test_threads_that_do_not_come_back_are_told(self, storage: MemoryStorage) -> None:
        row = await registered(storage)
        await storage.heart().beat(row.id, Load(held=1, stuck=2), ())
        found = await fleet.workers(storage)
        assert (found.level, "2 threads or tasks" in found.details[0]) == ("warn", True)

    async def test_one_that_has_missed_several_beats_is_silent_and_serves_nothing(self) -> None:
        clock = ManualClock()
        storage = MemoryStorage(clock)
        row = await registered(storage)
        await Client(storage).start(greeting, "Ada")
        clock.advance(12)
        found = await fleet.workers(storage)
        told = f"worker {row.id} (host web-1, pid 1) is silent for 12 s; its runs are not taken from it yet"
        assert (found.level, found.found, found.details) == ("warn", "none lives; 1 silent", (told,))
        assert (await fleet.queues(storage)).level == "error"

    async def test_schedules_of_unknown_names_and_late_ones_are_told(self, storage: MemoryStorage) -> None:
        assert (await fleet.schedules(storage)).level == "ok"
        async with Client(storage) as client:
            await client.schedules.put(Schedule("nightly", "nobody_knows", every=3600))
        found = await fleet.schedules(storage)
        assert found.details == ("'nightly' starts 'nobody_knows', which no worker ever registered",)
        since = await storage.now() - timedelta(hours=3)
        row = ScheduleRow(name="late", workflow="greeting", input="[]", every=60.0)
        await storage.put_schedule(row, None, since, since + timedelta(hours=1))
        await storage.register(
            WorkerRow(id=new_token(), lease=60.0, host="h", pid=1, build="b", queues=("q",), served=()),
            [Definition(kind="workflow", name="greeting", version=1, queue="q", build="b")],
        )
        [late, _] = (await fleet.schedules(storage)).details
        assert late.startswith("'late' was due 2.0 h ago")
        await storage.pause_schedule("late")
        assert len((await fleet.schedules(storage)).details) == 1


async def test_a_worker_tells_with_its_beats_how_far_its_clock_is_off(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fast(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=2)

    monkeypatch.setattr("runnerq.persistence.postgres.heart.datetime", Fast)
    storage = PostgresStorage(dsn)
    await storage.open()
    heart = storage.heart()
    row = await registered(storage)
    try:
        await heart.open()
        await heart.beat(row.id, Load(), ())
        found = await fleet.workers(storage)
        assert "the clock of web-1 is 2.0 h ahead of the database's" in found.details, found
    finally:
        await heart.close()
        await storage.give_back(row.id)
        await storage.close()
