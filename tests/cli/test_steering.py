"""The verbs that change when a run is done and whether it is kept, and the nouns: dead, queue, workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import Result

from runnerq.ids import new_run_id
from runnerq.persistence.postgres import reads
from tests.cli.conftest import ROOT

Call = Callable[..., Result]
Answer = Callable[..., Any]
Worker = subprocess.Popen[str]


@pytest.fixture
def started(runnerq: Call) -> Callable[..., str]:
    """Start a run that nobody serves; its id."""
    return lambda *options: runnerq("start", "nobody_serves_this", *options).stdout.strip()


Started = Callable[..., str]


class TestSteering:
    def test_a_delayed_run_is_due_now_when_it_is_told_so(self, started: Started, runnerq: Call, answer: Answer) -> None:
        run_id = started("--delay", "1h")
        assert answer("show", run_id, "-o", "json")["status"] == "scheduled"
        assert "is due now" in runnerq("run-now", run_id).stderr
        assert answer("show", run_id, "-o", "json")["status"] == "pending"
        assert "nothing changed" in runnerq("run-now", run_id).stderr

    def test_a_pending_run_is_put_off_by_a_duration_or_to_a_time(
        self, started: Started, runnerq: Call, answer: Answer
    ) -> None:
        run_id = started()
        assert runnerq("reschedule", run_id, "2h").exit_code == 0
        due = datetime.fromisoformat(answer("show", run_id, "-o", "json")["due_at"])
        assert timedelta(hours=1) < due - datetime.now(UTC) <= timedelta(hours=2)
        assert "2100-01-01 00:00:00Z" in runnerq("reschedule", run_id, "2100-01-01").stderr
        assert "as it was" in runnerq("reschedule", run_id, "2100-01-01T01:00+01:00").stderr
        assert runnerq("reschedule", run_id, "soon").exit_code == 2

    def test_a_priority_is_changed_by_its_name(self, started: Started, runnerq: Call, answer: Answer) -> None:
        run_id = started("--priority", "low")
        assert answer("show", run_id, "-o", "json")["priority"] == 3
        assert runnerq("priority", run_id, "critical").exit_code == 0
        assert answer("show", run_id, "-o", "json")["priority"] == 0
        assert "as before" in runnerq("priority", run_id, "critical").stderr

    def test_what_has_ended_is_deleted_and_what_is_open_is_not(self, started: Started, runnerq: Call) -> None:
        run_id = started()
        refused = runnerq("delete", run_id)
        assert (refused.exit_code, "cancel or terminate it first" in refused.stderr) == (4, True)
        runnerq("terminate", run_id)
        assert "deleted" in runnerq("delete", run_id).stderr
        assert runnerq("show", run_id).exit_code == 3

    def test_a_time_that_no_calendar_has_is_refused_in_a_line(self, started: Started, runnerq: Call) -> None:
        refused = [runnerq("reschedule", started(), "9999999d"), runnerq("list", "--since", "1000000d")]
        assert [each.exit_code for each in refused] == [2, 2]
        assert all("too far off" in each.stderr for each in refused)

    def test_each_verb_says_as_json_whether_it_changed_anything(self, started: Started, answer: Answer) -> None:
        run_id, queue = started("--delay", "1h"), "paused_once"
        for verb in (
            ("run-now", run_id), ("priority", run_id, "low"), ("reschedule", run_id, "2100-01-01"),
            ("queue", "pause", queue), ("queue", "resume", queue), ("terminate", run_id),
        ):  # fmt: skip
            assert answer(*verb, "-o", "json") == {"changed": True}, verb
            if verb[0] != "run-now":
                assert answer(*verb, "-o", "json") == {"changed": False}, verb
        assert answer("cancel", run_id, "-o", "json") == {"changed": False}
        assert answer("delete", run_id, "-o", "json") == {"changed": True}

    def test_a_run_is_started_for_a_time(self, started: Started, answer: Answer) -> None:
        due = answer("show", started("--at", "2100-01-01"), "-o", "json")["due_at"]
        assert datetime.fromisoformat(due) == datetime(2100, 1, 1, tzinfo=UTC)

    def test_a_run_that_is_not_there_is_exit_code_3(self, runnerq: Call) -> None:
        for verb in (["run-now"], ["reschedule", "1h"], ["priority", "low"], ["delete"], ["tree"], ["dead", "redrive"]):
            words = [*verb, new_run_id()] if verb[0] == "dead" else [verb[0], new_run_id(), *verb[1:]]
            assert runnerq(*words).exit_code == 3, verb


class TestDead:
    def test_dead_letters_are_listed_counted_and_go_on(self, worker: Worker, runnerq: Call, answer: Answer) -> None:
        dead = runnerq("start", "failing", "--wait=60s").stderr.split()[1]
        [listed] = answer("dead", "list", "--workflow", "failing", "-o", "json")["items"]
        assert (listed["id"], listed["status"]) == (dead, "dead_letter")
        would = answer("dead", "redrive", "--workflow", "failing", "--dry-run", "-o", "json")
        assert would == {"count": 1, "dry_run": True}
        assert "1 dead letter would go on" in runnerq("dead", "redrive", "--all", "--dry-run").stderr
        assert answer("dead", "redrive", dead, "-o", "json") == {"count": 1, "dry_run": False}
        assert runnerq("result", dead, "--wait=60s").exit_code == 1
        assert [entry["kind"] for entry in answer("history", dead, "-o", "json")].count("reopened") == 1

    def test_which_ones_must_be_said_in_one_way(self, runnerq: Call) -> None:
        assert runnerq("dead", "redrive").exit_code == 2
        assert runnerq("dead", "redrive", "--all", "--queue", "q").exit_code == 2
        both = runnerq("dead", "redrive", new_run_id(), "--all")
        assert (both.exit_code, "give one of these, not 2" in both.stderr) == (2, True)


class TestFleet:
    def test_a_queue_is_paused_and_resumed(self, started: Started, runnerq: Call, answer: Answer) -> None:
        started("--queue", "slow")
        assert "paused 'slow'" in runnerq("queue", "pause", "slow").stderr
        assert "nothing changed" in runnerq("queue", "pause", "slow").stderr
        [slow] = [each for each in answer("queue", "list", "-o", "json") if each["name"] == "slow"]
        assert (slow["ready"], slow["paused_at"] is None) == (1, False)
        assert "slow" in runnerq("queue", "list").stdout
        assert "resumed 'slow'" in runnerq("queue", "resume", "slow").stderr
        assert "is not paused" in runnerq("queue", "resume", "slow").stderr

    def test_where_not_all_that_is_open_was_counted_it_is_said(
        self, started: Started, runnerq: Call, answer: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reads, "MOST_COUNTED", 1)
        for _ in range(2):
            started("--queue", "crowded")
        assert {each["capped"] for each in answer("queue", "list", "-o", "json")} == {True}
        for command in (("queue", "list"), ("stats",)):
            assert "more runs are open than were counted" in runnerq(*command).stderr

    def test_workers_and_what_they_serve_are_listed(self, worker: Worker, runnerq: Call, answer: Answer) -> None:
        living = [each for each in answer("workers", "list", "-o", "json") if each["alive"]]
        assert ["greeting@1" in each["serves"] for each in living] == [True]
        table = runnerq("workers", "list").stdout
        assert "alive" in table
        assert str(worker.pid) in table

    def test_stats_say_what_is_open_and_how_many_work(
        self, worker: Worker, started: Started, runnerq: Call, answer: Answer
    ) -> None:
        started("--queue", "counted")
        stats = answer("stats", "-o", "json")
        [depth] = [each for each in stats["depths"] if each["queue"] == "counted"]
        assert (depth["status"], depth["workflow"], depth["count"]) == ("pending", "nobody_serves_this", 1)
        assert len(stats["workers"]) == 1
        shown = runnerq("stats")
        assert "counted" in shown.stdout
        assert "1 worker" in shown.stderr


class TestLooking:
    def test_runs_are_counted_and_grouped(self, runnerq: Call, answer: Answer) -> None:
        for number in range(3):
            runnerq("start", "counted", "--queue", f"q{number % 2}")
        assert runnerq("count", "--workflow", "counted").stdout == "3\n"
        assert runnerq("count", "--workflow", "counted", "--cap", "2").stdout == "2+\n"
        assert runnerq("count", "--workflow", "counted", "--cap", "3").stdout == "3\n"
        assert answer("count", "--workflow", "counted", "--status", "blocked", "-o", "json") == {
            "count": 0, "capped": False,
        }  # fmt: skip
        assert runnerq("count", "--workflow", "counted", "--since", "1h", "--until", "2100-01-01").stdout == "3\n"
        assert runnerq("count", "--workflow", "counted", "--until", "1h").stdout == "0\n"
        groups = answer("aggregate", "--by", "queue", "--workflow", "counted", "-o", "json")["groups"]
        assert groups == [{"value": "q0", "count": 2}, {"value": "q1", "count": 1}]
        assert "q0" in runnerq("aggregate", "--by", "queue", "--workflow", "counted").stdout
        assert "newest 1 runs" in runnerq("aggregate", "--cap", "1").stderr

    def test_a_tree_shows_each_run_with_its_status(self, started: Started, runnerq: Call, answer: Answer) -> None:
        run_id = started()
        tree = answer("tree", run_id, "-o", "json")
        assert (tree["id"], tree["children"], tree["info"]["status"]) == (run_id, [], "pending")
        assert f"nobody_serves_this  pending  {run_id}" in runnerq("tree", run_id).stdout

    def test_what_happens_is_followed_a_line_each(self, started: Started, runnerq: Call, dsn: str) -> None:
        following = subprocess.Popen(
            [sys.executable, "-m", "runnerq", "tail", "--limit", "1", "-o", "json"],
            env={**os.environ, "RUNNERQ_DSN": dsn},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            ids = []
            while following.poll() is None:  # it does not say from when on it follows
                ids.append(started())
            event = json.loads(following.communicate()[0])
        finally:
            following.kill()
        assert (event["kind"], event["run_id"] in ids) == ("started", True)
        last = started()
        runnerq("cancel", last)
        rest = len(ids) - ids.index(event["run_id"]) - 1
        lines = runnerq("tail", "--after", event["cursor"], "--limit", str(rest + 2))
        assert lines.stdout.splitlines()[-1].split()[1:3] == ["cancelled", last]

    def test_a_cursor_that_is_none_is_wrong_usage(self, runnerq: Call) -> None:
        refused = runnerq("tail", "--after", "yesterday", "--limit", "1")
        assert (refused.exit_code, "cursor" in refused.stderr) == (2, True)
