"""Only type-checked: what the client's calls infer, and what they must reject.

Each `type: ignore` below is an error in both checkers; a superfluous one is reported.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import runnerq as rq


class Order:
    item: str


class Shipment:
    tracking: str


APPROVAL = rq.Signal("approval", bool)


@rq.workflow
def checkout(ctx: rq.Context, order: Order, *, express: bool = False) -> rq.Flow[Shipment]:
    yield from ctx.signal(APPROVAL)
    return Shipment()


@rq.activity(retry=5)
async def mail(to: str) -> int:
    return len(to)


@rq.activity
def resize(width: int) -> list[str]:
    return [str(width)]


class Reversed:
    """A codec of a user's own."""

    name = "reversed"

    def encode(self, payload: bytes, place: bytes, /) -> bytes | None:
        return payload[::-1]

    def decode(self, payload: bytes, place: bytes, /) -> bytes:
        return payload[::-1]


def codecs(key: bytes) -> list[rq.Client]:
    encryption = rq.Encryption(keys={"2026-11": key}, current="2026-11")
    rq.connect(codec="zlib")  # type: ignore[arg-type]
    return [rq.connect(codec=encryption), rq.connect(codec=[rq.Compression(level=1), Reversed(), encryption])]


async def accepted(client: rq.Client) -> None:
    run = await client.start(checkout, Order(), express=True)
    assert_type(run, rq.Handle[Shipment])
    assert_type(await run.result(timeout=timedelta(seconds=3)), Shipment)
    assert_type(await client.start(mail, "me"), rq.Handle[int])
    assert_type(await client.start(resize, 3), rq.Handle[list[str]])
    assert_type(await client.start("by name", 1, two=3), rq.Handle[Any])
    assert_type(await client.options(key="k", priority=rq.Priority.HIGH).start(checkout, Order()), rq.Handle[Shipment])
    assert_type(await client.options(connection=object()).start(checkout, Order()), rq.Handle[Shipment])
    assert_type(await client.start_many(resize, [(1,), (2,)], keys=["a", "b"]), list[rq.Handle[list[str]]])
    assert_type(client.handle("id"), rq.Handle[Any])
    assert_type(client.handle("id", Shipment), rq.Handle[Shipment])
    assert_type(client.handle("id", returns=int), rq.Handle[int])
    assert_type(client.handle_by_key(checkout, "k"), rq.Handle[Shipment])
    assert_type(client.handle_by_key(mail, "k"), rq.Handle[int])
    await client.send("id", APPROVAL, True)
    await client.send("id", "any", object())
    await run.send(APPROVAL, False, dedup="once")
    assert_type(await run.reached(rq.Status.WAITING), rq.Status)
    assert_type(await run.wait(lambda state: state["x"] == 1, timeout=5), dict[str, Any])
    assert_type((await client.list(rq.RunFilter(status="waiting"))).items, list[rq.RunInfo])
    assert_type(await client.history("id"), list[rq.Entry])


async def steering(client: rq.Client, run: rq.Handle[Shipment]) -> None:
    started = await client.options(key="k", signals=[(APPROVAL, True), ("note", {"a": 1})]).start(checkout, Order())
    assert_type(started, rq.Handle[Shipment])
    assert_type(await client.run_now(run.id), bool)
    assert_type(await client.reschedule(run.id, datetime.now(UTC)), bool)
    assert_type(await client.set_priority(run.id, rq.Priority.HIGH), bool)
    assert_type(await client.delete(run.id), bool)
    assert_type(await client.redrive(run.id), int)
    assert_type(await client.redrive(rq.RunFilter(workflow="mail"), dry_run=True), int)
    assert_type(await client.retry(rq.RunFilter()), int)


async def looking(client: rq.Client) -> None:
    assert_type(await client.count(rq.RunFilter(status=rq.Status.FAILED), cap=5), int)
    assert_type((await client.aggregate("status")).groups, tuple[rq.Group, ...])
    assert_type((await client.failures()).groups, tuple[rq.FailureGroup, ...])
    now = datetime.now(UTC)
    assert_type(await client.activity(now, now, workflow="mail", span=timedelta(hours=1)), list[rq.Throughput])
    assert_type((await client.audit.list(run_id="id")).items, list[rq.AuditEntry])
    assert_type((await client.list(oldest=True)).next, str | None)
    assert_type((await client.tree("id")).children, tuple[rq.Node, ...])
    assert_type((await client.tree("id")).info, rq.RunInfo)
    stats = await client.stats()
    assert_type(stats, rq.Stats)
    assert_type(stats.depths, tuple[rq.Depth, ...])
    assert_type(stats.workers, tuple[rq.WorkerInfo, ...])
    assert_type(stats.by_status(), dict[rq.Status, int])
    async for event in client.events(after="a cursor"):
        assert_type(event, rq.Event)
        assert_type(event.kind, str)
    assert_type(await client.queues.list(), list[rq.QueueInfo])
    assert_type(await client.queues.pause("slow"), bool)


async def limiting(client: rq.Client) -> None:
    await client.limits.set("stripe", concurrency=5, rate=(100, timedelta(minutes=1)), per_key=True)
    assert_type(await client.limits.list(), list[rq.LimitInfo])
    assert_type(await client.limits.get("stripe"), rq.LimitInfo | None)
    assert_type(await client.limits.delete("stripe"), bool)
    assert_type(await client.options(limit="stripe").start(checkout, Order()), rq.Handle[Shipment])
    run = await client.options(limit=("customer", "7")).start(checkout, Order())
    assert_type((await run.info()).limit, rq.Limit | None)
    client.options(limit=rq.Limit("customer", "7"))
    client.options(limit=("customer", 7))  # type: ignore[arg-type]
    await client.limits.set("stripe", rate=5)  # type: ignore[arg-type]


async def scheduling(client: rq.Client) -> None:
    nightly = rq.Schedule("nightly", checkout, (Order(),), cron="0 3 * * *", zone="Europe/Berlin", overlap="cancel")
    often = rq.Schedule("often", "mail", every=timedelta(minutes=5), missed="all", options={"queue": "q", "retry": 2})
    assert_type(await client.schedules.put(nightly), bool)
    assert_type(await client.schedules.put(often), bool)
    assert_type(await client.schedules.list(), list[rq.ScheduleInfo])
    assert_type(await client.schedules.get("nightly"), rq.ScheduleInfo | None)
    assert_type(await client.schedules.pause("nightly"), bool)
    assert_type(await client.schedules.trigger("nightly"), rq.Handle[Any])
    now = datetime.now(UTC)
    assert_type(await client.schedules.backfill("nightly", now - timedelta(days=1), now), int)
    rq.Schedule("bad", mail, ("ann",), cron=5)  # type: ignore[arg-type]
    rq.Schedule("bad", mail, ("ann",), every=5, missed="some")  # type: ignore[arg-type]
    rq.Schedule("bad", mail, ("ann",), every=5, options={"delay": 5})  # type: ignore[arg-type]
    rq.Schedule("bad", mail, "0 3 * * *")  # type: ignore[arg-type]


async def rejected(client: rq.Client, run: rq.Handle[Shipment]) -> None:
    await client.start(checkout, 5)  # type: ignore[call-overload]
    await client.start(checkout)  # type: ignore[call-overload]
    await client.start(checkout, Order(), fast=True)  # type: ignore[call-arg]
    await client.start(mail, 5)  # type: ignore[call-overload]
    await client.send("id", APPROVAL, "yes")  # type: ignore[misc]
    await run.send(APPROVAL, 1.5)  # type: ignore[misc]
    number: int = await run.result()  # type: ignore[assignment]
    client.options(prio=1)  # type: ignore[call-arg]
    client.options(on_duplicate="explode")  # type: ignore[arg-type]
    client.options(signals=[APPROVAL])  # type: ignore[list-item]
    await client.aggregate("colour")  # type: ignore[arg-type]
    await client.reschedule("id", 5)  # type: ignore[arg-type]
    await client.redrive(5)  # type: ignore[arg-type]
    assert_type(number, int)
