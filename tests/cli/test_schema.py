"""``runnerq migrate`` on a schema that is older than the code."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from runnerq.cli import main
from runnerq.persistence.postgres import schema
from runnerq.persistence.postgres.statements import migrations
from tests.postgres import execute, run_apart

NEWEST = max(migrations())
LAST = migrations()[NEWEST].stem


def migrate(dsn: str, *options: str) -> Result:
    return CliRunner().invoke(main, ["migrate", "--dsn", dsn, *options], catch_exceptions=False)


@pytest.fixture
def older(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database whose schema the version before this one has made."""
    with monkeypatch.context() as patched:
        before = {number: file for number, file in migrations().items() if number < NEWEST}
        patched.setattr(schema, "migrations", lambda: before)
        assert migrate(database).exit_code == 0
    return database


def test_a_dry_run_says_what_would_be_applied_and_applies_nothing(older: str) -> None:
    for _ in range(2):
        would = migrate(older, "--dry-run")
        assert (would.exit_code, f"would apply {LAST}" in would.stderr) == (0, True)
    status = migrate(older, "--status", "-o", "json")
    assert (status.exit_code, json.loads(status.stdout)["missing"]) == (5, [LAST])
    done = json.loads(migrate(older, "-o", "json").stdout)
    assert (done["was"], done["now"], done["applied"]) == (NEWEST - 1, NEWEST, [LAST])
    assert json.loads(migrate(older, "-o", "json").stdout)["applied"] == []
    assert "fits" in migrate(older, "--dry-run").stderr


def test_the_sql_of_a_dry_run_is_what_this_database_is_missing(older: str) -> None:
    sql = migrate(older, "--dry-run", "--sql").stdout
    run_apart(execute(older, sql))
    assert migrate(older, "--status").exit_code == 0
    assert migrate(older, "--dry-run", "--sql").stdout == "-- nothing is missing\n"


@pytest.mark.parametrize(
    "words", [("--status", "--sql"), ("--status", "--dry-run"), ("--from", "3"), ("--dry-run", "--sql", "--from", "3")]
)
def test_options_that_contradict_each_other_are_wrong_usage(words: tuple[str, ...]) -> None:
    assert migrate("postgresql://nowhere", *words).exit_code == 2
