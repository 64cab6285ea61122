"""The client for code without an event loop: its verbs, on a real Postgres, with a worker in another thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import pytest

from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.client.handle import Handle
from runnerq.client.schedule import Schedule
from runnerq.client.sync.client import SyncClient
from runnerq.client.sync.delegation import Blocking
from runnerq.client.sync.handle import SyncHandle
from runnerq.errors import ResultTimeout, RunFailed, RunFinished
from runnerq.persistence.records import Parent, Priority, RunFilter, Status
from tests.client.serving import SOON, cursor_of, explode, telling
from tests.client.shop import APPROVAL, ORDER, Shipment, checkout, mail


@pytest.fixture
def client(served: str) -> Iterator[SyncClient]:
    with SyncClient(served) as client:
        yield client


# --- the same verbs ---------------------------------------------------------------------------------------------------

FOR_WORKERS = {"storage", "codec", "opened_on", "place", "listeners"}
"""What a worker or a console asks a client for. They need a client of their own event loop."""
HOW_IT_IS_MADE = {"of"}
LIFE = {"open", "close"}


def names(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")} - FOR_WORKERS - HOW_IT_IS_MADE


def namespaces() -> list[tuple[str, type, type]]:
    """``queues`` and its like: the name, the class that is awaited, and the one that waits."""
    return [
        (name, get_type_hints(asked.fget)["return"], get_type_hints(getattr(SyncClient, name).fget)["return"])
        for name in sorted(names(Client))
        if isinstance(asked := getattr(Client, name), property)
    ]


def pairs() -> list[tuple[type, type]]:
    return [(Client, SyncClient), (Handle, SyncHandle), *((asked, waits) for _, asked, waits in namespaces())]


def as_waited_for(signature: inspect.Signature) -> str:
    return str(signature).replace("Handle[", "SyncHandle[").replace("AsyncIterator", "Iterator")


def test_every_verb_is_there_with_its_arguments_and_its_words() -> None:
    found = pairs()
    assert len(found) > 2
    for asked, waits in found:
        assert issubclass(waits, Blocking)
        assert names(waits) == names(asked)
        for name in sorted(names(asked) - LIFE):
            theirs, ours = getattr(asked, name), getattr(waits, name)
            assert theirs.__doc__ in (None, ours.__doc__), name
            if callable(theirs):
                assert str(inspect.signature(ours)) == as_waited_for(inspect.signature(theirs)), name
                assert not inspect.iscoroutinefunction(ours), name
                assert not inspect.isasyncgenfunction(ours), name


def test_it_is_made_as_a_client_is() -> None:
    assert inspect.signature(SyncClient).parameters == inspect.signature(connect).parameters


def verbs_of_the_client(client: SyncClient) -> dict[str, Callable[[], bool]]:
    """Each verb, called so that its answer shows that it was carried out."""
    here = client.options(queue="unserved", key="first")
    first = here.start(mail, "a")
    with pytest.raises(RunFailed, match="as it must"):
        client.options(retry=1).start(explode).result(SOON)
    ended = client.start(mail, "ended")
    ended.result(SOON)
    told = client.start(telling)
    told.reached(Status.WAITING, timeout=SOON)
    today = datetime.now(UTC)
    tomorrow = today + timedelta(days=1)
    dead = client.list(RunFilter(status=Status.DEAD_LETTER)).items[0].id

    def others(count: int) -> list[SyncHandle[Any]]:
        return client.options(queue="unserved").start_many(mail, ((str(n),) for n in range(count)))

    return {
        "start": lambda: here.start(mail, "again").id == first.id,
        "start_many": lambda: [run.created for run in others(3)] == [True] * 3,
        "options": lambda: client.options(priority=Priority.HIGH, queue="unserved").start(mail, "x").created,
        "within": lambda: client.within(below(first.id)).start(mail, "below").info().parent_id == first.id,
        "handle": lambda: client.handle(first.id).status() is Status.PENDING,
        "handle_by_key": lambda: client.handle_by_key(mail, "first").info().id == first.id,
        "fork": lambda: client.fork(told.id, from_entry=told.history()[1].position).created,
        "send": lambda: client.send(told.id, "other", 1, dedup="once"),
        "signal": lambda: client.signal(told.id, "other", 1, dedup="twice"),
        "info": lambda: client.info(first.id).key == "first",
        "state": lambda: client.state(told.id) == {"seen": 1},
        "history": lambda: client.history(told.id)[0].kind == "started",
        "export": lambda: client.export(told.id)["workflow"] == "telling",
        "list": lambda: len(client.list(limit=2).items) == 2,
        "count": lambda: client.count(RunFilter(workflow="telling")) >= 1,
        "aggregate": lambda: bool(client.aggregate("status").groups),
        "failures": lambda: client.failures().groups[0].workflow == "explode",
        "activity": lambda: len(client.activity(today, tomorrow, span=86_400)) == 2,
        "activity_by_workflow": lambda: client.activity_by_workflow(tomorrow, tomorrow) == [],
        "tree": lambda: client.tree(told.id).id == told.id,
        "stats": lambda: len(client.stats().workers) == 1,
        "events": lambda: isinstance(next(client.events(cursor_of(client))).kind, str),
        "reschedule": lambda: client.reschedule(first.id, tomorrow),
        "set_priority": lambda: client.set_priority(first.id, Priority.LOW),
        "run_now": lambda: client.run_now(first.id),
        "cancel": lambda: client.cancel(first.id),
        "terminate": lambda: client.terminate(told.id),
        "delete": lambda: client.delete(ended.id),
        "redrive": lambda: client.redrive(dead, dry_run=True) == 1,
        "retry": lambda: client.retry(dead),
        "open": lambda: client.open() is None,
        "close": lambda: client.close() is None,
    }  # fmt: skip


def below(run_id: str) -> Parent:
    return Parent(
        run_id=run_id, root_id=run_id, depth=0, priority=Priority.NORMAL, queue="unserved", position="1/", key=run_id,
        max_depth=32,
    )  # fmt: skip


def test_every_verb_of_the_client_is_carried_out(client: SyncClient) -> None:
    verbs = verbs_of_the_client(client)
    assert set(verbs) == names(Client) - {name for name, _, _ in namespaces()}
    assert [name for name, call in verbs.items() if not call()] == []


def test_every_verb_of_a_handle_is_carried_out(client: SyncClient) -> None:
    run = client.start(telling)
    verbs: dict[str, Callable[[], object]] = {
        "id": lambda: run.id == client.info(run.id).id,
        "created": lambda: run.created,
        "reached": lambda: run.reached(Status.WAITING, timeout=SOON) is Status.WAITING,
        "wait": lambda: run.wait(lambda state: state.get("seen"), timeout=SOON) == {"seen": 1},
        "status": lambda: run.status() is Status.WAITING,
        "state": lambda: run.state() == {"seen": 1},
        "info": lambda: run.info().workflow == "telling",
        "history": lambda: [entry.kind for entry in run.history()] == ["started", "publish", "signal"],
        "send": lambda: run.send("go on", "now"),
        "result": lambda: run.result(timeout=SOON) == "now",
        "cancel": lambda: run.cancel() is False,
    }
    assert set(verbs) == names(Handle)
    assert [name for name, call in verbs.items() if not call()] == []
    assert repr(run) == f"SyncHandle({run.id!r})"


def test_every_verb_of_a_namespace_is_carried_out(client: SyncClient) -> None:
    queues, limits, schedules, audit = client.queues, client.limits, client.schedules, client.audit
    hourly = Schedule("hourly", mail, ("me",), every=timedelta(hours=1), options={"queue": "unserved"})
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    verbs: dict[str, dict[str, Callable[[], object]]] = {
        "queues": {
            "pause": lambda: queues.pause("some"),
            "list": lambda: "some" in {queue.name for queue in queues.list()},
            "resume": lambda: queues.resume("some"),
        },
        "audit": {
            "record": lambda: audit.record("ann", "pause", target="queue some"),
            "list": lambda: [entry.principal for entry in audit.list().items] == ["ann"],
        },
        "limits": {
            "set": lambda: limits.set("stripe", concurrency=3) is None,
            "list": lambda: [limit.scope for limit in limits.list()] == ["stripe"],
            "get": lambda: (found := limits.get("stripe")) is not None and found.concurrency == 3,
            "delete": lambda: limits.delete("stripe"),
        },
        "schedules": {
            "put": lambda: schedules.put(hourly),
            "list": lambda: [schedule.name for schedule in schedules.list()] == ["hourly"],
            "get": lambda: schedules.get("hourly") is not None,
            "pause": lambda: schedules.pause("hourly"),
            "resume": lambda: schedules.resume("hourly"),
            "trigger": lambda: schedules.trigger("hourly").status() is Status.PENDING,
            "backfill": lambda: schedules.backfill("hourly", an_hour_ago, datetime.now(UTC)) == 2,
            "delete": lambda: schedules.delete("hourly"),
        },
    }
    assert {name: set(found) for name, found in verbs.items()} == {
        name: names(asked) for name, asked, _ in namespaces()
    }
    assert [verb for found in verbs.values() for verb, call in found.items() if not call()] == []


def test_results_and_errors_are_those_of_the_client(client: SyncClient) -> None:
    run = client.start(checkout, ORDER)
    with pytest.raises(ResultTimeout):
        run.result(timeout=0)
    assert run.send(APPROVAL, True)
    assert run.result(timeout=SOON) == Shipment("cup")
    with pytest.raises(RunFinished):
        client.send(run.id, APPROVAL, True)
    with pytest.raises(TypeError, match="cannot be started with these arguments"):
        client.start(mail, 5)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="'no id'"):
        client.info("no id")


def test_events_are_iterated_over(client: SyncClient) -> None:
    events = client.events(cursor_of(client))
    assert next(events).kind == "started"
    run = client.start(checkout, ORDER)
    client.terminate(run.id)
    kinds = []
    for event in events:
        kinds += [event.kind] if event.run_id == run.id else []
        if event.kind == "cancelled":
            break
    assert kinds[0] == "started"
    assert kinds[-1] == "cancelled"
