"""Only type-checked: what the blocking client's calls infer, and what they must reject.

Each `type: ignore` below is an error in both checkers; a superfluous one is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def accepted() -> None:
    with rq.SyncClient("postgresql://", schema="runnerq") as client:
        assert_type(client, rq.SyncClient)
        run = client.start(checkout, Order(), express=True)
        assert_type(run, rq.SyncHandle[Shipment])
        assert_type(run.id, str)
        assert_type(run.created, bool)
        assert_type(run.result(timeout=timedelta(seconds=3)), Shipment)
        assert_type(client.start(mail, "me"), rq.SyncHandle[int])
        assert_type(client.start(resize, 3), rq.SyncHandle[list[str]])
        assert_type(client.start("by name", 1, two=3), rq.SyncHandle[Any])
        assert_type(client.options(key="k", priority=rq.Priority.HIGH), rq.SyncClient)
        assert_type(client.options(key="k").start(checkout, Order()), rq.SyncHandle[Shipment])
        assert_type(client.start_many(resize, [(1,), (2,)], keys=["a", "b"]), list[rq.SyncHandle[list[str]]])
        assert_type(client.handle("id"), rq.SyncHandle[Any])
        assert_type(client.handle("id", Shipment), rq.SyncHandle[Shipment])
        assert_type(client.handle_by_key(checkout, "k"), rq.SyncHandle[Shipment])
        assert_type(client.handle_by_key(mail, "k").result(), int)
        assert_type(client.send("id", APPROVAL, True), bool)
        assert_type(client.send("id", "any", object()), bool)
        assert_type(run.send(APPROVAL, False, dedup="once"), bool)
        assert_type(run.reached(rq.Status.WAITING, timeout=5), rq.Status)
        assert_type(run.status(), rq.Status)
        assert_type(run.history(2), list[rq.Entry])
        assert_type(run.wait(lambda state: state["x"] == 1, timeout=5), dict[str, Any])


def steering(client: rq.SyncClient) -> None:
    assert_type(client.cancel("id", "reason"), bool)
    assert_type(client.reschedule("id", datetime.now(UTC)), bool)
    assert_type(client.set_priority("id", rq.Priority.HIGH), bool)
    assert_type(client.redrive(rq.RunFilter(workflow="mail"), dry_run=True), int)
    assert_type(client.retry("id"), bool)
    assert_type(client.retry(rq.RunFilter()), int)
    assert_type(client.fork("id", from_entry="1"), rq.SyncHandle[Any])
    assert_type(client.list(rq.RunFilter(status="waiting"), limit=5).items, list[rq.RunInfo])
    assert_type(client.count(rq.RunFilter(status=rq.Status.FAILED), cap=5), int)
    assert_type(client.aggregate("status"), rq.Aggregate)
    assert_type(client.failures(), rq.Failures)
    assert_type(client.audit.list(action="retry").items, list[rq.AuditEntry])
    assert_type(client.tree("id"), rq.Node)
    assert_type(client.stats(), rq.Stats)
    assert_type(client.events(after="a cursor"), Iterator[rq.Event])
    assert_type(client.queues.list(), list[rq.QueueInfo])
    assert_type(client.queues.pause("slow"), bool)


def beside(client: rq.Client) -> None:
    assert_type(rq.SyncClient.of(client), rq.SyncClient)


def rejected(client: rq.SyncClient, run: rq.SyncHandle[Shipment]) -> None:
    client.start(checkout, 5)  # type: ignore[call-overload]
    client.start(checkout)  # type: ignore[call-overload]
    client.start(checkout, Order(), fast=True)  # type: ignore[call-arg]
    client.start(mail, 5)  # type: ignore[call-overload]
    client.send("id", APPROVAL, "yes")  # type: ignore[misc]
    run.send(APPROVAL, 1.5)  # type: ignore[misc]
    number: int = run.result()  # type: ignore[assignment]
    client.options(prio=1)  # type: ignore[call-arg]
    client.options(on_duplicate="explode")  # type: ignore[arg-type]
    client.cancel(5)  # type: ignore[arg-type]
    client.queues.pause(5)  # type: ignore[arg-type]
    run.reached(timeout="soon")  # type: ignore[arg-type]
    rq.Worker(client, workflows=[checkout])  # type: ignore[arg-type]
    rq.SyncClient(5)  # type: ignore[arg-type]
    assert_type(number, int)
