"""PgBouncer in transaction mode for tests, in front of any server of tests/postgres.py.

    with pgbouncer(dsn) as pooled: ...     a DSN to the same database through a pooler of the test's own

It skips where there is no ``pgbouncer``; where $RUNNERQ_TEST_PGBOUNCER is ``required``, as in CI, it fails instead.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

from tests.postgres import open_folder

PORT = 6432
"""Only the name of a socket in a folder of its own."""

PATIENCE = 30.0
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])


def pgbouncer_binary() -> Path:
    """Where it is; skips the test, or fails it in CI, where it is not."""
    found = shutil.which("pgbouncer", path=_PATH)
    if found is None:
        wanting = pytest.fail if os.environ.get("RUNNERQ_TEST_PGBOUNCER") == "required" else pytest.skip
        wanting("pgbouncer is not installed: apt-get install pgbouncer")
    return Path(found)


@contextmanager
def pgbouncer(
    dsn: str, *, pool_size: int = 10, settings: Mapping[str, object] | None = None, connect_query: str = ""
) -> Iterator[str]:
    """The DSN that leads through a pooler; at most ``pool_size`` connections go on from it to the server."""
    binary = pgbouncer_binary()
    server = _server(dsn)
    with open_folder() as folder:
        config = folder / "pgbouncer.ini"
        target = server | ({"connect_query": f"'{connect_query}'"} if connect_query else {})
        config.write_text(_configuration(target, folder, pool_size, settings or {}))
        log = folder / "log"
        with log.open("wb") as output:
            account = _account(server["host"], folder)
            process = subprocess.Popen([binary, config], stdout=output, stderr=output, user=account)
        try:
            _await_socket(folder / f".s.PGSQL.{PORT}", process, log)
            yield f"postgresql://pooled@{urlsplit(dsn).path}?host={quote(str(folder))}&port={PORT}"
        finally:
            process.terminate()
            process.wait()


def _server(dsn: str) -> dict[str, str]:
    """Where a DSN points, in the words of a pooler's configuration."""
    where = urlsplit(dsn)
    query = parse_qs(where.query)
    named = {
        "host": query.get("host", [where.hostname])[0],
        "port": query.get("port", [where.port])[0],
        "user": where.username,
        "password": where.password,
    }
    return {name: unquote(str(value)) for name, value in named.items() if value}


def _configuration(server: Mapping[str, str], folder: Path, pool_size: int, settings: Mapping[str, object]) -> str:
    options = {
        "unix_socket_dir": folder,
        "listen_port": PORT,
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": pool_size,
        "max_client_conn": 1000,
        **settings,
    }
    target = " ".join(f"{name}={value}" for name, value in server.items())
    lines = [f"{name} = {value}" for name, value in options.items()]
    return "\n".join(["[databases]", f"* = {target}", "[pgbouncer]", *lines, ""])


def _account(host: str, folder: Path) -> int | None:
    """As root it refuses to run: whoever owns the server's socket runs it, and owns the folder of its own."""
    if os.geteuid() != 0:
        return None
    owner = Path(host).stat().st_uid if host.startswith("/") else 0
    account = owner or pwd.getpwnam("nobody").pw_uid
    os.chown(folder, account, -1)
    return account


def _await_socket(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        if process.poll() is not None or time.monotonic() > end:
            pytest.fail(f"pgbouncer did not start: {log.read_text()}")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                time.sleep(0.01)
            else:
                return
