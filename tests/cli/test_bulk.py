"""A verb for many runs at once: named one by one, or all that fit conditions."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from runnerq.cli.acting import context
from runnerq.cli.bulk import Asked, change
from runnerq.cli.progress import bar
from runnerq.console.actions.batches import BatchRequest, Selection, preview, start_batch
from runnerq.console.models.batches import BatchView
from runnerq.console.models.filters import RunQuery
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Sent
from tests.cli.counter import Counter


@pytest.fixture
def four(counter: Counter) -> list[str]:
    """Four open runs, three of them of one name."""
    return [counter.start("wanted") for _ in range(3)] + [counter.start("other")]


def statuses(counter: Counter) -> list[str]:
    return [run["status"] for run in counter.answer("list", "--oldest-first")["items"]]


def test_it_says_how_many_and_which_and_where_and_goes_on_when_it_is_told_to(counter: Counter, four: list[str]) -> None:
    done = counter.call("cancel", "--where", "workflow=wanted", "--reason", "no more", typed="y\n")
    assert done.exit_code == 0, done.stderr
    assert "cancel 3 runs at MemoryStorage:" in done.stderr
    assert all(run_id in done.stderr for run_id in four[:3])
    assert "cancel: 3 looked at, 3 changed, 0 could not be" in done.stderr
    assert statuses(counter) == ["cancelled", "cancelled", "cancelled", "pending"]
    rows = counter.answer("audit", "--action", "cancel")["items"]
    assert [(row["reason"], row["run_id"]) for row in rows] == [("no more", run_id) for run_id in four[:3]]


@pytest.mark.parametrize(("typed", "code"), [("n\n", 1), ("", 2)])
def test_without_a_yes_nothing_is_changed(counter: Counter, four: list[str], typed: str, code: int) -> None:
    done = counter.call("terminate", "--where", "workflow=wanted", typed=typed)
    assert (done.exit_code, "nothing was changed" in done.stderr) == (code, True)
    assert statuses(counter) == ["pending"] * len(four)


async def test_what_is_started_while_it_asks_is_left_alone(counter: Counter) -> None:
    async with counter.client() as client:
        first = await client.start("wanted")
        here = context(client)
        request = BatchRequest(action="cancel", selection=Selection(query=RunQuery(workflow="wanted")))
        seen = await preview(here, request)
        later = await client.start("wanted")
        begun = await start_batch(here, request, as_of=seen.at)
        while (view := here.batches.get(begun.id)).state == "running":
            await asyncio.sleep(0)
        assert (seen.count.n, view.changed) == (1, 1)
        assert [(await each.info()).status for each in (first, later)] == ["cancelled", "pending"]


class Interrupting(io.BytesIO):
    """Where somebody presses Ctrl-C when they are asked."""

    def readinto(self, buffer: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0


def test_ctrl_c_at_the_question_changes_nothing_and_is_exit_code_130(counter: Counter, four: list[str]) -> None:
    done = counter.call("terminate", "--where", "workflow=wanted", typed=io.BufferedReader(Interrupting()))
    assert (done.exit_code, "interrupted" in done.stderr) == (130, True)
    assert statuses(counter) == ["pending"] * len(four)


def test_a_dry_run_counts_them_and_shows_the_first(counter: Counter, four: list[str]) -> None:
    told = counter.answer("delete", "--where", "workflow=wanted status=pending", "--dry-run")
    assert told["count"] == {"n": 0, "capped": False}  # what is open is nothing for this verb
    told = counter.answer("priority", "--where", "workflow=wanted", "low", "--dry-run")
    assert (told["count"]["n"], told["batch"]) == (3, None)
    assert [run["id"] for run in told["sample"]] == four[2::-1]
    assert statuses(counter) == ["pending"] * len(four)


def test_what_cannot_be_changed_is_named_and_the_rest_is_changed(counter: Counter, four: list[str]) -> None:
    counter.call("cancel", four[0])
    done = counter.call("delete", *four[:2], "--yes", "-o", "json")
    batch = json.loads(done.stdout)["batch"]
    assert (done.exit_code, batch["done"], batch["changed"], batch["failed"]) == (1, 2, 1, 1)
    assert f"{four[1]}: " in done.stderr
    assert [run["id"] for run in counter.answer("list", "--oldest-first")["items"]] == four[1:]
    none = counter.call("delete", *four[1:3])
    assert (none.exit_code, none.stderr.count("cancel or terminate it first")) == (1, 2)


@pytest.mark.parametrize(
    ("words", "after"),
    [
        (("run-now", "--where", "status=scheduled"), "pending"),
        (("priority", "--where", "status=scheduled", "high"), "scheduled"),
        (("retry", "--where", "status=dead_letter"), "pending"),
        (("dead", "redrive", "--all"), "pending"),
    ],
)
def test_each_verb_may_be_for_many(counter: Counter, words: tuple[str, ...], after: str) -> None:
    changed = counter.start("x", "--delay", "1h") if "status=scheduled" in words else counter.start("failing")
    counter.work()
    batch = counter.answer(*words, "--yes")["batch"]
    assert (batch["state"], batch["changed"]) == ("done", 1)
    assert counter.status(changed) == after


def test_the_one_that_is_meant_may_be_named_by_its_key(counter: Counter) -> None:
    run_id = counter.start("x", "--key", "k")
    assert counter.call("cancel", "--key", "k", "--workflow", "x").exit_code == 0
    assert counter.status(run_id) == "cancelled"
    for also in (run_id, "--where=status=pending"):
        assert counter.call("cancel", "--key", "k", "--workflow", "x", also).exit_code == 2


def test_what_ended_long_ago_is_pruned_by_how_it_ended(counter: Counter) -> None:
    failed, done = counter.start("failing"), counter.start("greeting", '"Ada"')
    counter.work()
    assert counter.answer("prune", "--older-than", "1h", "--yes")["count"]["n"] == 0
    assert (
        counter.answer("prune", "--older-than", "2100-01-01", "--status", "completed", "--yes")["batch"]["changed"] == 1
    )
    assert (counter.call("show", done).exit_code, counter.status(failed)) == (3, "dead_letter")
    for wrong in ("long", ""):
        assert counter.call("prune", "--older-than", wrong, "--yes").exit_code == 2
    assert counter.status(failed) == "dead_letter"


@pytest.mark.parametrize(
    "words",
    [
        ("cancel",),
        ("cancel", "01234567", "--where", "status=failed"),
        ("cancel", "--where", "status=exploded"),
        ("delete", "--where", "", "--yes"),  # as a shell has it where a variable is not set
        ("delete", "--where", "roots=0", "--yes"),  # says of no run that it is none of them
        ("delete", "--where", "workflow=", "--yes"),
        ("retry", "01234567", "01234568", "--accept", "arguments"),
    ],
)
def test_which_runs_must_be_said_in_one_way(counter: Counter, words: tuple[str, ...]) -> None:
    done = counter.call(*words)
    assert (done.exit_code, done.stdout) == (2, "")


class Halting(MemoryStorage):
    """One that keeps the second cancel waiting until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.halted, self.let_go = asyncio.Event(), asyncio.Event()
        self._cancels = 0

    async def cancel(self, run_ids: Sequence[str], reason: str | None = None) -> list[Sent]:
        self._cancels += 1
        if self._cancels == 2:
            self.halted.set()
            await self.let_go.wait()
        return await super().cancel(run_ids, reason)


async def test_an_interrupt_ends_it_after_the_run_that_it_is_at(
    counter: Counter, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = counter.storage = Halting()
    async with counter.client() as client:
        runs = [await client.start("x") for _ in range(4)]
        request = BatchRequest(action="cancel", selection=Selection(query=RunQuery(workflow="x")))
        changing = asyncio.create_task(change(context(client), request, Asked(yes=True), "json"))
        await storage.halted.wait()
        changing.cancel()
        storage.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await changing
        ended = [(await run.status()).ended for run in runs]
    assert sorted(ended) == [False, False, True, True]
    assert "stopped: 2 were looked at, 2 of them were changed" in capsys.readouterr().err


def test_a_terminal_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    view = BatchView(
        id="b", action="cancel", principal="ada", reason=None, what="all runs", params=(),
        started_at=datetime(2026, 1, 1, tzinfo=UTC), total=7, done=3,
    )  # fmt: skip
    with bar("cancel") as tell:
        tell(view)
    assert "3/7" in capsys.readouterr().err
