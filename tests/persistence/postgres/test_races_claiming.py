"""What comes for a run between the claim of it and the read of what it has on record."""

from __future__ import annotations

import asyncio

import pytest

from runnerq.ids import new_token
from runnerq.persistence.records import Claim
from runnerq.testing.conformance.world import Holder, a_holder, a_row, a_run, a_signal
from runnerq.workflow.journal import Row
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import unsent
from tests.persistence.postgres.races import FOR_GO, a_request

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS: tuple[Row, ...] = (a_row(0),)


async def test_a_signal_is_in_the_mail_and_counted(world: PostgresWorld) -> None:
    holder, run_id = await _woken(world)
    async with unsent(world, "read_claimed") as (writes, read):
        claiming = asyncio.create_task(writes.claim(a_request(holder)))
        await _soon(read.come)
        await world.storage.send([a_signal(run_id, "more")])
        read.opened.set()
        [run] = (await claiming).runs
    assert [mail.channel for mail in run.signals] == ["go", "more"]
    assert run.seen == 2
    assert run.rows == ROWS


async def test_a_cancel_is_heard(world: PostgresWorld) -> None:
    holder, run_id = await _woken(world)
    async with unsent(world, "read_claimed") as (writes, read):
        claiming = asyncio.create_task(writes.claim(a_request(holder)))
        await _soon(read.come)
        await world.storage.cancel([run_id], "why")
        read.opened.set()
        [run] = (await claiming).runs
    assert run.cancel == "why"
    assert run.seen == 2


async def test_a_run_that_is_ended_is_left_out(world: PostgresWorld) -> None:
    holder, run_id = await _woken(world)
    async with unsent(world, "read_claimed") as (writes, read):
        claiming = asyncio.create_task(writes.claim(a_request(holder)))
        await _soon(read.come)
        await world.storage.terminate([run_id])
        read.opened.set()
        assert (await claiming).runs == ()


async def test_a_run_that_another_worker_has_by_now_is_left_out_and_a_fresh_one_beside_it_is_not(
    world: PostgresWorld,
) -> None:
    other = await a_holder(world.storage)
    holder, run_id = await _woken(world, lease=1)
    fresh = a_run()
    await world.storage.start([fresh])
    async with unsent(world, "read_claimed") as (writes, read):
        claiming: asyncio.Task[Claim] = asyncio.create_task(writes.claim(a_request(holder)))
        await _soon(read.come)
        await world.advance(2)
        await world.storage.reap(other.id, new_token(), 10)
        taken = await world.storage.claim(a_request(other, 1))
        read.opened.set()
        late = await claiming
    assert [run.id for run in taken.runs] == [run_id]
    assert [run.id for run in late.runs] == [fresh.id]


async def _woken(world: PostgresWorld, lease: float = 60) -> tuple[Holder, str]:
    """A run that was parked with a row in its journal, and woken by a signal."""
    holder = await a_holder(world.storage, lease=lease)
    run = await holder.start(a_run())
    await holder.commit(run, FOR_GO, rows=ROWS)
    await world.storage.send([a_signal(run.id)])
    return holder, run.id


async def _soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        await event.wait()
