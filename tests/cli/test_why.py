"""``why``: for each way of standing still, why, and what to do about it."""

from __future__ import annotations

import asyncio

import pytest

from runnerq.clock import ManualClock
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import ClaimRequest, Definition, WorkerRow
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.cli import changed_flows
from tests.cli.counter import Counter
from tests.cli.flows import GO


@workflow(name="waiting", version=2)
def hurried(ctx: Context) -> Flow[int]:
    """Waits as flows.waiting does, and not for ever."""
    yield from ctx.publish(stage="waiting")
    return (yield from ctx.signal(GO, timeout=5))


@pytest.mark.parametrize(
    ("words", "status", "because", "advice"),
    [
        (("nobody_serves",), "pending", "no worker has registered 'nobody_serves' so far", "runnerq workers list"),
        (("waiting",), "waiting", "signal 'go'", "runnerq send {id} go JSON, where JSON is a whole number"),
        (("resting",), "waiting", "until ", None),
        (("x", "--delay", "1h"), "scheduled", "it is to begin at ", "runnerq run-now {id}"),
        (("flaky", "1"), "retrying", "flaky has failed once: ConnectionError: no answer 1", "runnerq run-now {id}"),
        (("failing",), "dead_letter", "ValueError: boom", "runnerq retry {id}"),
        (("regretting",), "failed", "ValueError: no", "it cannot go on: it has undone what it did"),
        (("mistaken",), "blocked", "looks like a fault of the code", "repair the code"),
        (("greeting", '"Ada"'), "completed", "it waits for nothing", "runnerq result {id}"),
    ],
)  # fmt: skip
def test_it_says_why_and_what_to_do(
    counter: Counter, words: tuple[str, ...], status: str, because: str, advice: str | None
) -> None:
    run_id = counter.start(*words)
    counter.work()
    told = counter.answer("why", run_id)
    assert told["status"] == status
    assert because in "\n".join(told["because"])
    if advice is not None:
        assert advice.format(id=run_id) in "\n".join(told["advice"])
    shown = " ".join(counter.call("why", run_id).stdout.split())
    assert told["because"][0] in shown


def test_a_run_that_the_code_does_not_follow_is_told_from_a_fault_of_the_code(counter: Counter) -> None:
    run_id = counter.start("waiting")
    counter.work()
    counter.call("send", run_id, "go", "1")
    counter.work([changed_flows.waiting], build="changed")
    told = counter.answer("why", run_id)
    assert told["because"][0] == "it is blocked: the code does not do again what is on record"
    assert "changed_flows.py" in told["because"][2]
    assert f"what to do: runnerq why {run_id}" in counter.call("show", run_id).stdout
    assert f"it is blocked, and goes no further: `runnerq why {run_id}`" in counter.call("history", run_id).stderr
    assert not any("--accept" in each for each in told["advice"])
    counter.work([hurried], build="hurried")
    told = counter.answer("why", run_id)
    assert "signal 'go' with another timeout, default or latest" in told["because"][1]
    assert f"or, if the difference does no harm: runnerq retry {run_id} --accept arguments" in told["advice"]


def test_a_run_that_waits_for_a_child_leads_to_it(counter: Counter) -> None:
    parent = counter.start("keeping")
    counter.work()
    told = counter.answer("why", parent)
    [child] = told["waiting"]["children"]
    assert f"see what a child waits for: runnerq why {child['id']}" in told["advice"]


def test_a_worker_that_is_silent_is_told_of_at_once_by_whatever_shows_workers(counter: Counter) -> None:
    clock = ManualClock()
    counter.storage = MemoryStorage(clock)
    row = WorkerRow(id=4711, lease=60.0, host="h", pid=1, build="b", queues=("q",), served=("greeting@1",))
    known = Definition(kind="workflow", name="greeting", version=1, queue="q", build="b")
    asyncio.run(counter.storage.register(row, [known]))
    run_id = counter.start("greeting", '"Ada"', "--queue", "q")
    clock.advance(12)
    assert "the one that does has been silent for 12 s" in "\n".join(counter.answer("why", run_id)["because"])
    assert "silent for 12 s" in counter.call("show", run_id).stdout
    assert "silent for 12 s" in counter.call("workers", "list").stdout
    assert "silent for 12 s" in counter.call("workers", "show", "4711").stdout
    assert counter.answer("workers", "list", "--alive") == []
    stats = counter.call("stats")
    assert (counter.answer("stats")["workers"], "is silent for 12 s" in stats.stderr) == (0, True)


def test_a_run_that_is_running_says_which_worker_has_it_and_whether_that_is_heard_of(counter: Counter) -> None:
    clock = ManualClock()
    counter.storage = MemoryStorage(clock)
    row = WorkerRow(id=4711, lease=60.0, host="web-7", pid=12, build="b", queues=("default",), served=("greeting@1",))
    known = Definition(kind="workflow", name="greeting", version=1, queue="default", build="b")
    asyncio.run(counter.storage.register(row, [known]))
    run_id = counter.start("greeting", '"Ada"')
    asked = ClaimRequest(worker_id=row.id, token=1, pairs=(("default", "greeting@1"),), limit=1)
    asyncio.run(counter.storage.claim(asked))
    assert counter.answer("why", run_id)["because"] == ["it waits for nothing: a worker is at it, web-7, process 12"]
    assert "web-7, process 12" in counter.call("show", run_id).stdout
    assert counter.call("list", "--worker", "4711", "-o", "id").stdout.split() == [run_id]
    assert counter.call("list", "--worker", "4712", "-o", "id").stdout == ""
    clock.advance(12)
    told = counter.answer("why", run_id)
    assert told["because"] == ["the worker that has it is not heard of: web-7, process 12, silent for 12 s"]
    assert "runnerq workers show 4711" in told["advice"][1]
    assert "silent for 12 s" in counter.call("show", run_id).stdout
    assert "silent for 12 s" in counter.call("list").stdout


def test_a_list_says_of_each_run_why_it_does_not_go_on(counter: Counter) -> None:
    blocked, unserved = counter.start("mistaken"), counter.start()
    counter.work()
    counter.call("queue", "pause", "slow")
    paused = counter.start("greeting", '"Ada"', "--queue", "slow")
    shown = {line.split()[0]: line for line in counter.call("list").stdout.splitlines()}
    assert shown[blocked].rstrip().endswith("LookupError: token: ••••••")
    assert "no worker has registered 'nobody_serves_this' so far" in shown[unserved]
    assert shown[paused].rstrip().endswith("queue 'slow' is paused")


def test_a_pause_is_told_of_and_how_it_ends(counter: Counter) -> None:
    counter.work()  # so that a worker has told what it serves
    counter.call("queue", "pause", "default")
    told = counter.answer("why", counter.start("greeting", '"Ada"'))
    assert "queue 'default' is paused" in told["because"]
    assert told["advice"] == ["end the pause: runnerq queue resume default"]
    assert any("runnerq queue resume default" in each for each in told["advice"])
