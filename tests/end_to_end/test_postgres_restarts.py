"""Postgres goes away in the middle of runs, and comes back: results are kept, and written then."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runnerq.persistence.embedded import EmbeddedPostgres
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Claimed, NewRun, Status, Verdict
from runnerq.testing.conformance.world import COMPLETED, Holder, a_holder, a_row, a_run, a_turn, look, rows_of
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.postgres import server_folder
from tests.runtime.stage import Gate, Stage

PATIENCE = 60.0


UNFLUSHED = {"wal_writer_delay": "10s", "bgwriter_delay": "10s", "autovacuum_naptime": "1d"}
"""What nobody waits for is not on disk for a while, as it is by chance everywhere: a crash then takes it back."""


class Server:
    """A server of a test's own, durable as in earnest, that can be stopped, crashed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._postgres = EmbeddedPostgres(folder, settings=UNFLUSHED)
        self.dsn = ""

    async def start(self) -> None:
        self.dsn = await self._postgres.open()

    async def stop(self) -> None:
        """In order: nothing that was committed is lost, what was not is broken off."""
        await self._postgres.close()

    async def crash(self) -> None:
        """At once, as when the machine goes down: what was committed without waiting for the disk may be lost."""
        pid = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        async with asyncio.timeout(PATIENCE):
            while _alive(pid):
                await asyncio.sleep(0.01)
        await self._postgres.close()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@asynccontextmanager
async def a_server() -> AsyncIterator[Server]:
    with server_folder() as folder:
        server = Server(folder)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(dsn)
    await storage.open()
    try:
        yield storage
    finally:
        await storage.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with a_server() as made:
        yield made


async def test_an_answer_that_came_while_postgres_was_down_is_written_when_it_is_back(server: Server) -> None:
    gate = Gate()
    ran: list[str] = []

    @activity
    async def slow() -> str:
        ran.append("slow")
        await gate.pass_through()
        return "kept"

    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        first = yield from ctx.step(slow)
        yield ctx.sleep(0.01)
        return [first, "went on"]

    stage = Stage(PostgresStorage(server.dsn))
    async with stage.base, stage.worker(order, poll_interval=1) as worker:
        run = await stage.client.start(order)
        await gate.somebody()
        under = worker.worker_id
        await server.stop()
        gate.open()
        await server.start()
        assert await run.result(timeout=PATIENCE) == ["kept", "went on"]
        assert worker.worker_id == under, "the outage was shorter than the lease"
        await stage.no_gaps(run.id)
    assert ran == ["slow"]


async def test_crashes_of_postgres_in_the_middle_of_commits_lose_and_repeat_nothing_on_record(server: Server) -> None:
    runs, steps, slots, crashes = 30, 10, 10, 2
    ran: list[tuple[int, int]] = []
    reached = [asyncio.Event() for _ in range(crashes)]

    @activity
    async def work(run: int, step: int) -> int:
        ran.append((run, step))
        for crash in range(crashes):
            if len(ran) >= (crash + 1) * runs * steps // (crashes + 2):
                reached[crash].set()
        return step

    @workflow
    def order(ctx: Context, run: int) -> Flow[int]:
        total = 0
        for step in range(steps):
            total += yield from ctx.step(work, run, step)
        return total

    stage = Stage(PostgresStorage(server.dsn))
    async with stage.base, stage.worker(order, max_workers=slots, poll_interval=1):
        handles = await stage.client.start_many(order, [(number,) for number in range(runs)])
        for event in reached:
            await asyncio.wait_for(event.wait(), PATIENCE)
            await server.crash()
            await server.start()
        for handle in handles:
            assert await handle.result(timeout=PATIENCE) == sum(range(steps))
            await stage.no_gaps(handle.id)
    assert set(ran) == {(run, step) for run in range(runs) for step in range(steps)}
    # Only what was not on record ran again: at most what was under way at a crash, a step a slot.
    assert len(ran) <= runs * steps + crashes * slots


async def test_a_claim_that_a_crash_of_postgres_took_back_lets_its_first_owner_write_nothing(server: Server) -> None:
    # The server may have written a claim to the disk by chance: then it is on record, and shows nothing.
    while (taken_back := await _claim_before_a_crash(server)) is None:
        pass
    run, taken, second = taken_back
    async with opened(server.dsn) as storage:
        stale = a_turn(taken, COMPLETED, rows=(a_row(0),))
        assert await storage.commit([stale]) == [Verdict.LOST]
        second.storage = storage
        mine = await second.take(run)
        assert mine.token != taken.token
        assert await storage.commit([stale]) == [Verdict.LOST]
        assert await rows_of(storage, run.id) == []
        assert await second.commit(mine, COMPLETED) is Verdict.DONE


async def _claim_before_a_crash(server: Server) -> tuple[NewRun, Claimed, Holder] | None:
    """A run, its claim that the crash has taken back, and another worker; None if the claim is there still."""
    async with opened(server.dsn) as storage:
        run = a_run()
        await storage.start([run])
        first, second = await a_holder(storage), await a_holder(storage)
        taken = await first.take(run)
        await server.crash()
        await server.start()
    async with opened(server.dsn) as storage:
        taken_back = (await look(storage, run.id)).status is Status.PENDING
    return (run, taken, second) if taken_back else None
