"""``runnerq schedule``."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from click.testing import Result

Call = Callable[..., Result]
Answer = Callable[..., Any]


class TestSchedule:
    def test_one_is_made_shown_listed_and_made_again_without_a_change(self, runnerq: Call, answer: Answer) -> None:
        words = [
            "schedule", "create", "nightly", "greeting", '"Ada"', "--cron", "30 2 * * *", "--zone", "Europe/Berlin",
            "--missed", "all", "--overlap", "allow", "--jitter", "5m", "--queue", "slow", "--metadata", "team=a",
        ]  # fmt: skip
        assert "put schedule 'nightly'" in runnerq(*words).stderr
        assert answer(*words, "-o", "json") == {"changed": False}
        shown = answer("schedule", "show", "nightly", "-o", "json")
        assert (shown["workflow"], shown["version"], shown["args"]) == ("greeting", None, ["Ada"])
        assert (shown["cron"], shown["zone"], shown["missed"], shown["jitter"]) == (
            "30 2 * * *", "Europe/Berlin", "all", 300.0,
        )  # fmt: skip
        assert shown["options"] == {"queue": "slow", "metadata": {"team": "a"}}
        table = runnerq("schedule", "show", "nightly").stdout
        assert "At 02:30" in table
        assert '["Ada"]' in table
        assert [each["name"] for each in answer("schedule", "list", "-o", "json")] == ["nightly"]
        assert "Europe/Berlin" in runnerq("schedule", "list").stdout
        assert "put schedule" in runnerq("schedule", "put", "nightly", "greeting", "--every", "1h").stderr
        assert "3600" in runnerq("schedule", "list").stdout

    def test_it_is_paused_resumed_triggered_backfilled_and_deleted(
        self, worker: subprocess.Popen[str], runnerq: Call, answer: Answer
    ) -> None:
        runnerq("schedule", "create", "hello", "greeting", '"Ada"', "--cron", "0 0 1 1 *")
        assert "paused schedule 'hello'" in runnerq("schedule", "pause", "hello").stderr
        assert "is paused" in runnerq("schedule", "pause", "hello").stderr
        run_id = runnerq("schedule", "trigger", "hello").stdout.strip()
        assert answer("result", run_id, "--wait", "60s") == {"text": "Hello, Ada!"}
        years = ["schedule", "backfill", "hello", "--since", "2020-01-01", "--until", "2022-01-01"]
        assert "started 2 runs of schedule 'hello'" in runnerq(*years).stderr
        assert answer(*years, "-o", "json") == {"count": 0}
        assert "resumed schedule" in runnerq("schedule", "resume", "hello").stderr
        assert "is not paused" in runnerq("schedule", "resume", "hello").stderr
        assert answer("schedule", "delete", "hello", "-o", "json") == {"changed": True}
        assert "there is no schedule 'hello'" in runnerq("schedule", "delete", "hello").stderr

    def test_what_cannot_be_is_told_in_a_line_with_an_exit_code(self, runnerq: Call) -> None:
        refused = runnerq("schedule", "create", "bad", "greeting", "--cron", "61 * * * *")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "'61' is no minute" in refused.stderr
        assert runnerq("schedule", "create", "bad", "greeting").exit_code == 2
        for verb in ("show", "pause", "resume", "trigger"):
            unknown = runnerq("schedule", verb, "nobody")
            assert (unknown.exit_code, unknown.stdout) == (3, "")
            assert "there is no schedule 'nobody'" in unknown.stderr
