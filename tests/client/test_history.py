"""A run's journal as entries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.client.history import Entry, entries_of
from runnerq.persistence.records import Attempt, Journal
from runnerq.runtime.worker import Worker
from runnerq.serialization.failures import modules_snapshot, record
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from runnerq.workflow.journal import Row, RowKind

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(second: int) -> datetime:
    return BEGAN + timedelta(seconds=second)


def row(place: int, kind: RowKind, position: str, value: Any = None, asked: list[list[Any]] | None = None) -> Row:
    text = None if value is None else msgspec.json.encode(value).decode()
    return Row(place, kind, position, at(place), text, msgspec.json.encode(asked or []).decode())


def entries(*rows: Row, attempts: tuple[Attempt, ...] = ()) -> dict[str, Entry]:
    journal = Journal(run_id="r", generation=2, rows=rows, attempts=attempts)
    return {f"{entry.kind} {entry.position}": entry for entry in entries_of(journal, "checkout")}


START = {"seed": "s", "build": "b", "rules": 1, "version": 1}


def test_every_command_is_an_entry_in_the_order_of_asking() -> None:
    found = entries(
        row(0, "started", "", START, [["1", "step", "reserve", "d"]]),
        row(
            1,
            "answered",
            "1",
            {"ok": True},
            [["2", "all", "", "d"], ["2.0", "step", "a", "d"], ["2.1", "sleep", "", "d"]],
        ),
        row(2, "answered", "2.1", None, []),
    )
    assert list(found) == ["started ", "step 1", "all 2", "step 2.0", "sleep 2.1"]
    assert found["started "].name == "checkout"
    assert all(entry.generation == 2 for entry in found.values())


def test_an_answer_brings_value_and_times() -> None:
    entry = entries(
        row(0, "started", "", START, [["1", "step", "reserve", "d"]]), row(3, "answered", "1", {"shelf": 7})
    )["step 1"]
    assert (entry.state, entry.value, entry.attempts) == ("answered", {"shelf": 7}, 1)
    assert (entry.asked_at, entry.answered_at) == (at(0), at(3))


def test_an_open_command_has_no_answer_and_counts_its_failed_attempts() -> None:
    failed = Attempt(position="1", number=2, error=None, at=at(1), next_at=at(2))
    entry = entries(row(0, "started", "", START, [["1", "step", "reserve", "d"]]), attempts=(failed,))["step 1"]
    assert (entry.state, entry.answered_at, entry.attempts) == ("asked", None, 2)


def test_a_failure_is_an_error_and_no_value() -> None:
    text = record(ValueError("no card"), modules_snapshot(), retryable=False)
    entry = entries(
        row(0, "started", "", START, [["1", "step", "charge", "d"]]), Row(1, "failed", "1", at(1), text, "[]")
    )["step 1"]
    assert entry.error is not None
    assert (entry.state, entry.value, entry.error.type, entry.error.message) == (
        "failed",
        None,
        "ValueError",
        "no card",
    )


def test_a_child_has_its_run_and_a_lost_wait_is_closed() -> None:
    asked = [
        ["1", "race", "", "d"],
        ["1.0", "child", "ship", "d", None, "kid"],
        ["1.1", "signal", "go", "d", "2027-01-01T00:00:00Z"],
    ]
    found = entries(
        row(0, "started", "", START, asked),
        row(1, "answered", "1.0", "sent"),
        row(2, "closed", "1.1"),
        row(3, "answered", "1", 0),
    )
    assert (found["child 1.0"].child_id, found["child 1.0"].value) == ("kid", "sent")
    assert found["signal 1.1"].state == "closed"
    assert found["race 1"].value == 0


def test_what_needs_no_answer_is_answered_when_it_is_asked() -> None:
    asked = [
        ["1", "publish", "", "d"],
        ["2", "spawn", "ship", "d", None, "kid"],
        ["3", "all", "", "d"],
        ["4", "sleep", "", "d"],
    ]
    found = entries(row(0, "started", "", START, asked))
    assert [entry.state for entry in found.values()] == ["answered"] * 4 + ["asked"]
    assert found["spawn 2"].child_id == "kid"


def test_a_cancel_is_an_entry_without_a_position_and_a_step_cut_off_is_interrupted() -> None:
    found = entries(
        row(0, "started", "", START, [["1", "step", "charge", "d"]]),
        row(1, "cancel", "", "too late"),
        row(2, "interrupted", "1"),
    )
    assert found["cancel "].value == "too late"
    assert found["step 1"].state == "interrupted"


def test_what_was_asked_anew_after_a_fault_is_there_and_its_mark_is_not() -> None:
    found = entries(
        row(0, "started", "", START, [["1", "step", "charge", "d"]]),
        Row(1, "answered", "1", at(1), "1", None),
        row(2, "mark", "", {"taken_up": True}, [["2", "sleep", "", "d"]]),
    )
    assert list(found) == ["started ", "step 1", "sleep 2"]
    assert found["sleep 2"].asked_at == at(2)


@activity(retry=1)
def fails() -> None:
    raise ValueError("it does")


@activity
def doubles(n: int) -> int:
    return n * 2


@workflow
def kid(ctx: Context, n: int) -> Flow[int]:
    doubled = yield from ctx.step(doubles, n)
    return doubled


@workflow
def everything(ctx: Context) -> Flow[int]:
    one = yield from ctx.step(doubles, 1)
    yield from ctx.publish(one=one)
    two, _ = yield from ctx.all(ctx.child(kid, one), ctx.sleep(0))
    yield from ctx.race(ctx.signal("go"), ctx.sleep(3600))
    spawned = yield from ctx.spawn(kid, 5)
    yield from spawned.result()
    try:
        yield from ctx.step(fails)
    except ValueError:
        return two
    return 0


async def test_the_history_of_a_real_run(client: Client) -> None:
    async with Worker(client, workflows=[everything, kid], activities=[doubles, fails]):
        run = await client.start(everything)
        await run.send("go", {"by": "me"})
        assert await run.result(timeout=20) == 4
        history = await run.history()
    assert [(entry.position, entry.kind, entry.name, entry.state) for entry in history] == [
        ("", "started", "everything", "answered"),
        ("1", "step", "doubles", "answered"),
        ("2", "publish", "", "answered"),
        ("3", "all", "", "answered"),
        ("3.0", "child", "kid", "answered"),
        ("3.1", "sleep", "", "answered"),
        ("4", "race", "", "answered"),
        ("4.0", "signal", "go", "answered"),
        ("4.1", "sleep", "", "closed"),
        ("5", "spawn", "kid", "answered"),
        ("6", "child", "kid", "answered"),
        ("7", "step", "fails", "failed"),
    ]
    by_position = {entry.position: entry for entry in history}
    assert by_position["4.0"].value == {"by": "me"}
    assert by_position["5"].child_id == by_position["6"].child_id is not None
    assert by_position["7"].error is not None
    assert all(entry.answered_at is not None and entry.answered_at >= entry.asked_at for entry in history)


async def test_a_generation_that_is_not_there_is_a_value_error(client: Client) -> None:
    run = await client.start(everything)
    assert await run.history() == await run.history(1) == []
    with pytest.raises(ValueError, match="generations 1 to 1, not 2"):
        await run.history(2)
