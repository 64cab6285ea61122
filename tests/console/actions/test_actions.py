from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.client.schedule import Schedule, ScheduleOptions
from runnerq.console.access import ALL, READ_ONLY, Forbidden, Principal
from runnerq.console.actions import fleet
from runnerq.console.actions.batches import BatchRequest, Selection, start_batch, stop_batch
from runnerq.console.actions.runs import (
    StartRequest,
    cancel,
    delete,
    fork,
    redrive,
    reschedule,
    retry,
    reveal,
    run_now,
    send,
    set_priority,
    start,
    terminate,
)
from runnerq.console.models.audit import AuditQuery, AuditRow, audit
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.console.models.redaction import MASK, Spot
from runnerq.console.table import ACTIONS
from runnerq.errors import (
    ConfigurationError,
    KeyTaken,
    RunNotFound,
    ScheduleNotFound,
    StorageUnavailable,
    WrongState,
)
from runnerq.persistence.records import AuditFilter, Priority, Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.worker import Worker
from runnerq.workflow.options import Limit
from tests.console.seeing import context_of
from tests.console.shop import SECRET, charge, checkout, refused

RUN = "01a22d36-feaa-7782-aafd-0627fea8ca7f"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=900)

EVERY: dict[str, Callable[[Context], Awaitable[object]]] = {
    "start": lambda c: start(c, StartRequest(name="charge")),
    "send": lambda c: send(c, RUN, "approval", 1),
    "cancel": lambda c: cancel(c, RUN),
    "terminate": lambda c: terminate(c, RUN),
    "retry": lambda c: retry(c, RUN),
    "redrive": lambda c: redrive(c, RUN),
    "run-now": lambda c: run_now(c, RUN),
    "reschedule": lambda c: reschedule(c, RUN, LATER),
    "priority": lambda c: set_priority(c, RUN, "high"),
    "fork": lambda c: fork(c, RUN, from_entry="1"),
    "delete": lambda c: delete(c, RUN),
    "reveal": lambda c: reveal(c, RUN, "input", reason="to see"),
    "batch": lambda c: start_batch(c, BatchRequest(action="cancel", selection=Selection(ids=(RUN,)))),
    "batch-stop": lambda c: stop_batch(c, RUN),
    "queue-pause": lambda c: fleet.pause_queue(c, "mail"),
    "queue-resume": lambda c: fleet.resume_queue(c, "mail"),
    "schedule-put": lambda c: fleet.put_schedule(c, fleet.ScheduleRequest(name="n", workflow="charge", every=60)),
    "schedule-pause": lambda c: fleet.pause_schedule(c, "n"),
    "schedule-resume": lambda c: fleet.resume_schedule(c, "n"),
    "schedule-trigger": lambda c: fleet.trigger_schedule(c, "n"),
    "schedule-backfill": lambda c: fleet.backfill_schedule(c, "n", NOW, LATER),
    "schedule-delete": lambda c: fleet.delete_schedule(c, "n"),
    "limit-set": lambda c: fleet.set_limit(c, fleet.LimitRequest(scope="bank", concurrency=1)),
    "limit-delete": lambda c: fleet.delete_limit(c, "bank"),
    "worker-drain": lambda c: fleet.drain_worker(c, "4711"),
}
"""Each action of the table, asked for."""


def somebody(context: Context, access: frozenset[str]) -> Context:
    return msgspec.structs.replace(context, principal=Principal("eve", access))


async def rows(context: Context, **where: str) -> list[AuditRow]:
    return list((await audit(context, AuditQuery(**where))).rows)


def test_every_action_of_the_table_is_asked_for_here() -> None:
    assert EVERY.keys() == ACTIONS.keys()


@pytest.mark.parametrize("name", ACTIONS)
async def test_who_lacks_its_permission_alone_is_refused_an_action_which_names_it(name: str, context: Context) -> None:
    permission = ACTIONS[name].permission
    for access in (READ_ONLY, ALL - {permission}):
        with pytest.raises(Forbidden) as refused_:
            await EVERY[name](somebody(context, access))
        assert refused_.value.permission == permission
    [row] = await rows(context)
    assert (row.principal, row.action) == ("eve", name)
    assert row.outcome == f"forbidden: it needs the permission {permission!r}"


def test_a_permission_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'cancle'"):
        Principal("eve", frozenset({"cancle"}))


async def test_what_is_done_is_written_down_with_who_why_and_what_came_of_it(client: Client, context: Context) -> None:
    request = StartRequest(name="charge", args=[{"password": SECRET}], key="k-1", priority="high", delay=60)
    started = await start(context, request, reason="asked by phone")
    assert (started.created, started.changed) == (True, True)
    run_id = started.run_id
    assert run_id is not None
    info = await client.info(run_id)
    assert (info.priority, info.status, info.key) == (Priority.HIGH, Status.SCHEDULED, "k-1")
    assert not (await start(context, request)).created
    await run_now(context, run_id)
    done = await cancel(context, run_id, reason="a mistake")
    assert (done.message, done.changed) == ("Asked it to cancel", True)
    assert not (await cancel(context, run_id)).changed
    assert [(row.principal, row.action, row.reason, row.outcome) for row in await rows(context, run_id=run_id)] == [
        ("ada", "cancel", None, "nothing changed"),
        ("ada", "cancel", "a mistake", "done"),
        ("ada", "run-now", None, "done"),
        ("ada", "start", None, "nothing changed"),
        ("ada", "start", "asked by phone", "done"),
    ]
    assert SECRET not in str(await rows(context))
    assert (await client.info(run_id)).reason == "a mistake"


async def test_what_a_run_refuses_is_written_down_as_refused(client: Client, context: Context) -> None:
    run = await client.start(charge, {})
    with pytest.raises(WrongState) as refused_:
        await retry(context, run.id, reason="try")
    assert refused_.value.status == Status.PENDING
    [row] = await rows(context, action="retry")
    assert row.outcome.startswith("refused: run ")
    for act in (cancel, terminate, retry, redrive, run_now, delete):
        with pytest.raises(RunNotFound):
            await act(context, "no id")


async def test_what_was_entered_wrongly_is_told_by_its_field(client: Client, context: Context, worker: Worker) -> None:
    run = await client.start(checkout, {})
    await run.reached(Status.WAITING, timeout=10)
    for field, wrong in (
        ("priority", lambda: set_priority(context, run.id, "urgent")),
        ("from_entry", lambda: fork(context, run.id, from_entry="99")),
        ("accept", lambda: retry(context, run.id, accept="all")),
        ("channel", lambda: send(context, run.id, "", 1)),
        ("reason", lambda: reveal(context, run.id, "input")),
        ("reason", lambda: cancel(context, run.id, reason="x" * 3_000)),
        ("on_duplicate", lambda: start(context, StartRequest(name="charge", key="k", on_duplicate="maybe"))),
        ("rate", lambda: fleet.set_limit(context, fleet.LimitRequest(scope="bank", rate=3))),
    ):
        with pytest.raises(BadFields) as refused_:
            await wrong()
        assert set(refused_.value.errors) == {field}


async def test_a_payload_that_is_revealed_is_whole_and_in_the_audit(client: Client, context: Context) -> None:
    run = await client.start(charge, {"password": SECRET, "rows": ["x" * 100] * 2_000})
    payload = await reveal(context, run.id, "input", reason="a customer asks")
    assert SECRET in payload.text
    assert not payload.cut
    [row] = await rows(context, action="reveal")
    assert (row.run_id, row.reason, row.request) == (run.id, "a customer asks", '{"which":"input"}')


async def test_a_signal_is_kept_in_the_audit_without_its_secret_and_cut(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(checkout, {})
    await send(context, run.id, "approval", {"token": SECRET, "rows": ["y" * 100] * 100})
    await run.result(timeout=10)
    [row] = await rows(context, action="send")
    assert row.request is not None
    assert MASK in row.request
    assert SECRET not in row.request
    assert len(row.request) < 5_000


async def test_the_fleet_is_changed_and_the_audit_says_so(client: Client, context: Context) -> None:
    paused = await fleet.pause_queue(context, "mail", reason="the provider is down")
    assert paused.warning == "No worker serves a queue 'mail', and no run is on it so far"
    request = fleet.ScheduleRequest(name="n", workflow="charge", args=[{}], every=60, priority="low", queue="mail")
    assert (await fleet.put_schedule(context, request)).changed
    assert not (await fleet.put_schedule(context, request)).changed
    triggered = await fleet.trigger_schedule(context, "n")
    assert triggered.run_id is not None
    assert (await client.info(triggered.run_id)).priority is Priority.LOW
    assert not (await fleet.resume_schedule(context, "n")).changed
    await fleet.set_limit(context, fleet.LimitRequest(scope="bank", rate=3, per=60, per_key=True))
    [limit] = await client.limits.list()
    assert (limit.rate, limit.per_key) == ((3, 60.0), True)
    assert (await fleet.delete_limit(context, "bank")).changed
    with pytest.raises(BadFields) as refused_:
        await fleet.put_schedule(context, msgspec.structs.replace(request, cron="* * * *", every=None, zone="Mars"))
    assert set(refused_.value.errors) == {"cron", "zone"}
    assert [(row.action, row.target) for row in await rows(context)][::-1][:4] == [
        ("queue-pause", "mail"), ("schedule-put", "n"), ("schedule-put", "n"), ("schedule-trigger", "n"),
    ]  # fmt: skip


async def test_two_who_redrive_one_run_at_once_are_told_apart(client: Client, context: Context, worker: Worker) -> None:
    run = await client.start(refused, 1)
    await run.reached(Status.DEAD_LETTER, timeout=10)
    await client.queues.pause("default")
    assert (await redrive(context, run.id)).changed
    with pytest.raises(WrongState) as second:
        await redrive(somebody(context, ALL), run.id)
    assert second.value.status == Status.PENDING


async def test_each_action_on_a_run_changes_it_once(client: Client, context: Context, worker: Worker) -> None:
    async def a_delayed() -> str:
        return (await client.options(delay=3600).start(charge, {})).id

    async def a_delayed_workflow() -> str:
        return (await client.options(delay=3600).start("checkout", {})).id

    async def a_dead_letter() -> str:
        run = await client.start(refused, 1)
        await run.reached(Status.DEAD_LETTER, timeout=10)
        return run.id

    async def done() -> str:
        run = await client.start(charge, {})
        await run.result(timeout=10)
        return run.id

    await client.queues.pause("later")
    for arrange, act, again in (
        (a_delayed, terminate, "Nothing changed: it has ended already"),
        (a_delayed, lambda c, run_id: reschedule(c, run_id, LATER), "Nothing changed: it was due then"),
        (a_delayed, lambda c, run_id: set_priority(c, run_id, "low"), "Nothing changed: it has priority low"),
        (
            a_delayed_workflow,
            lambda c, run_id: send(c, run_id, "note", 1, dedup="d"),
            "'note' was sent with dedup 'd' before",
        ),
        (a_dead_letter, retry, None),
        (done, delete, None),
    ):
        run_id = await arrange()
        first = await act(context, run_id)
        assert (first.changed, first.run_id) == (True, run_id)
        if again is not None:
            second = await act(context, run_id)
            assert not second.changed
            assert second.message.startswith(again)


async def test_a_run_is_started_with_all_that_was_asked_for(client: Client, context: Context) -> None:
    await client.limits.set("bank", concurrency=1)
    asked = StartRequest(
        name="charge", kwargs={"order": {}}, queue="slow", timeout=5, metadata={"shop": "7"}, limit=("bank", "9"),
        on_duplicate="no_reuse", key="k",
    )  # fmt: skip
    started = await start(context, asked)
    assert started.run_id is not None
    info = await client.info(started.run_id)
    assert (info.queue, info.metadata, info.limit) == ("slow", {"shop": "7"}, Limit("bank", "9"))
    with pytest.raises(KeyTaken):
        await start(context, asked)
    with pytest.raises(BadFields):
        await start(context, msgspec.structs.replace(asked, limit=("a", "b", "c")))


def by_kind(spot: Spot, value: Any) -> Any:
    """Hides what a redactor of one's own may hide: by kind, by workflow, in the form in which it is stored."""
    if spot.kind == "input" and spot.workflow == "charge":
        value = value["args"] if isinstance(value, dict) else value
        return [{**value[0], "account": "hidden"}]
    if spot.kind == "signal" and spot.workflow == "checkout":
        return "hidden"
    return "hidden" if spot.kind in ("metadata", "schedule") else value


async def test_what_the_audit_keeps_is_redacted_as_what_it_is(client: Client) -> None:
    context = context_of(client, "ada", by_kind)
    paying = await client.start(checkout, {})
    await start(context, StartRequest(name="charge", args=[{"account": SECRET}], metadata={"to": SECRET}, key="k"))
    await start(context, StartRequest(name="charge", args=[{"account": SECRET}], kwargs={"more": 1}))
    await send(context, paying.id, "approval", {"account": SECRET})
    request = fleet.ScheduleRequest(
        name="n", workflow="charge", every=60, args=[{"account": SECRET}], metadata={"to": SECRET}, queue="mail"
    )
    await fleet.put_schedule(context, request)
    kept = [msgspec.json.decode(row.request or "") for row in await rows(context)][::-1]
    assert kept[0] == {"arguments": [{"account": "hidden"}], "metadata": "hidden", "key": "k"}
    assert kept[1] == {"arguments": [{"account": "hidden"}]}
    assert kept[2] == {"channel": "approval", "value": "hidden"}
    assert (kept[3]["args"], kept[3]["options"], kept[3]["workflow"]) == ("hidden", "hidden", "charge")
    assert SECRET not in str([record.entry for record in await client.storage.read_audit(AuditFilter(), 10)])


@pytest.mark.parametrize("kind", ["input", "error"])
async def test_what_is_done_has_its_row_though_the_redactor_fails(client: Client, kind: str) -> None:
    def faulty(spot: Spot, value: Any) -> Any:
        if spot.kind == kind:
            raise KeyError("a fault of ours")
        return value

    context = context_of(client, "ada", faulty)
    started = await start(context, StartRequest(name="charge", args=[{"account": SECRET}], key="k"))
    [row] = await rows(context)
    assert (row.action, row.run_id) == ("start", started.run_id)
    if kind == "input":
        assert row.request == '"not kept: what hides secrets has failed on it (KeyError)"'
    with pytest.raises(KeyTaken):
        await start(context, StartRequest(name="charge", args=[{}], key="k", on_duplicate="no_reuse"))
    [row] = (await rows(context))[:1]
    assert row.outcome.startswith("refused")


async def test_where_it_is_not_known_whether_it_was_done_the_audit_says_so(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(client)
    run = await client.start(charge, {})
    for fault in (RuntimeError("a driver's own"), asyncio.CancelledError()):

        async def cancel_(*_: object, fault: BaseException = fault) -> bool:
            raise fault

        monkeypatch.setattr(type(client), "cancel", cancel_)
        with pytest.raises(type(fault)):
            await cancel(context, run.id)
    assert [row.outcome for row in await rows(context)] == ["not known: CancelledError", "not known: RuntimeError"]


async def test_what_is_tried_again_and_again_is_one_row_a_minute(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    eve = somebody(context, READ_ONLY)
    for _ in range(5):
        with pytest.raises(Forbidden):
            await cancel(eve, RUN)
        with pytest.raises(Forbidden):
            await cancel(eve, "no id\nof a run")
    assert [(row.run_id, row.target) for row in await rows(context)] == [(None, "no id\nof a run"), (RUN, None)]
    assert len([each for each in caplog.records if "forbidden" in each.getMessage()]) == 10
    assert not any("\n" in each.getMessage() for each in caplog.records)


async def test_a_schedule_that_is_changed_keeps_what_is_not_said_of_it(client: Client, context: Context) -> None:
    policy = RetryPolicy(max_attempts=3, base=2.0)
    options = ScheduleOptions(
        metadata={"team": "x"}, timeout=5, retry=policy, limit=("bank", "9"), queue="mail", priority=Priority.LOW
    )
    await client.schedules.put(Schedule("n", "charge", ({"password": SECRET},), every=60, options=options))
    before = await client.schedules.get("n")
    request = fleet.ScheduleRequest(name="n", workflow="charge", every=3600, queue="slow")
    await fleet.change_schedule(context, fleet.ScheduleChange(request=request, args="kept"))
    after = await client.schedules.get("n")
    assert before is not None
    assert after is not None
    assert (after.every, after.args) == (3600, [{"password": SECRET}])
    kept = {name: value for name, value in before.options.items() if name not in ("queue", "priority")}
    assert after.options == {**kept, "queue": "slow"}
    with pytest.raises(ScheduleNotFound):
        await fleet.change_schedule(
            context, fleet.ScheduleChange(request=msgspec.structs.replace(request, name="gone"), args="kept")
        )


async def test_what_stands_for_a_secret_is_never_saved_in_a_schedule(client: Client, context: Context) -> None:
    request = fleet.ScheduleRequest(name="n", workflow="charge", every=60, args=[{"password": MASK}])
    for refused_ in (
        fleet.put_schedule(context, request),
        fleet.put_schedule(context, msgspec.structs.replace(request, args=(), metadata={"to": MASK})),
    ):
        with pytest.raises(BadFields, match="write what is meant"):
            await refused_
    assert await client.schedules.list() == []


class Away:
    """A storage whose audit cannot be written."""

    def __init__(self, storage: object) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    async def write_audit(self, entries: object) -> None:
        raise StorageUnavailable("the database has gone")


async def test_where_the_audit_cannot_be_written_the_error_says_that_the_rest_was_done(client: Client) -> None:
    run = await client.start(charge, {})
    away = context_of(Client(Away(client.storage)))  # type: ignore[arg-type]
    with pytest.raises(StorageUnavailable) as lost:
        await cancel(away, run.id)
    assert lost.value.__notes__ == ["Asked it to cancel: that is done, and only the audit does not know of it."]
    assert (await run.info()).status is Status.CANCELLED
