"""What is asked before a deploy: would the open runs of a database, or exported journals, follow this code?"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from runnerq.ids import new_run_id

Call = Callable[..., Result]
Answer = Callable[..., Any]
Worker = subprocess.Popen[str]
CHANGED = "tests.cli.changed_flows"


@pytest.fixture
def parked(worker: Worker, runnerq: Call, answer: Answer) -> str:
    """A run that waits for a signal."""
    run_id = runnerq("start", "waiting").stdout.strip()
    while answer("show", run_id, "-o", "json")["status"] != "waiting":
        pass
    return run_id


def test_runs_that_would_not_follow_the_code_are_listed_with_what_differs(
    parked: str, runnerq: Call, answer: Answer
) -> None:
    assert runnerq("check", "tests.cli.flows").exit_code == 0
    done = runnerq("check", CHANGED, "-o", "json")
    assert done.exit_code == 1
    [report] = [each for each in json.loads(done.stdout)["diverged"] if each["run_id"] == parked]
    assert (report["position"], report["recorded"], report["asked"]) == ("2", report["recorded"], report["asked"])
    assert "signal 'go'" in report["recorded"]
    assert "sleep" in report["asked"]
    assert "changed_flows.py" in report["line"]
    table = runnerq("check", CHANGED)
    assert parked in table.stdout
    assert "would not follow this code" in table.stderr
    assert answer("show", parked, "-o", "json")["status"] == "waiting"


def test_a_run_that_has_not_begun_is_checked_too(worker: Worker, runnerq: Call) -> None:
    run_id = runnerq("start", "greeting", "--queue", "nobody", "1").stdout.strip()
    done = runnerq("check", "tests.cli.flows", "-o", "json")
    assert done.exit_code == 1
    [report] = [each for each in json.loads(done.stdout)["diverged"] if each["run_id"] == run_id]
    assert "the input of workflow 'greeting'" in report["message"]
    assert runnerq("terminate", run_id).exit_code == 0


def test_looking_makes_no_schema(runnerq: Call, dsn: str) -> None:
    for look in (["list"], ["check", "tests.cli.flows"], ["show", new_run_id()]):
        done = runnerq(*look, "--schema", "mistyped")
        assert (done.exit_code, done.stdout) == (5, "")
        assert "runnerq migrate" in done.stderr
    assert runnerq("migrate", "--status", "--schema", "mistyped").exit_code == 5


def test_an_exported_run_is_replayed_from_its_file(parked: str, runnerq: Call, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(runnerq("export", parked).stdout)
    assert json.loads(file.read_text())["run_id"] == parked
    same = runnerq("replay", str(file), "--module", "tests.cli.flows")
    assert (same.exit_code, same.stdout) == (0, "")
    assert "1 journal checked, 0 would not follow" in same.stderr
    assert runnerq("replay", str(file), "--module", CHANGED).exit_code == 1


def test_a_file_that_is_no_export_and_a_run_that_is_not_there_are_said_in_a_line(runnerq: Call, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}")
    done = runnerq("replay", str(file), "--module", "tests.cli.flows")
    assert done.exit_code == 2
    assert "no exported run" in done.stderr
    assert runnerq("export", new_run_id()).exit_code == 3
