"""What is around the runs: dead letters, queues, workers, limits, schedules, the audit; on a storage in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from click.testing import Result

from runnerq.cli import audit
from runnerq.client.client import Client
from runnerq.ids import new_run_id, new_token
from runnerq.persistence.postgres import reads
from runnerq.persistence.records import WorkerRow
from runnerq.runtime.worker import Worker
from tests.cli.counter import Counter
from tests.cli.flows import greet, greeting


def served(counter: Counter, **changed: object) -> str:
    """Have a worker on record that lives; its id."""
    row = WorkerRow(id=new_token(), lease=3600.0, host="h", pid=4711, build="b", queues=("q",), served=("greeting@1",))
    asyncio.run(counter.storage.register(row, []))
    return str(row.id)


class TestDead:
    @pytest.fixture
    def letters(self, counter: Counter) -> list[str]:
        """Three dead letters, and a run that is none."""
        ids = [counter.start("failing", "--queue", queue) for queue in ("default", "default", "default")]
        counter.start()
        counter.work()
        return ids

    def test_they_are_listed_alone_by_their_id_and_in_groups(self, counter: Counter, letters: list[str]) -> None:
        assert counter.call("dead", "list", "-o", "id").stdout.split() == letters[::-1]
        [group] = counter.answer("dead", "groups")["groups"]
        assert (group["count"], group["workflow"], group["type"]) == (3, "failing", "ValueError")
        table = counter.call("dead", "groups").stdout
        assert group["fingerprint"] in table
        [which] = counter.call("dead", "groups", "-o", "id").stdout.splitlines()
        assert which in table
        of_group = counter.call("dead", "redrive", "--where", which, "--dry-run", "-o", "id")
        assert of_group.stdout.split() == letters[::-1]
        other = counter.call("dead", "redrive", "--where", which.replace("failing", "another"), "--dry-run", "-o", "id")
        assert other.stdout == ""

    def test_one_goes_on_and_all_do_once_somebody_has_agreed(self, counter: Counter, letters: list[str]) -> None:
        assert counter.answer("dead", "redrive", letters[0])["changed"]
        assert counter.call("dead", "redrive", letters[0]).exit_code == 4
        refused = counter.call("dead", "redrive", "--all", typed="n\n")
        assert (refused.exit_code, "redrive 2 runs" in refused.stderr) == (1, True)
        batch = counter.answer("dead", "redrive", "--all", "--yes", "--reason", "mended")["batch"]
        assert (batch["changed"], batch["failed"]) == (2, 0)
        rows = counter.answer("audit", "--action", "redrive")["items"]
        assert [row["reason"] for row in rows] == ["mended", "mended", None, None][: len(rows)]

    def test_one_is_discarded_for_good_and_a_run_that_is_none_is_not(
        self, counter: Counter, letters: list[str]
    ) -> None:
        assert counter.answer("dead", "discard", letters[0])["changed"]
        assert counter.call("show", letters[0]).exit_code == 3
        batch = counter.answer("dead", "discard", "--workflow", "failing", "--yes")["batch"]
        assert batch["changed"] == 2
        other = counter.start()
        counter.call("terminate", other)
        kept = counter.call("dead", "discard", other)
        assert (kept.exit_code, "runnerq delete" in kept.stderr) == (4, True)

    @pytest.mark.parametrize(
        "words", [[], ["--all", "--queue", "q"], [new_run_id(), "--all"], [new_run_id(), "--queue", "q"]]
    )
    @pytest.mark.parametrize("verb", ["redrive", "discard"])
    def test_which_ones_must_be_said_in_one_way(self, counter: Counter, verb: str, words: list[str]) -> None:
        refused = counter.call("dead", verb, *words)
        assert (refused.exit_code, "--all" in refused.stderr) == (2, True)


class TestQueues:
    def test_one_is_paused_with_a_reason_shown_and_resumed(self, counter: Counter) -> None:
        counter.start("--queue", "slow")
        assert "Queue slow is paused" in counter.call("queue", "pause", "slow", "--reason", "closed").stderr
        assert not counter.answer("queue", "pause", "slow")["changed"]
        [slow] = counter.answer("queue", "list")
        assert (slow["name"], slow["ready"], slow["obstacle"], slow["reason"]) == ("slow", 1, "it is paused", "closed")
        shown = counter.call("queue", "show", "slow").stdout
        assert ": closed" in shown
        assert "nobody_serves_this" in shown
        assert counter.call("queue", "list", "-o", "id").stdout == "slow\n"
        assert "it is paused" in counter.call("queue", "list").stdout
        assert "Queue slow goes on" in counter.call("queue", "resume", "slow").stderr
        assert counter.answer("queue", "list")[0]["obstacle"] == "no living worker works on it"


class TestWorkers:
    def test_they_are_listed_and_shown_with_what_they_serve(self, counter: Counter) -> None:
        worker = served(counter)
        [listed] = counter.answer("workers", "list")
        assert (listed["id"], listed["state"], listed["serves"]) == (worker, "alive", ["greeting@1"])
        assert counter.answer("workers", "show", worker) | {"beat_age": 0} == listed | {"beat_age": 0}
        assert "4711" in counter.call("workers", "list").stdout
        assert counter.call("workers", "list", "--alive", "-o", "id").stdout == f"{worker}\n"
        assert "greeting@1" in counter.call("workers", "show", worker).stdout
        missing = counter.call("workers", "show", "12")
        assert (missing.exit_code, missing.stdout) == (3, "")

    def test_one_that_is_told_to_drain_ends_its_run_claims_no_more_and_leaves(self, counter: Counter) -> None:
        async def drained() -> None:
            async with Client(counter.storage) as client:
                worker = Worker(client, workflows=[greeting], activities=[greet], beat=0.01)
                working = asyncio.create_task(worker.run())
                run = await client.start(greeting, "Ada")
                await run.result(timeout=60)
                told = await asyncio.to_thread(
                    counter.answer, "workers", "drain", str(worker.worker_id), "--wait", "60s"
                )
                assert told["changed"]
                await working
                left = await client.start(greeting, "Bob")
                assert (await left.status()).value == "pending"

        asyncio.run(drained())
        [gone] = counter.answer("workers", "list")
        assert (gone["state"], gone["drain_at"] is None) == ("left", False)
        assert counter.answer("workers", "list", "--alive") == []
        again = counter.call("workers", "drain", gone["id"])
        assert (again.exit_code, counter.call("workers", "drain", "nobody").exit_code) == (3, 3)
        [row] = counter.answer("audit", "--action", "worker-drain", "--limit", "1")["items"]
        assert row["target"] == "nobody"

    def test_one_that_does_not_leave_in_time_is_exit_code_124(self, counter: Counter) -> None:
        waited = counter.call("workers", "drain", served(counter), "--wait", "1ms")
        assert (waited.exit_code, "has not left within 0.001 s" in waited.stderr) == (124, True)

    def test_stats_say_what_is_open_and_what_needs_somebody(self, counter: Counter) -> None:
        counter.start("--queue", "slow")
        shown = counter.call("stats")
        assert "No living worker serves nobody_serves_this on queue slow" in shown.stderr
        assert "ready" in shown.stdout
        assert {tile["name"]: tile["count"]["n"] for tile in counter.answer("stats")["tiles"]}["ready"] == 1


class TestLimits:
    def test_one_is_set_listed_changed_and_ended(self, counter: Counter) -> None:
        assert "stripe" in counter.call("limits", "set", "stripe", "--concurrency", "5", "--rate", "100/1m").stderr
        [stripe] = counter.answer("limits", "list")
        assert (stripe["concurrency"], stripe["rate"], stripe["per"], stripe["per_key"]) == (5, 100, 60.0, False)
        assert "100 in 60 s" in counter.call("limits", "list").stdout
        counter.answer("limits", "set", "stripe", "--rate", "5/s", "--per-key")
        [stripe] = counter.answer("limits", "list")
        assert (stripe["concurrency"], stripe["rate"], stripe["per"], stripe["per_key"]) == (None, 5, 1.0, True)
        assert counter.answer("limits", "delete", "stripe")["changed"]
        assert not counter.answer("limits", "delete", "stripe")["changed"]
        assert counter.answer("limits", "list") == []

    @pytest.mark.parametrize(
        "wrong",
        [
            [],
            ["--rate", "often"],
            ["--rate", "5"],
            ["--rate", "5/never"],
            ["--rate", "0/1s"],
            ["--concurrency", "-1"],
        ],
    )
    def test_what_can_be_no_limit_is_wrong_usage(self, counter: Counter, wrong: list[str]) -> None:
        refused = counter.call("limits", "set", "stripe", *wrong)
        assert (refused.exit_code, refused.stdout) == (2, "")


class TestSchedules:
    def test_one_is_made_shown_listed_and_made_again_without_a_change(self, counter: Counter) -> None:
        words = [
            "schedule", "create", "nightly", "greeting", '"Ada"', "--cron", "30 2 * * *", "--zone", "Europe/Berlin",
            "--missed", "all", "--overlap", "allow", "--jitter", "5m", "--queue", "slow", "--metadata", "team=a",
            "--timeout", "1m", "--priority", "low",
        ]  # fmt: skip
        made = counter.call(*words).stderr
        assert "Saved schedule nightly" in made
        assert "No worker has registered 'greeting'" in made
        assert not counter.answer(*words)["changed"]
        shown = counter.answer("schedule", "show", "nightly")
        assert (shown["workflow"], shown["version"], json.loads(shown["args"]["text"])) == ("greeting", None, ["Ada"])
        assert (shown["cron"], shown["zone"], shown["missed"], shown["jitter"]) == (
            "30 2 * * *", "Europe/Berlin", "all", 300.0,
        )  # fmt: skip
        options = {"queue": "slow", "metadata": {"team": "a"}, "timeout": 60.0, "priority": "low"}
        assert dict(shown["options"]) == options
        assert "At 02:30" in counter.call("schedule", "show", "nightly").stdout
        assert counter.call("schedule", "list", "-o", "id").stdout == "nightly\n"
        assert "Europe/Berlin" in counter.call("schedule", "list").stdout
        assert counter.answer("schedule", "put", "nightly", "greeting", "--every", "1h")["changed"]
        assert counter.answer("schedule", "show", "nightly")["every"] == 3600.0

    def test_arguments_that_no_version_takes_are_refused_unless_one_insists(self, counter: Counter) -> None:
        counter.start("greeting", '"Ada"')
        counter.work()
        wrong = ["schedule", "create", "odd", "greeting", "1", "2", "3", "--every", "1h"]
        assert counter.call(*wrong).exit_code == 2
        assert counter.call(*wrong, "--unchecked").exit_code == 0

    def test_one_is_paused_resumed_triggered_backfilled_and_deleted(self, counter: Counter) -> None:
        counter.call("schedule", "create", "hello", "greeting", '"Ada"', "--cron", "0 0 1 1 *")
        assert counter.answer("schedule", "pause", "hello")["changed"]
        assert not counter.answer("schedule", "pause", "hello")["changed"]
        run_id = counter.call("schedule", "trigger", "hello").stdout.strip()
        counter.work()
        assert json.loads(counter.call("result", run_id).stdout) == {"text": "Hello, Ada!"}
        years = ["schedule", "backfill", "hello", "--since", "2020-01-01", "--until", "2022-01-01"]
        assert counter.answer(*years)["count"] == 2
        assert counter.answer(*years)["count"] == 0
        assert counter.answer("schedule", "resume", "hello")["changed"]
        assert not counter.answer("schedule", "resume", "hello")["changed"]
        assert counter.answer("schedule", "delete", "hello")["changed"]

    def test_what_cannot_be_is_told_in_a_line_with_an_exit_code(self, counter: Counter) -> None:
        refused = counter.call("schedule", "create", "bad", "greeting", "--cron", "61 * * * *")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "'61' is no minute" in refused.stderr
        assert counter.call("schedule", "create", "bad", "greeting").exit_code == 2
        for verb in ("show", "pause", "resume", "trigger", "delete"):
            unknown = counter.call("schedule", verb, "nobody")
            assert (unknown.exit_code, unknown.stdout) == (3, "")
            assert "there is no schedule 'nobody'" in unknown.stderr


def test_the_audit_has_pages_and_says_who_did_what(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        counter.call("queue", "pause", name, "--reason", f"for {name}")
    first = counter.answer("audit", "--limit", "2", "--action", "queue-pause")
    assert [row["target"] for row in first["items"]] == ["c", "b"]
    [rest] = counter.answer("audit", "--action", "queue-pause", "--cursor", first["next_cursor"])["items"]
    assert (rest["target"], rest["reason"], rest["outcome"], "@" in rest["principal"]) == ("a", "for a", "done", True)
    assert "for c" in counter.call("audit").stdout
    monkeypatch.setattr(audit, "ON_A_PAGE", 1)
    assert len(counter.call("audit", "-o", "jsonl").stdout.splitlines()) == 3
    assert len(counter.call("audit", "-o", "jsonl", "--limit", "2").stdout.splitlines()) == 2
    assert counter.call("audit", "--cursor", "nonsense").exit_code == 2


def test_where_not_all_that_is_open_was_counted_it_is_said(
    runnerq: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "MOST_COUNTED", 1)
    for _ in range(2):
        runnerq("start", "nobody_serves_this", "--queue", "crowded")
    for command in (("queue", "list"), ("queue", "show", "crowded")):
        assert "more runs are open than were counted" in runnerq(*command).stderr
    assert "2+" in runnerq("stats").stdout
