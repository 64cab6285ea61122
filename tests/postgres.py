"""Postgres servers for tests, and a fresh database for each test that asks.

    postgres_dsn      session   a superuser's DSN: $RUNNERQ_TEST_DSN, else a container, else an embedded server
    postgres15_dsn    session   the same of PostgreSQL 15; skips where its binaries are not on the machine
    empty_database    function  the DSN of a fresh, empty database on postgres_dsn
    migrated_database function  the same with the library's tables: a copy, which is quicker than to make them
    database          function  the first of these, and in some folders the second
    module_database   module    one with the library's tables for a test module
    database15        function  the DSN of a fresh, empty database on postgres15_dsn

All are plain values, to be had in sync and async tests alike. A test that needs more of them uses
``with fresh_database(postgres_dsn) as dsn``. Servers may run with fsync off, and their data is in memory where there is
room: a test that crashes one brings its own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import uuid
import warnings
from collections.abc import Coroutine, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg
import pytest

from runnerq.persistence.embedded import EmbeddedPostgres
from runnerq.persistence.embedded.binaries import Binaries
from runnerq.persistence.embedded.keeper import Locks, becomes_free

T = TypeVar("T")

POSTGRES_15 = Binaries(Path("/usr/lib/postgresql/15/bin"))
THROW_AWAY = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "max_wal_size": "256MB",
    # A vacuum would come when it comes: a transaction, locks and other plans amid whichever test it meets.
    "autovacuum_naptime": "1d",
}
"""What a server may do whose data nobody will miss. synchronous_commit stays on: tests rely on what it means."""

PREFIX = "runnerq-test-"
MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that must be free there: some servers at once, with a few hundred megabytes each."""

DOCKER_SOCKET = Path("/var/run/docker.sock")
DOCKER_PATIENCE = 2
"""Seconds in which a Docker engine must answer to be used."""


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a thread and loop of its own, so that it can be called from anywhere."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            answers.append(asyncio.run(work))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]


async def execute(dsn: str, statement: str) -> None:
    """Run one statement on a connection of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def fetch_value(dsn: str, query: str) -> Any:
    """The first value of a query's answer, asked on a connection of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def with_database(dsn: str, name: str) -> str:
    """The same server, another database."""
    return urlunsplit(urlsplit(dsn)._replace(path="/" + quote(name)))


@contextmanager
def fresh_database(server: str, *, template: str = "template0") -> Iterator[str]:
    """A new database on this server, a copy of ``template``; dropped at the end, whoever is still connected."""
    name = f"rqtest_{uuid.uuid4().hex[:16]}"
    # Files are copied in a third of the time that the other way takes, which writes each page to the log.
    run_apart(execute(server, f'create database "{name}" template "{template}" strategy file_copy'))
    try:
        yield with_database(server, name)
    finally:
        run_apart(execute(server, f'drop database if exists "{name}" with (force)'))


@contextmanager
def a_template(server: str) -> Iterator[str]:
    """The name of a new database with the library's tables, for copies: nobody can connect to it, and so hinder one."""
    from runnerq.persistence.postgres import PostgresStorage

    async def migrate(dsn: str) -> None:
        storage = PostgresStorage(dsn)
        await storage.open()
        await storage.close()

    with fresh_database(server) as dsn:
        run_apart(migrate(dsn))
        name = urlsplit(dsn).path[1:]
        run_apart(execute(server, f'alter database "{name}" allow_connections false'))
        yield name


@contextmanager
def open_folder(place: Path = Path("/tmp")) -> Iterator[Path]:
    """A new folder with a short name that every account can reach, unlike pytest's own; deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def server_folder() -> Iterator[Path]:
    """Such a folder for a server's data: in memory where there is room, and not on a disk.

    A new database is three hundred files, and a file system may take twenty times as long for them as memory does. What
    a server loses when it is killed is the same.
    """
    try:
        roomy = shutil.disk_usage(MEMORY).free > ROOM and os.access(MEMORY, os.W_OK)
    except OSError:
        roomy = False
    if roomy:
        _forget_the_dead()
    with open_folder(MEMORY) if roomy else open_folder() as folder:
        yield folder


def _forget_the_dead() -> None:
    """Delete what tests that were killed have left in memory, unless its server still runs."""
    for folder in MEMORY.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        locks = Locks(folder / "locks")
        if not Path("/proc", pid).exists() and (not locks.server.exists() or becomes_free(locks.server)):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def embedded_server(binaries: Binaries | None = None) -> Iterator[str]:
    """An embedded server with throw-away data."""
    with server_folder() as folder:
        server = EmbeddedPostgres(folder, settings=THROW_AWAY, binaries=binaries)
        yield run_apart(server.open())
        run_apart(server.close())


@contextmanager
def container() -> Iterator[str | None]:
    """A server in a container; None without a Docker engine that answers and can start it."""
    if "DOCKER_HOST" not in os.environ and not DOCKER_SOCKET.exists():
        # Its client would leave the socket open that it has tried in vain.
        yield None
        return
    try:
        import docker
        from testcontainers.community.postgres import PostgresContainer

        with closing(docker.from_env(timeout=DOCKER_PATIENCE)) as engine:
            engine.ping()
        server = PostgresContainer("postgres:18-alpine", driver=None)
        server.with_command(" ".join(["postgres", *(f"-c {name}={value}" for name, value in THROW_AWAY.items())]))
        server.start()
    except Exception as error:
        if not isinstance(error, ImportError) and DOCKER_SOCKET.exists():
            warnings.warn(f"Docker is there, but gave no Postgres: {error}", stacklevel=2)
        yield None
        return
    try:
        yield server.get_connection_url()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    if given := os.environ.get("RUNNERQ_TEST_DSN"):
        yield given
        return
    with container() as dsn:
        if dsn is not None:
            yield dsn
            return
    with embedded_server() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def postgres15_dsn() -> Iterator[str]:
    if not POSTGRES_15.postgres.exists():
        pytest.skip(f"PostgreSQL 15 is not in {POSTGRES_15.folder}")
    with embedded_server(POSTGRES_15) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def migrated_template(postgres_dsn: str) -> Iterator[str]:
    with a_template(postgres_dsn) as name:
        yield name


@pytest.fixture
def migrated_database(postgres_dsn: str, migrated_template: str) -> Iterator[str]:
    with fresh_database(postgres_dsn, template=migrated_template) as dsn:
        yield dsn


@pytest.fixture
def empty_database(postgres_dsn: str) -> Iterator[str]:
    with fresh_database(postgres_dsn) as dsn:
        yield dsn


@pytest.fixture
def database(empty_database: str) -> str:
    return empty_database


@pytest.fixture(scope="module")
def module_database(postgres_dsn: str, migrated_template: str) -> Iterator[str]:
    with fresh_database(postgres_dsn, template=migrated_template) as dsn:
        yield dsn


@pytest.fixture
def database15(postgres15_dsn: str) -> Iterator[str]:
    with fresh_database(postgres15_dsn) as dsn:
        yield dsn
