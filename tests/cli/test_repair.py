"""The verbs that put a run right, on a real database and with a real worker process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from click.testing import Result

from runnerq.ids import new_run_id

Call = Callable[..., Result]
Answer = Callable[..., Any]
Worker = subprocess.Popen[str]


def test_a_terminated_run_is_over(runnerq: Call, answer: Answer) -> None:
    run_id = runnerq("start", "nobody_serves_this").stdout.strip()
    assert "terminated" in runnerq("terminate", run_id).stderr
    shown = answer("show", run_id, "-o", "json")
    assert (shown["status"], shown["reason"]) == ("cancelled", "terminated")
    assert "nothing changed" in runnerq("terminate", run_id).stderr


def test_a_failed_run_is_retried_and_a_completed_one_is_not(worker: Worker, runnerq: Call, answer: Answer) -> None:
    failed = runnerq("start", "failing", "--wait=60s").stderr.split()[1]
    assert "goes on" in runnerq("retry", failed).stderr
    assert runnerq("result", failed, "--wait=60s").exit_code == 1
    assert [entry["kind"] for entry in answer("history", failed, "-o", "json")].count("reopened") == 1
    done = runnerq("start", "greeting", '"Ada"', "--wait=60s").stderr.split()[1]
    refused = runnerq("retry", done)
    assert (refused.exit_code, "retry does not apply" in refused.stderr) == (4, True)


def test_a_fork_is_a_run_of_its_own_from_an_entry_on(worker: Worker, runnerq: Call, answer: Answer) -> None:
    run_id = runnerq("start", "greeting", '"Ada"', "--wait=60s").stderr.split()[1]
    forked = answer("fork", run_id, "--from-entry", "1", "-o", "json")
    assert forked["forked_from"] == run_id
    assert answer("result", forked["id"], "--wait=60s") == {"text": "Hello, Ada!"}
    unknown = runnerq("fork", run_id, "--from-entry", "99")
    assert (unknown.exit_code, "99" in unknown.stderr) == (2, True)


def test_a_run_that_is_not_there_is_exit_code_3(runnerq: Call) -> None:
    for verb in (["terminate"], ["retry"], ["fork", "--from-entry", "1"]):
        assert runnerq(verb[0], new_run_id(), *verb[1:]).exit_code == 3
