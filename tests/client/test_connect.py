"""Connecting to a real Postgres: where it is, what is wrong with it, and two clients of one database."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.errors import ConfigurationError, PayloadTooLarge, SchemaError, StorageUnavailable, UsageError
from runnerq.persistence.embedded import default_folder
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from tests.client.shop import APPROVAL, ORDER, Order, Shipment, checkout, mail, resize
from tests.postgres import execute


@pytest.fixture
async def here(module_database: str) -> AsyncIterator[Client]:
    async with connect(module_database) as client:
        yield client


@pytest.fixture
async def there(module_database: str) -> AsyncIterator[Client]:
    """Another client of the same database, as another process has it."""
    async with connect(module_database) as client:
        yield client


async def test_a_client_that_is_not_open_says_how_to_open_it() -> None:
    client = connect("postgresql://localhost/nowhere")
    handle = client.handle("01a22a78-dcfe-728e-ab5b-46747beebbd3")
    for verb in (client.start(checkout, ORDER), client.list(), handle.result(), handle.status()):
        with pytest.raises(UsageError, match="async with connect"):
            await verb
    with pytest.raises(UsageError):
        _ = client.storage
    await client.close()


async def test_a_storage_that_was_given_needs_no_opening_by_the_client() -> None:
    storage = MemoryStorage()
    assert Client(storage).storage is storage


async def test_one_process_runs_what_another_started_and_sent_to(here: Client, there: Client) -> None:
    async with Worker(there, workflows=[checkout], activities=[resize]):
        run = await here.options(key="two clients").start(checkout, ORDER)
        waiting = asyncio.create_task(run.result(timeout=60))
        assert await run.reached(Status.WAITING, timeout=60) is Status.WAITING
        await here.handle_by_key(checkout, "two clients").send(APPROVAL, True)
        assert await waiting == Shipment("cup")
        many = await here.start_many(resize, [(n,) for n in range(20)])
    # `resize` is on a queue of its own that this worker does not serve.
    assert await many[0].status() is Status.PENDING
    assert [info.id for info in (await there.list(limit=20)).items] == [handle.id for handle in reversed(many)]


async def test_who_sends_and_leaves_at_once_is_heard(module_database: str, there: Client) -> None:
    heard = asyncio.Event()
    async with connect(module_database) as hasty:
        there.storage.subscribe(lambda wake: heard.set() if "leaving" in wake.queues else None)
        await hasty.options(queue="leaving").start(checkout, ORDER)
    async with asyncio.timeout(30):
        await heard.wait()


async def test_fifty_starts_of_one_key_make_one_run(here: Client, there: Client) -> None:
    clients = [here, there] * 25
    runs = await asyncio.gather(*(client.options(key="fifty").start(mail, "a") for client in clients))
    assert len({run.id for run in runs}) == 1
    assert sum(run.created for run in runs) == 1


async def test_the_payload_limit_counts_for_arguments_and_signals(module_database: str) -> None:
    async with connect(module_database, payload_limit=200) as client:
        run = await client.start(checkout, ORDER)
        with pytest.raises(PayloadTooLarge, match="the signal 'approval'"):
            await run.send("approval", "x" * 300)
        with pytest.raises(PayloadTooLarge, match="the input of checkout"):
            await client.start(checkout, Order("x" * 300))


async def test_the_environment_names_the_database(module_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNERQ_DSN", module_database)
    async with connect() as client:
        assert (await client.start(checkout, ORDER)).created


async def test_the_environment_names_the_way_past_a_pooler(
    module_database: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNERQ_DSN", module_database)
    monkeypatch.setenv("RUNNERQ_DIRECT_DSN", module_database)
    async with connect() as client:
        assert (await client.start(checkout, ORDER)).created
    monkeypatch.setenv("RUNNERQ_DIRECT_DSN", database)
    with pytest.raises(ConfigurationError, match="direct_dsn leads elsewhere"):
        await connect().open()


async def test_a_given_dsn_does_not_take_the_way_past_a_pooler_from_the_environment(
    module_database: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNERQ_DIRECT_DSN", database)
    async with connect(module_database) as client:
        assert (await client.start(checkout, ORDER)).created


@pytest.mark.parametrize(("said", "pooled"), [("1", True), ("yes", True), ("0", False), ("False", False), ("", False)])
async def test_the_environment_says_that_its_dsn_leads_to_a_pooler(
    module_database: str, monkeypatch: pytest.MonkeyPatch, said: str, pooled: bool
) -> None:
    monkeypatch.setenv("RUNNERQ_DSN", module_database)
    monkeypatch.setenv("RUNNERQ_POOLED", said)
    for client, listens in ((connect(), not pooled), (connect(module_database), True)):
        async with client:
            storage = client.storage
            assert isinstance(storage, PostgresStorage)
            assert storage._connections.has_sessions is listens


async def test_a_client_may_be_opened_again(module_database: str) -> None:
    client = connect(module_database)
    for _ in range(2):
        await client.open()
        assert (await client.list(limit=1)).items is not None
        await client.close()
    await client.close()


async def test_a_schema_of_ones_own_is_apart(module_database: str) -> None:
    async with connect(module_database, schema="apart") as client:
        assert (await client.list()).items == []
        run = await client.start(checkout, ORDER)
        assert [info.id for info in (await client.list()).items] == [run.id]


class TestRefused:
    async def test_nobody_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The default of ten seconds would teach no more.
        monkeypatch.setitem(PostgresStorage.__init__.__kwdefaults__, "connect_timeout", 0.3)
        with pytest.raises(StorageUnavailable, match=r"127\.0\.0\.1:1/nowhere has not answered") as raised:
            await connect("postgresql://me:secret@127.0.0.1:1/nowhere").open()
        assert "secret" not in str(raised.value)

    async def test_a_dsn_that_is_none(self) -> None:
        with pytest.raises(ConfigurationError):
            await connect("this is no dsn").open()

    async def test_a_missing_schema_that_may_not_be_made(self, database: str) -> None:
        with pytest.raises(SchemaError, match="is missing"):
            await connect(database, migrate=False).open()

    async def test_a_newer_schema(self, database: str) -> None:
        async with connect(database):
            pass
        await execute(database, "insert into runnerq.migration (version, name) values (9999, 'future')")
        with pytest.raises(SchemaError, match="9999"):
            await connect(database).open()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory without a database, and no database named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNNERQ_DSN", raising=False)
    yield tmp_path
    if os.geteuid() == 0:
        shutil.rmtree(default_folder(), ignore_errors=True)


@pytest.mark.parametrize(("given", "named", "what"), [("", None, "the DSN"), (None, "", "$RUNNERQ_DSN")])
async def test_an_empty_dsn_makes_no_database(
    given: str | None, named: str | None, what: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named is not None:
        monkeypatch.setenv("RUNNERQ_DSN", named)
    with pytest.raises(ConfigurationError, match=re.escape(f"{what} is empty")):
        await connect(given).open()
    assert not default_folder().exists()


async def test_without_a_database_an_embedded_one_keeps_its_data_for_this_folder(elsewhere: Path) -> None:
    async with connect() as client:
        run = await client.options(key="kept").start(checkout, ORDER)
        async with connect() as second:
            assert (await second.handle_by_key(checkout, "kept").info()).id == run.id
    async with connect() as client:
        assert (await client.info(run.id)).status is Status.PENDING


def test_importing_runnerq_loads_no_database_driver() -> None:
    code = "import sys, runnerq; print({'asyncpg', 'litestar', 'rich', 'click'} & set(sys.modules))"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout == "set()\n"


def test_where_it_leads_is_said_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNNERQ_DSN", raising=False)
    assert connect("postgresql://ada:s3cret@db.example:6432/shop").place == "db.example:6432/shop"
    assert connect().place == "an embedded Postgres in this folder"
    monkeypatch.setenv("RUNNERQ_DSN", "postgresql://localhost/other")
    assert connect().place == "localhost/other"
    assert Client(MemoryStorage()).place == "MemoryStorage"
