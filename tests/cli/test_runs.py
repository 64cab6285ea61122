"""The verbs about runs on a real database, with a real worker process; what needs neither is in ``test_verbs.py``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from tests.cli.conftest import ROOT

Call = Callable[..., Result]
Answer = Callable[..., Any]
Worker = subprocess.Popen[str]


def test_a_started_run_is_waited_for_and_its_result_is_json(
    worker: Worker, runnerq: Call, answer: Answer, tmp_path: Path
) -> None:
    (tmp_path / "name.json").write_text('"Cleo"')
    assert answer("start", "greeting", f"@{tmp_path / 'name.json'}", "--wait") == {"text": "Hello, Cleo!"}
    failed = runnerq("start", "failing", "--wait=60s")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "ended as dead_letter: ValueError: boom" in failed.stderr
    late = runnerq("start", "nobody_serves_this", "--wait=10ms")
    assert (late.exit_code, "pending" in late.stderr) == (124, True)


def test_a_signal_wakes_a_run_and_its_end_is_watched(worker: Worker, runnerq: Call, answer: Answer) -> None:
    run_id = runnerq("start", "waiting", "--key", "w").stdout.strip()
    assert runnerq("send", "--key", "w", "--workflow", "waiting", "go", "7").exit_code == 0
    watched = runnerq("watch", run_id[:30])
    assert (watched.exit_code, "completed" in watched.stdout) == (0, True)
    assert answer("result", run_id) == 7
    shown = answer("show", run_id, "-o", "json")
    assert (shown["run"]["status"], shown["run"]["version"], json.loads(shown["state"]["text"])) == (
        "completed", 2, {"stage": "waiting"},
    )  # fmt: skip


def test_a_start_takes_metadata_and_a_timeout(worker: Worker, runnerq: Call, answer: Answer) -> None:
    done = runnerq("start", "waiting", "--metadata", "team=shop", "--timeout", "10ms", "--wait=60s")
    assert done.exit_code == 1
    [run] = answer("list", "--where", "meta=team=shop status=cancelled", "-o", "json")["items"]
    assert answer("show", run["id"], "-o", "json")["reason"] == "timeout"


def test_many_are_changed_on_a_database_as_well(runnerq: Call, answer: Answer) -> None:
    ids = [runnerq("start", "many", "--queue", f"q{n}").stdout.strip() for n in range(3)]
    done = runnerq("terminate", "--where", "workflow=many since=1h", "--yes", "--reason", "too many")
    assert (done.exit_code, "3 looked at, 3 changed" in done.stderr) == (0, True), done.stderr
    assert {each["reason"] for each in answer("audit", "--action", "terminate", "-o", "json")["items"]} == {"too many"}
    assert runnerq("delete", *ids, "--yes").exit_code == 0
    assert runnerq("count", "--workflow", "many").stdout == "0\n"


def test_ctrl_c_ends_a_wait_with_exit_code_130(dsn: str) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "runnerq", "start", "nobody_serves_this", "--wait", "--dsn", dsn],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert waiting.stderr is not None
        assert any("started" in line for line in waiting.stderr)
        waiting.send_signal(signal.SIGINT)
        _, stderr = waiting.communicate(timeout=60)
    finally:
        waiting.kill()
    assert (waiting.returncode, stderr) == (130, "interrupted\n")


def test_a_login_that_is_refused_is_exit_code_5(runnerq: Call, dsn: str) -> None:
    done = runnerq("list", "--dsn", dsn.replace("postgres@", "nobody_of_this_name@"))
    assert (done.exit_code, "nobody_of_this_name" in done.stderr, done.stdout) == (5, True, ""), done.stderr


def test_a_negative_number_is_an_argument_behind_two_dashes(runnerq: Call, answer: Answer) -> None:
    run_id = runnerq("start", "nobody_serves_this", "--", "-5").stdout.strip()
    assert answer("export", run_id)["arguments"] == [-5]
