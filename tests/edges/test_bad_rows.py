"""Rows that cannot be read, beside rows that can: each stops itself alone."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.client.schedule import Schedule
from runnerq.errors import DecodingError
from runnerq.ids import new_run_id, new_token
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import ClaimRequest, End, NewRun, NewSignal, RunFilter, Status, WorkerRow
from runnerq.runtime.worker import Worker
from runnerq.testing.conformance.world import AT, a_holder
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from runnerq.workflow.journal import Row
from tests.postgres import execute
from tests.runtime.stage import SOON, Stage

NUMBERS: Signal[int] = Signal("numbers", int)

LEFT, BLOCKED = Status.PENDING, Status.BLOCKED

BAD: dict[str, tuple[dict[str, Any], Status]] = {
    "input of another shape": ({"input": '{"args":["not a number"]}'}, BLOCKED),
    "input that is no call": ({"input": "7"}, BLOCKED),
    "input nested too deep": ({"input": '{"args":[' + "[" * 600 + "]" * 600 + "]}"}, BLOCKED),
    "options that are none": ({"options": '"none"'}, BLOCKED),
    "a timeout that is none": ({"options": '{"timeout":"soon"}'}, BLOCKED),
    "metadata that is none": ({"metadata": "[1]"}, BLOCKED),
    "no beginning": ({"rows": (Row(place=0, kind="answered", position="7", at=AT, value="1"),)}, BLOCKED),
    "a beginning that is none": ({"rows": (Row(place=0, kind="started", position="", at=AT, value="[]"),)}, BLOCKED),
    "an unknown name": ({"name": "nobody"}, LEFT),
    "an unknown version": ({"version": 99}, LEFT),
}  # fmt: skip


DAMAGE = """
    alter table runnerq.state rename to whole;
    create view runnerq.state as
        select run_id, case when run_id = '{}' then (1 / (priority - priority))::text::json else value end as value
        from runnerq.whole join (select id, priority from runnerq.run) as run on id = run_id
    """


@activity
async def double(number: int) -> int:
    return 2 * number


@workflow
def order(ctx: Context, number: int) -> Flow[int]:
    return (yield from ctx.step(double, number))


@workflow
def listens(ctx: Context) -> Flow[int]:
    while True:
        try:
            return (yield from ctx.signal(NUMBERS))
        except Exception as error:
            yield ctx.publish(heard=type(error).__name__)


def a_run(stage: Stage, **given: Any) -> NewRun:
    usual: dict[str, Any] = {"id": new_run_id(), "kind": "workflow", "name": "order", "version": 1}
    return NewRun(**usual | {"queue": stage.queue, "input": '{"args":[21]}'} | given)


async def test_a_run_that_cannot_be_read_stops_itself_alone_in_its_claim(
    plain_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    bad = {name: a_run(plain_stage, **given) for name, (given, _) in BAD.items()}
    good = [a_run(plain_stage) for _ in bad]
    await plain_stage.storage.start([run for pair in zip(bad.values(), good, strict=True) for run in pair])
    async with plain_stage.worker(order, max_workers=50) as worker:
        for run in good:
            assert await plain_stage.base.handle(run.id).result(timeout=SOON) == 42
        await worker.idle()
        became = {name: await plain_stage.base.handle(run.id).status() for name, run in bad.items()}
        assert became == {name: status for name, (_, status) in BAD.items()}
        listed = await plain_stage.base.list(RunFilter(queue=plain_stage.queue))
        assert len(listed.items) == len(bad) + len(good)
        # And it is none the worse for them.
        assert await (await plain_stage.client.start(order, 4)).result(timeout=SOON) == 8


async def test_a_payload_that_cannot_be_read_stops_neither_its_mailbox_nor_those_of_others(plain_stage: Stage) -> None:
    async with plain_stage.serving(listens) as client:
        runs = await client.start_many(listens, [()] * 4)
        texts = ('"no number"', "[[[", "1e400", "17")
        for text in texts:
            for run in runs:
                if text != "[[[":  # no JSON at all is refused where it is sent
                    await plain_stage.storage.send([NewSignal(run_id=run.id, channel="numbers", value=text)])
        assert [await run.result(timeout=SOON) for run in runs] == [17] * 4
        assert {(await run.state())["heard"] for run in runs} == {"SignalPayloadError"}


@workflow
def goes_on(ctx: Context) -> Flow[int]:
    yield ctx.publish(begun=True)
    return (yield from ctx.signal(NUMBERS))


async def test_a_run_of_which_the_database_cannot_read_a_row_keeps_no_other_of_its_claim_from_going_on(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As where a page of the disk is damaged; here a view stands in for it."""
    storage = PostgresStorage(database)
    async with Client(storage) as client:
        async with Worker(client, workflows=[goes_on], build="tests"):
            damaged, *others = await client.start_many(goes_on, [()] * 3)
            for run in (damaged, *others):
                await run.reached(Status.WAITING, timeout=SOON)
        await execute(database, DAMAGE.format(damaged.id))
        for run in (damaged, *others):
            await run.send(NUMBERS, 7)
        async with Worker(client, workflows=[goes_on], build="tests"):
            assert [await run.result(timeout=SOON) for run in others] == [7, 7]
    assert f"run {damaged.id}: what is on record of it cannot be read" in caplog.text


async def test_dead_letters_that_cannot_be_read_keep_no_other_from_being_redriven(
    plain_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    storage, queue = plain_stage.storage, plain_stage.queue
    began = Row(place=0, kind="started", position="", at=AT, value="{}")
    dead = End(status="dead_letter", error="[]")
    holder = await a_holder(storage)
    runs = [a_run(plain_stage) for _ in range(4)]
    await storage.start(runs)
    [*bad, good] = (await holder.claim(pairs=((queue, "order@1"),))).runs
    for run in bad:
        await holder.commit(run, dead, rows=(began,))
    await holder.commit(good, msgspec.structs.replace(dead, error=None), rows=(began,))
    for letter in bad:
        with pytest.raises(DecodingError):
            await plain_stage.base.redrive(letter.id)
    everything = RunFilter(queue=queue)
    assert await plain_stage.base.redrive(everything, dry_run=True) == 1
    assert await plain_stage.base.redrive(everything) == 1
    assert await plain_stage.base.handle(good.id).status() is Status.PENDING
    assert all(f"run {letter.id} of order is passed over" in caplog.text for letter in bad)


async def test_maintenance_goes_on_beside_runs_that_cannot_be_read(
    plain_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker is lost with all of them in hand, and what reaps, unblocks and sweeps meets them one and all."""
    caplog.set_level(logging.CRITICAL)
    bad = {name: a_run(plain_stage, **given) for name, (given, status) in BAD.items() if status is BLOCKED}
    good = [a_run(plain_stage) for _ in range(3)]
    await plain_stage.storage.start([*bad.values(), *good])
    ghost = WorkerRow(
        id=new_token(), lease=0.05, host="nowhere", pid=1, build="x", queues=(plain_stage.queue,), served=("order@1",)
    )
    await plain_stage.storage.register(ghost, [])
    pairs = ((plain_stage.queue, "order@1"),)
    claim = await plain_stage.storage.claim(
        ClaimRequest(worker_id=ghost.id, token=new_token(), pairs=pairs, limit=len(bad) + len(good))
    )
    assert len(claim.runs) == len(bad) + len(good)
    often = {"reaper_interval": 0.02, "poll_interval": 0.02, "max_workers": 50}
    async with plain_stage.serving(order, build="one", **often):
        for run in good:
            assert await plain_stage.base.handle(run.id).result(timeout=SOON) == 42
        for run in bad.values():
            await plain_stage.base.handle(run.id).reached(BLOCKED, timeout=SOON)
    # A worker of another build takes up what is blocked, and comes no further with it; the rest goes on.
    async with plain_stage.serving(order, build="two", **often) as client:
        assert await (await client.start(order, 4)).result(timeout=SOON) == 8
        for run in bad.values():
            await plain_stage.base.handle(run.id).reached(BLOCKED, timeout=SOON)


async def test_a_schedule_that_another_version_has_put_holds_up_no_other_and_can_be_deleted(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "runnerq")
    storage = PostgresStorage(database)
    async with Client(storage) as client:
        for name in ("good", "newer"):
            await client.schedules.put(Schedule(name, double, (1,), every=0.1, overlap="allow"))
        newer = """update runnerq.schedule set rule = replace(rule::text, '{"name"', '{"missed":"latest","name"')::json,
                   next_at = now() - interval '1 hour' where name = 'newer'"""
        await execute(database, newer)
        events = client.events()
        async with Worker(client, activities=[double], build="tests"):
            async with asyncio.timeout(SOON):
                ended = 0
                async for event in events:
                    ended += event.kind == "completed"
                    if ended == 3:
                        break
        assert (
            "schedule 'newer' cannot be fired by this worker: schedule 'newer', as it is stored, does not"
            in caplog.text
        )
        caplog.clear()
        assert [each.name for each in await client.schedules.list()] == ["good"]
        assert "schedule 'newer', as it is stored, does not fit" in caplog.text
        for verb in (client.schedules.get, client.schedules.trigger, client.schedules.resume):
            with pytest.raises(DecodingError, match="another version has put it"):
                await verb("newer")
        with pytest.raises(DecodingError, match="another version has put it"):
            await client.schedules.put(Schedule("newer", double, (1,), every=60))
        assert await client.schedules.pause("newer")
        assert await client.schedules.delete("newer")
        assert await client.schedules.put(Schedule("newer", double, (1,), every=60))
