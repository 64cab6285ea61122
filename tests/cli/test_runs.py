"""The verbs about runs, on a real database and with a real worker process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from runnerq.ids import new_run_id
from tests.cli.conftest import ROOT

Call = Callable[..., Result]
Answer = Callable[..., Any]
Worker = subprocess.Popen[str]


def test_a_started_run_is_waited_for_and_its_result_is_json(worker: Worker, answer: Answer) -> None:
    assert answer("start", "greeting", '"Ada"', "--wait=60s") == {"text": "Hello, Ada!"}


def test_the_id_alone_is_printed_so_that_a_shell_can_keep_it(runnerq: Call, answer: Answer) -> None:
    run_id = runnerq("start", "nobody_serves_this", "1", "[2]").stdout.strip()
    shown = answer("show", run_id, "-o", "json")
    assert (shown["id"], shown["workflow"], shown["status"]) == (run_id, "nobody_serves_this", "pending")


def test_a_key_makes_one_run(runnerq: Call, answer: Answer) -> None:
    first = answer("start", "keyed", "--key", "order-1", "-o", "json")
    second = runnerq("start", "keyed", "--key", "order-1", "-o", "json")
    assert (first["created"], json.loads(second.stdout)) == (True, {"id": first["id"], "created": False})
    assert "was there before" in second.stderr


def test_what_a_start_does_with_a_taken_key_is_said_with_it(runnerq: Call, answer: Answer) -> None:
    first = answer("start", "keyed", "--key", "order-2", "-o", "json")
    refused = runnerq("start", "keyed", "--key", "order-2", "--on-duplicate", "no_reuse")
    assert (refused.exit_code, first["id"] in refused.stderr) == (4, True)
    assert answer("start", "keyed", "--key", "order-2", "--on-duplicate", "allow_reuse", "-o", "json")["created"]
    assert runnerq("start", "keyed", "--on-duplicate", "allow_reuse").exit_code == 2


def test_a_start_takes_metadata_and_a_timeout(worker: Worker, runnerq: Call, answer: Answer) -> None:
    done = runnerq("start", "waiting", "--metadata", "team=shop", "--timeout", "10ms", "--wait=60s")
    assert done.exit_code == 1
    [run] = answer("list", "--metadata", "team=shop", "-o", "json")["items"]
    assert (run["status"], run["reason"], run["metadata"]) == ("cancelled", "timeout", {"team": "shop"})


def test_a_signal_that_counted_before_says_so(runnerq: Call) -> None:
    run_id = runnerq("start", "nobody_serves_this").stdout.strip()
    assert "sent 'go'" in runnerq("send", run_id, "go", "1", "--dedup", "d").stderr
    again = runnerq("send", run_id, "go", "1", "--dedup", "d")
    assert (again.exit_code, "nothing changed" in again.stderr) == (0, True)


def test_a_signal_wakes_a_run_and_result_waits_for_it(worker: Worker, runnerq: Call, answer: Answer) -> None:
    run_id = runnerq("start", "waiting").stdout.strip()
    not_yet = runnerq("result", run_id)
    assert (not_yet.exit_code, not_yet.stdout) == (124, "")
    assert "add --wait" in not_yet.stderr
    assert runnerq("send", run_id, "go", "7").exit_code == 0
    assert answer("result", run_id, "--wait") == 7
    assert answer("result", run_id) == 7
    shown = answer("show", run_id, "-o", "json")
    assert (shown["status"], shown["state"], shown["result"], shown["version"]) == (
        "completed",
        {"stage": "waiting"},
        7,
        2,
    )


def test_history_is_a_table_and_json(worker: Worker, runnerq: Call, answer: Answer) -> None:
    run_id = runnerq("start", "greeting", '"Bo"').stdout.strip()
    answer("result", run_id, "--wait")
    entries = answer("history", run_id, "-o", "json")
    assert [(entry["kind"], entry["name"], entry["state"]) for entry in entries] == [
        ("started", "greeting", "answered"),
        ("step", "greet", "answered"),
    ]
    assert entries[1]["value"] == {"text": "Hello, Bo!"}
    table = runnerq("history", run_id).stdout
    assert "greet" in table
    assert "Hello, Bo!" in table
    assert "\x1b[" not in table


def test_brackets_in_what_people_wrote_are_shown_as_they_are(worker: Worker, runnerq: Call, answer: Answer) -> None:
    run_id = runnerq("start", "greeting", '"[/etc/shop] :smile: list[int]"', "--key", "k[bold]1").stdout.strip()
    answer("result", run_id, "--wait")
    assert "k[bold]1" in runnerq("list", "--key-prefix", "k[").stdout
    for command in ("show", "history"):
        assert "Hello, [/etc/shop] :smile: list[int]!" in runnerq(command, run_id).stdout


def test_a_failed_run_is_exit_code_1_with_its_error(worker: Worker, runnerq: Call) -> None:
    done = runnerq("start", "failing", "--wait=60s")
    assert done.exit_code == 1
    assert "ended as dead_letter: ValueError: boom" in done.stderr
    assert done.stderr.count("\n") == 2  # the id, and the error in one line
    assert done.stdout == ""
    run_id = done.stderr.split()[1]
    shown = runnerq("show", run_id).stdout
    assert "ValueError: boom" in shown


def test_a_wait_that_is_too_short_is_exit_code_124(runnerq: Call) -> None:
    done = runnerq("start", "nobody_serves_this", "--wait=10ms")
    assert done.exit_code == 124
    assert "pending" in done.stderr


def test_lists_are_filtered_and_paged(runnerq: Call, answer: Answer) -> None:
    ids = [runnerq("start", "listed", "--key", f"list-{n}").stdout.strip() for n in range(3)]
    page = answer("list", "--workflow", "listed", "--limit", "2", "-o", "json")
    assert [run["id"] for run in page["items"]] == ids[:0:-1]
    rest = answer("list", "--workflow", "listed", "--cursor", page["next"], "-o", "json")
    assert ([run["id"] for run in rest["items"]], rest["next"]) == (ids[:1], None)
    assert answer("list", "--key-prefix", "list-1", "-o", "json")["items"][0]["key"] == "list-1"
    assert answer("list", "--status", "blocked", "-o", "json") == {"items": [], "next": None}
    table = runnerq("list", "--workflow", "listed", "--limit", "2")
    assert ids[2] in table.stdout
    assert f"--cursor {ids[1]}" in table.stderr


def test_runs_are_found_by_id_version_roots_error_and_end(worker: Worker, runnerq: Call, answer: Answer) -> None:
    def found(*options: str) -> list[str]:
        return [run["id"] for run in answer("list", *options, "-o", "json")["items"]]

    failed = runnerq("start", "failing", "--wait=60s").stderr.split()[1]
    open_ = runnerq("start", "sought", "--key", "sought").stdout.strip()
    assert found("--id", open_[:20]) == [open_]
    assert found("--id", open_.replace("-", ""), "--roots") == [open_]
    assert found("--workflow", "sought", "--version", "7") == []
    assert failed in found("--error", "BOOM", "--ended-since", "1h")
    assert found("--error", "no such words") == []
    assert found("--id", failed, "--ended-until", "1h") == []


def test_a_cancel_ends_a_run_that_never_started_and_a_second_changes_nothing(runnerq: Call) -> None:
    run_id = runnerq("start", "nobody_serves_this").stdout.strip()
    assert "asked" in runnerq("cancel", run_id, "--reason", "no more").stderr
    again = runnerq("cancel", run_id)
    assert (again.exit_code, "is cancelled" in again.stderr) == (0, True)
    result = runnerq("result", run_id)
    assert (result.exit_code, "no more" in result.stderr) == (1, True)
    assert runnerq("send", run_id, "go").exit_code == 4


@pytest.mark.parametrize("command", [("show",), ("history",), ("result",), ("cancel",), ("send",)])
def test_an_unknown_run_is_exit_code_3_in_one_line(runnerq: Call, command: tuple[str, ...]) -> None:
    done = runnerq(*command, new_run_id(), *(("go",) if command == ("send",) else ()))
    assert done.exit_code == 3
    assert done.stderr.startswith("Error: there is no run")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("show", "abc"), "not a run id"),
        (("start", "x", "{bad"), "is not JSON"),
        (("start", "x", "@/no/such/file"), "cannot be read"),
        (("start", "x", "NaN"), "cannot be stored"),
        (("start", "x", "--key", ""), "--key is empty"),
        (("start", "x", "--wait", "[1]"), "put --wait last"),
        (("list", "--metadata", "nothing"), "NAME=VALUE"),
        (("list", "--id", "order-1"), "order-1"),
        (("list", "--error", ""), "characters"),
        (("list", "--version", "-1"), "-1"),
        (("list", "--status", "exploded"), "exploded"),
        (("list", "--limit", "0"), "0"),
    ],
)
def test_wrong_usage_is_exit_code_2(runnerq: Call, arguments: tuple[str, ...], says: str) -> None:
    done = runnerq(*arguments)
    assert (done.exit_code, says in done.stderr, done.stdout) == (2, True, ""), done.stderr


def test_ctrl_c_ends_a_wait_with_exit_code_130(runnerq: Call, dsn: str) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "runnerq", "start", "nobody_serves_this", "--wait", "--dsn", dsn],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert waiting.stderr is not None
        assert "started" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        _, stderr = waiting.communicate(timeout=60)
    finally:
        waiting.kill()
    assert (waiting.returncode, stderr) == (130, "interrupted\n")


def test_an_argument_is_read_from_a_file(runnerq: Call, answer: Answer, worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "name.json").write_text('"Cleo"')
    assert answer("start", "greeting", f"@{tmp_path / 'name.json'}", "--wait") == {"text": "Hello, Cleo!"}


def test_a_generation_that_is_not_there_is_a_usage_error(worker: Worker, runnerq: Call) -> None:
    run_id = runnerq("start", "greeting", '"Ada"', "--wait=60s").stderr.split()[1]
    done = runnerq("history", run_id, "--generation", "9")
    assert (done.exit_code, "generations 1 to 1, not 9" in done.stderr) == (2, True)


def test_a_negative_number_is_an_argument_behind_two_dashes(runnerq: Call, answer: Answer) -> None:
    run_id = runnerq("start", "nobody_serves_this", "--", "-5").stdout.strip()
    assert answer("export", run_id)["arguments"] == [-5]
