"""``runnerq doctor``: each fault is made, and found."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import msgspec
import pytest
from click.testing import CliRunner, Result

from runnerq.cli import main
from runnerq.cli.doctor import server
from runnerq.cli.doctor.examining import NAMES
from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.postgres.condition import SETTINGS, HeldBack, Server
from runnerq.runtime.worker import Worker
from tests.cli.flows import greet, greeting
from tests.pgbouncer import pgbouncer
from tests.postgres import execute, fetch_value, fresh_database, run_apart, with_database

NOBODY = "postgresql://postgres:secret@127.0.0.1:1/nowhere"


def examined(dsn: str, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the findings by check."""
    done = CliRunner().invoke(main, ["doctor", "--dsn", dsn, "-o", "json", *options], catch_exceptions=False)
    return done.exit_code, {each["check"]: each for each in json.loads(done.stdout)["findings"]}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for some seconds is no finding."""
    monkeypatch.setattr("runnerq.cli.doctor.examining.HEAR_PATIENCE", 60)
    monkeypatch.setattr("runnerq.cli.doctor.examining.CONNECT_PATIENCE", 60)


def levels(found: Mapping[str, Any], *checks: str) -> list[str]:
    return [found[check]["level"] for check in checks]


# --- the database, its schema, its rights -----------------------------------------------------------------------------


def test_of_a_database_that_is_well_every_check_says_so_but_for_settings_of_throw_away_servers(dsn: str) -> None:
    done = CliRunner().invoke(main, ["doctor", "--dsn", dsn, "-o", "json"], catch_exceptions=False)
    report = json.loads(done.stdout)
    assert [each["check"] for each in report["findings"]] == list(NAMES)
    wrong = [each["check"] for each in report["findings"] if each["level"] != "ok"]
    fsync = run_apart(fetch_value(dsn, "show fsync"))
    assert wrong == (["settings"] if fsync == "off" else [])
    assert (report["skipped"], done.exit_code, report["ok"]) == ([], len(wrong), not wrong)


@pytest.mark.parametrize(
    ("dsn", "check", "told"),
    [
        (NOBODY, "database", "has not answered"),
        ("nonsense://", "database", "the DSN cannot be read"),
        ("postgresql://ada:pa/secret@db.example/shop", "database", "the DSN cannot be read"),
    ],
)
def test_no_database_is_found_without_its_password(
    monkeypatch: pytest.MonkeyPatch, dsn: str, check: str, told: str
) -> None:
    monkeypatch.setattr("runnerq.cli.doctor.examining.CONNECT_PATIENCE", 0.1)
    code, found = examined(dsn)
    assert (code, list(found), told in found[check]["found"]) == (1, [check], True)
    assert "secret" not in json.dumps(found)


def test_who_may_not_log_in_is_told_so_with_exit_code_5(dsn: str) -> None:
    code, found = examined(as_role(dsn, "nobody_knows_me:wrong"))
    assert (code, list(found), "pg_hba.conf" in found["login"]["advice"]) == (5, ["login"], True)


def test_in_a_folder_without_any_none_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["doctor", "-o", "json"], catch_exceptions=False)
    [finding] = json.loads(done.stdout)["findings"]
    assert (done.exit_code, finding["check"], "$RUNNERQ_DSN" in finding["found"]) == (1, "database", True)
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_not_there_is_told_from_a_server_that_is_not(postgres_dsn: str) -> None:
    code, found = examined(with_database(postgres_dsn, "nowhere"))
    assert (code, "createdb" in found["database"]["advice"]) == (1, True)


class TestSchema:
    def test_missing_older_newer_and_broken_ones_are_exit_code_5_and_skip_what_needs_them(self, database: str) -> None:
        code, found = examined(database)
        assert (code, found["schema"]["level"], "there are no tables" in found["schema"]["found"]) == (5, "error", True)
        assert {"rights", "workers"}.isdisjoint(found)
        CliRunner().invoke(main, ["migrate", "--dsn", database], catch_exceptions=False)
        run_apart(execute(database, "alter table runnerq.journal rename to journal_old"))
        code, found = examined(database)
        assert (code, found["schema"]["level"], found["schema"]["details"]) == (5, "error", ["journal"])
        assert "workers" not in found
        run_apart(execute(database, "delete from runnerq.migration where version > 7"))
        code, found = examined(database)
        assert (code, found["schema"]["details"][0]) == (5, "0008_console")
        run_apart(execute(database, "insert into runnerq.migration (version, name) values (9999, 'future')"))
        code, found = examined(database)
        assert (code, "upgrade" in found["schema"]["advice"]) == (5, True)

    def test_each_right_that_is_missing_is_named(self, dsn: str) -> None:
        with a_role(dsn) as (role, login):
            code, found = examined(login)
            assert (code, *levels(found, "schema", "rights")) == (5, "error", "error")
            assert "runnerq: usage" in found["rights"]["details"]
            assert f'grant usage on schema "runnerq" to "{role}"' in found["rights"]["advice"]
            run_apart(execute(dsn, granted(role)))
            assert levels(examined(login)[1], "schema", "rights") == ["ok", "ok"]
            run_apart(
                execute(
                    dsn,
                    f"revoke delete on runnerq.live from {role};"
                    "revoke execute on function runnerq.fingerprint from public",
                )
            )
            code, found = examined(login)
            assert (code, found["rights"]["details"]) == (5, ["fingerprint(): execute", "live: delete"])
            run_apart(execute(dsn, "grant execute on function runnerq.fingerprint to public"))

    async def test_a_role_with_the_rights_that_are_asked_for_runs_workflows(self, dsn: str) -> None:
        from runnerq.persistence.postgres.rights import needed

        with a_role(dsn) as (role, login):
            grants = [f"grant {right} on runnerq.{table} to {role}" for table, right in needed()]
            await execute(dsn, f"grant usage on schema runnerq to {role}; {'; '.join(grants)}")
            storage = PostgresStorage(login, migrate=False)
            await storage.open()
            try:
                client = Client(storage)
                queue = f"q{uuid4().hex}"
                async with Worker(client, workflows=[greeting], activities=[greet], queues=[queue]) as worker:
                    run = await client.options(key=queue, queue=queue).start(greeting, "Ada")
                    assert (await run.result(timeout=60)).text == "Hello, Ada!"
                    await worker.idle()
                assert await client.delete(run.id)
            finally:
                await storage.close()


@contextmanager
def a_role(dsn: str) -> Iterator[tuple[str, str]]:
    """A role without any rights, and the DSN by which it logs in."""
    role = f"rq_{uuid4().hex[:12]}"
    run_apart(execute(dsn, f"create role {role} login password 'secret'"))
    try:
        yield role, as_role(dsn, f"{role}:secret")
    finally:
        run_apart(execute(dsn, f"drop owned by {role}; drop role {role}"))


def as_role(dsn: str, login: str) -> str:
    where = urlsplit(dsn)
    return urlunsplit(where._replace(netloc=f"{login}@{where.netloc.rpartition('@')[2]}"))


def granted(role: str) -> str:
    return (
        f"grant usage on schema runnerq to {role};"
        f"grant select, insert, update, delete on all tables in schema runnerq to {role}"
    )


# --- the server -------------------------------------------------------------------------------------------------------


def test_a_pooler_in_transaction_mode_is_found_and_so_is_the_way_past_it(dsn: str) -> None:
    with pgbouncer(dsn) as pooled:
        _, found = examined(pooled)
        assert (levels(found, "pooler", "wake-ups"), "--direct-dsn" in found["pooler"]["advice"]) == (
            ["warn", "ok"], True,
        )  # fmt: skip
        _, found = examined(pooled, "--direct-dsn", dsn)
        assert levels(found, "pooler", "wake-ups") == ["ok", "ok"]
        assert "heard" in found["wake-ups"]["found"]
        _, found = examined(pooled, "--direct-dsn", pooled)
        assert levels(found, "pooler", "wake-ups") == ["error", "ok"]


def test_a_wake_up_that_is_not_heard_is_told(dsn: str, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # LISTEN in another database hears nothing of this one.
    monkeypatch.setattr("runnerq.cli.doctor.examining.HEAR_PATIENCE", 0.1)
    _, found = examined(dsn, "--direct-dsn", database)
    assert levels(found, "pooler", "wake-ups") == ["error", "warn"]
    assert "another database" in found["pooler"]["found"]
    assert "not heard" in found["wake-ups"]["found"]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("alter role x password 's3c''ret' valid", "alter role x password '•••' valid"),
        (r"select e'a\'s3cret', 'b'", "select e'•••', '•••'"),
        ("alter role x password 's3cre", "alter role x password '•••'"),
        ("alter role x password 's3cre\\", "alter role x password '•••'"),
        ("select $a$s3cret$a$, $1, $$s3cret", "select '•••', $1, '•••'"),
    ],
)
def test_a_query_is_shown_without_the_texts_in_it(query: str, shown: str) -> None:
    held = HeldBack(
        kind="transaction", pid=7, age=None, role=None, name="psql", state=None, query=query, keeps=False
    )  # fmt: skip
    assert server._told(held) == f"transaction of psql, pid 7, {shown}"


def test_a_transaction_that_is_open_for_long_is_named(dsn: str) -> None:
    async def with_one_open() -> dict[str, Any]:
        import asyncpg

        connection = await asyncpg.connect(dsn, server_settings={"application_name": "nightly report"})
        try:
            async with connection.transaction():
                await connection.execute("create temporary table made (at date)")
                await connection.execute("select   'a query of some length'")
                _, found = await asyncio.to_thread(examined, dsn, "--open-for", "0s")
        finally:
            await connection.close()
        return found

    found = run_apart(with_one_open())["transactions"]
    [told] = [each for each in found["details"] if "nightly report" in each]
    assert found["level"] == "warn"
    assert "dead rows are kept for it, idle in transaction, select '•••'" in told


def test_a_table_full_of_dead_rows_and_one_that_nobody_clears_are_named(dsn: str) -> None:
    run_apart(
        execute(
            dsn,
            "alter table runnerq.key set (autovacuum_enabled = off);"
            "insert into runnerq.key (name, key, run_id) select 'n', n::text, gen_random_uuid()"
            " from generate_series(1, 15000) as n;"
            "update runnerq.key set run_id = gen_random_uuid();"
            "select pg_stat_force_next_flush()",
        )
    )
    _, found = examined(dsn)
    run_apart(execute(dsn, "truncate runnerq.key; alter table runnerq.key reset (autovacuum_enabled)"))
    assert found["tables"]["level"] == "warn"
    turned_off, full = found["tables"]["details"]
    assert turned_off == "autovacuum is turned off for key"
    assert " (50% dead)" in found["tables"]["found"]
    # Rows of other tests may be among them.
    assert re.match(r"key has 15,0\d\d dead rows beside 15,0\d\d that count", full)


def test_settings_that_hold_for_the_database_are_found(postgres_dsn: str) -> None:
    with fresh_database(postgres_dsn) as dsn:
        name = urlsplit(dsn).path.lstrip("/")
        run_apart(execute(dsn, f'alter database "{name}" set default_transaction_read_only = on'))
        _, found = examined(dsn)
    assert found["settings"]["level"] == "error"
    assert "default_transaction_read_only is on: nothing can be written" in found["settings"]["details"]


GOOD = Server(
    version="18.0", database="shop", role="shop", standby=False, sees_all=True, taken=10, size=1, ahead=0.0, give=0.0,
    settings=dict.fromkeys(SETTINGS, "on") | {
        "default_transaction_isolation": "read committed", "default_transaction_read_only": "off",
        "statement_timeout": "0", "max_connections": "100",
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "value", "level"),
    [
        ("fsync", "off", "error"),
        ("full_page_writes", "off", "error"),
        ("autovacuum", "off", "error"),
        ("track_counts", "off", "error"),
        ("default_transaction_isolation", "serializable", "warn"),
        ("synchronous_commit", "off", "warn"),
        ("synchronous_commit", "local", "ok"),
        ("statement_timeout", "5000", "warn"),
        ("statement_timeout", "60000", "ok"),
    ],
)
def test_a_setting_is_judged_by_what_it_does(setting: str, value: str, level: str) -> None:
    seen = msgspec.structs.replace(GOOD, settings={**GOOD.settings, setting: value})
    assert (server.of_settings(GOOD).level, server.of_settings(seen).level) == ("ok", level)


@pytest.mark.parametrize(
    ("changed", "check", "level", "told"),
    [
        ({"standby": True}, server.of_server, "error", "it is a standby"),
        ({"taken": 95}, server.of_connections, "warn", "95 of 100"),
        ({"ahead": 3600.0}, server.of_clock, "warn", "1.0 h ahead of"),
        ({"ahead": -90.0}, server.of_clock, "warn", "1.5 min behind"),
        ({"ahead": -90.0, "give": 100.0}, server.of_clock, "ok", "agree"),
    ],
)
def test_a_standby_few_connections_and_another_clock_are_told(
    changed: dict[str, Any], check: Any, level: str, told: str
) -> None:
    seen = msgspec.structs.replace(GOOD, **changed)
    assert (check(GOOD).level, check(seen).level, told in check(seen).found) == ("ok", level, True)


def test_the_clock_of_this_machine_is_compared_with_the_databases(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) - timedelta(hours=1)

    monkeypatch.setattr("runnerq.persistence.postgres.condition.datetime", Late)
    _, found = examined(dsn)
    assert (found["clock"]["level"], "behind" in found["clock"]["found"]) == ("warn", True)


def test_people_get_a_line_a_check_with_what_to_do(dsn: str) -> None:
    shown: Result = CliRunner().invoke(main, ["doctor", "--dsn", dsn, "--open-for", "1d"])
    for name in NAMES:
        assert f" {name} " in shown.stdout
    assert "none has been open for 1.0 d" in " ".join(shown.stdout.split())
