"""The list of events: that it is whole and documented, and that what happens is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import signature
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.errors import ConfigurationError, KeyTaken, RunFailed, StorageUnavailable
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import ClaimRequest, Fired, Relieved, Retained, Status, WorkerRow
from runnerq.retry import RetryPolicy
from runnerq.runtime.reading import DatabaseTime
from runnerq.runtime.reported import ReportedStorage, reported
from runnerq.runtime.reporter import Reporter
from runnerq.runtime.worker import Worker
from runnerq.runtime.writer import Writer
from runnerq.serialization.encryption import Encryption
from runnerq.telemetry import EVENTS, FIELDS, INSTRUMENTS, LEVELS, Event, events
from runnerq.telemetry.events import (
    AttemptBegan,
    AttemptEnded,
    AttemptRetried,
    BatchCommitted,
    Beat,
    ClaimAnswered,
    Maintained,
    QueuesRead,
    RunBlocked,
    RunClaimed,
    RunEnded,
    RunParked,
    RunReaped,
    RunReleased,
    SignalSent,
    StartFailed,
    StartSent,
    StorageFailed,
    TurnCommitted,
    WorkerJoined,
    WorkerLeft,
    WorkerRead,
)
from runnerq.telemetry.listeners import Telemetry
from runnerq.telemetry.measuring import measured_by
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.telemetry.hearing import SOON, Ear, heard, worker_of


@activity(retry=RetryPolicy(max_attempts=2, base=0.001))
async def flaky() -> str:
    from runnerq.runtime.current import current

    if current().attempt == 1:
        raise OSError("secret of the first attempt")
    return "done"


def sync_step(of: str) -> str:
    return of


@workflow
def order(ctx: Context) -> Flow[str]:
    yield ctx.step(sync_step, "a secret argument")
    yield ctx.signal("go")
    return (yield from ctx.step(flaky))


@workflow
def bad(ctx: Context) -> Flow[None]:
    yield ctx.sleep(0)
    raise ValueError("secret of the end")


@workflow
def misused(ctx: Context) -> Flow[None]:
    yield ctx.sleep(0)
    yield "no command"  # type: ignore[misc]  # what this is about


# --- the list ---------------------------------------------------------------------------------------------------------


def test_every_event_is_listed_with_a_level_and_documented_fields() -> None:
    made = {each for each in vars(events).values() if isinstance(each, type) and issubclass(each, Event)} - {Event}
    assert (set(EVENTS), set(LEVELS)) == (made, made)
    used = {field.name for event in EVENTS for field in msgspec.structs.fields(event)}
    assert used == set(FIELDS)
    assert [event.__name__ for event in EVENTS if not (event.__doc__ or "").strip()] == []
    assert len({event.called for event in EVENTS}) == len(EVENTS)


def test_no_metric_is_labelled_with_what_has_no_bounds() -> None:
    labels = {label for instrument in INSTRUMENTS for label in instrument.labels}
    assert labels == {"name", "queue", "step", "status", "left", "move", "came", "fault", "how", "sent", "what"}
    assert len({instrument.name for instrument in INSTRUMENTS}) == len(INSTRUMENTS)


# --- what is told -----------------------------------------------------------------------------------------------------


async def test_a_run_is_told_from_its_start_to_its_end_without_any_payload() -> None:
    ear = Ear()
    async with heard(order, flaky, listeners=[ear]) as client:
        run = await client.options(key="a secret key").start(order)
        parked = await ear.until(RunParked)
        await client.send(run.id, "go", "a secret value")
        await run.result(timeout=SOON)
        await ear.until(RunReleased, lambda event: event.left == "completed")
        for kind in (WorkerJoined, ClaimAnswered, BatchCommitted, Beat, WorkerRead, QueuesRead):
            await ear.until(kind)
    assert parked.channels == ("go",)
    [started] = ear.of(StartSent)
    assert (started.run_ids, started.created, started.queue) == ((run.id,), 1, "default")
    assert [sent.sent for sent in ear.of(SignalSent)] == ["sent"]
    assert ear.of(RunClaimed)[0].name == "order"
    assert [(each.step, each.attempt) for each in ear.of(AttemptBegan)] == [
        ("sync_step", 1), ("flaky", 1), ("flaky", 2),
    ]  # fmt: skip
    assert [(each.came, each.error) for each in ear.of(AttemptEnded)] == [
        ("returned", None), ("raised", "OSError"), ("returned", None),
    ]  # fmt: skip
    [retried] = ear.of(AttemptRetried)
    assert (retried.step, retried.attempt, retried.error) == ("flaky", 1, "OSError")
    assert sum(turn.rows for turn in ear.of(TurnCommitted)) == 4
    assert {turn.verdict for turn in ear.of(TurnCommitted)} == {"done"}
    [ended] = ear.of(RunEnded)
    assert (ended.status, ended.error) == ("completed", None)
    assert ear.of(WorkerLeft)
    assert "secret" not in str(ear.events)


async def test_what_goes_wrong_is_told_by_its_class_alone() -> None:
    ear = Ear()
    async with heard(bad, misused, listeners=[ear]) as client:
        with pytest.raises(RunFailed):
            await (await client.start(bad)).result(timeout=SOON)
        await (await client.start(misused)).reached(Status.BLOCKED, timeout=SOON)
        await client.options(key="k").start(bad)
        with pytest.raises(KeyTaken):
            await client.options(key="k", on_duplicate="no_reuse").start(bad)
        blocked = await ear.until(RunBlocked)
    ended = ear.of(RunEnded)[0]
    assert (ended.name, ended.status, ended.error) == ("bad", "failed", "ValueError")
    assert (blocked.name, blocked.by_worker) == ("misused", False)
    assert blocked.line is not None
    assert __file__ in blocked.line
    assert [failed.error for failed in ear.of(StartFailed)] == ["KeyTaken"]
    assert "secret" not in str(ear.events)


async def test_a_listener_that_raises_is_logged_once_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def hear(self, event: Event) -> None:
            raise RuntimeError("this listener is broken")

    ear = Ear()
    with caplog.at_level(logging.ERROR, "runnerq"):
        async with (
            Client(MemoryStorage()) as client,
            worker_of(client, [order, flaky], listeners=[Broken(), ear]),
        ):
            run = await client.start(order)
            await client.send(run.id, "go", None)
            assert await run.result(timeout=SOON) == "done"
    assert [record.levelname for record in caplog.records if "this listener is broken" in record.getMessage()] == [
        "ERROR"
    ]
    assert ear.of(RunEnded)


def test_metrics_that_fail_are_named_in_the_log_as_whose_they_are(caplog: pytest.LogCaptureFixture) -> None:
    class Statsd:
        def __repr__(self) -> str:
            return "the shop's statsd"

    [listener] = measured_by(Statsd())  # type: ignore[arg-type]  # it has none of the methods
    with caplog.at_level(logging.ERROR, "runnerq"):
        Telemetry([listener]).tell(StorageFailed(worker_id=1, what="claim", error="StorageUnavailable"))
    [record] = caplog.records
    assert record.getMessage().startswith("listener the shop's statsd failed on storage_failed")


async def test_where_nobody_listens_nothing_is_there_that_would_tell() -> None:
    async with Client(MemoryStorage()) as client, worker_of(client, [order, flaky]) as worker:
        shift = worker._shift
        assert shift is not None
        assert type(shift.writer) is Writer
        assert (shift.attempts.listener, shift.transactions.listener, shift._reporter) == (None, None, None)
        assert shift._storage is client.storage
        assert client.listeners == ()


def test_what_is_told_of_a_storage_are_verbs_of_storages() -> None:
    told = {name: verb for name, verb in vars(ReportedStorage).items() if not name.startswith("_")}
    assert told
    for name, verb in told.items():
        assert list(signature(verb).parameters) == list(signature(getattr(Storage, name)).parameters), name


async def test_a_run_that_a_worker_has_no_key_for_is_told_as_blocked() -> None:
    storage, ear = MemoryStorage(), Ear()
    async with (
        Client(storage, codec=Encryption({"a": bytes(32)}, "a")) as client,
        worker_of(Client(storage, codec=Encryption({"b": bytes(32)}, "b")), [flaky], listeners=[ear]),
    ):
        run = await client.start(flaky)
        blocked = await ear.until(RunBlocked)
        turn = await ear.until(TurnCommitted)
    assert (blocked.run_id, blocked.name, blocked.by_worker) == (run.id, "flaky", True)
    assert (turn.run_id, turn.move) == (run.id, "blocked")
    assert ear.of(RunClaimed) == []


async def test_a_run_that_crashes_again_and_again_is_told_as_a_dead_letter() -> None:
    storage, ear = MemoryStorage(), Ear()
    async with Client(storage) as client:
        run = await client.start(flaky)
        gone = WorkerRow(id=77, lease=0, host="h", pid=1, build="b", queues=("default",), served=("flaky",), slots=1)
        await storage.register(gone, [])
        await storage.claim(ClaimRequest(worker_id=77, token=99, pairs=(("default", "flaky"),), limit=1))
        with storage.writing() as (book, _):
            book.open[run.id].crashes = 4
        async with worker_of(client, [flaky], listeners=[ear], reaper_interval=0.1):
            ended = await ear.until(RunEnded)
    assert [(reaped.name, reaped.capped) for reaped in ear.of(RunReaped)] == [("flaky", True)]
    assert (ended.run_id, ended.status, ended.reason) == (run.id, "dead_letter", "crash_loop")


class Busy(MemoryStorage):
    """It has always something to do, and at times does not answer."""

    answers = True

    async def _did(self, *given: Any) -> int:
        if not self.answers:
            raise StorageUnavailable("no answer")
        return 3

    async def _had(self, *given: Any) -> Any:
        count = await self._did()
        return {1: Fired(runs=("a",) * count), 2: Relieved(mended=count, next=None)}.get(
            len(given), Retained(trees=count, more=False)
        )

    wake_due = sweep = unblock = adopt = purge = _did  # type: ignore[assignment]  # they answer alike
    retain = relieve = fire = _had  # type: ignore[assignment]  # as above


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("wake_due", [9]), ("sweep", [9]), ("unblock", ["b", (), 9]), ("adopt", [(), 9]), ("purge", [9]),
        ("retain", [1.0, 1.0, 9]), ("relieve", [None, 9]), ("fire", [None]),
    ],
)  # fmt: skip
async def test_maintenance_is_told_where_it_did_something_or_could_not(verb: str, given: list[Any]) -> None:
    ear, storage = Ear(), Busy()
    told = reported(storage, Reporter(Telemetry([ear]), 7, DatabaseTime()))
    await getattr(told, verb)(*given)
    storage.answers = False
    with pytest.raises(StorageUnavailable):
        await getattr(told, verb)(*given)
    assert ear.events == [
        Maintained(worker_id=7, what=verb, count=3),
        StorageFailed(worker_id=7, what=verb, error="StorageUnavailable"),
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda client: Worker(client, workflows=[order], listeners=[object()]),
        lambda _: Client(MemoryStorage(), listeners=["loud"]),  # type: ignore[list-item]  # what this is about
    ],
    ids=["worker", "client"],
)
async def test_what_cannot_hear_is_refused(make: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigurationError, match="hear"):
        make(Client(MemoryStorage()))
