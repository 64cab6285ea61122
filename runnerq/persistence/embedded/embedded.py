"""A Postgres of one's own in a folder: nothing to configure, shared by all processes that open the folder."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import anyio
import anyio.to_thread

from runnerq.errors import ConfigurationError, StorageUnavailable
from runnerq.persistence.embedded.account import can_reach, server_account
from runnerq.persistence.embedded.binaries import Binaries, wheel_binaries
from runnerq.persistence.embedded.keeper import LINGER, Held, Locks, becomes_free, hold, hold_within
from runnerq.persistence.embedded.server import Server

ROOT_FOLDER = Path("/var/lib/runnerq")
"""Where root's data and copies of the server live: other accounts can reach it, and nothing above it needs a change."""

GATE_PATIENCE = 180.0
"""Seconds to wait for another process that opens or closes the same folder; it may be replaying a log after a crash."""

_log = logging.getLogger("runnerq.embedded")


def default_folder() -> Path:
    """Where the data of this working directory lives: ``./.runnerq``; for root below /var/lib/runnerq, by its name."""
    here = Path.cwd()
    if os.geteuid() != 0:
        return here / ".runnerq"
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", here.name).strip(".-")[:40] or "root"
    return ROOT_FOLDER / f"{readable}-{hashlib.sha256(os.fsencode(here)).hexdigest()[:10]}"


def in_use(folder: Path | None = None) -> bool:
    """Whether somebody uses the server of this folder; False as well while somebody opens or closes it. Nothing is
    made, and nothing started."""
    locks = Locks((folder or default_folder()).resolve() / "locks")
    if not locks.users.exists():
        return False
    gate = hold_within(locks.gate, fcntl.LOCK_EX, 0)
    if gate is None:
        return False
    try:
        return not becomes_free(locks.users)
    finally:
        gate.release()


class EmbeddedPostgres:
    """The embedded server of a folder. Open until ``close``, or until this process ends, however it ends.

    The first to open a folder makes its data and starts the server, the last to go stops it; if the last one is killed,
    a keeper stops it after two seconds. Data stays.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        binaries: Binaries | None = None,
        linger: float = LINGER,
    ) -> None:
        """``settings`` are for the server if this one starts it; ``binaries`` are another server's than the wheel's;
        ``linger`` is how many seconds a keeper that this one starts keeps a server whose users were killed."""
        self.folder = (folder or default_folder()).resolve()
        self._settings = dict(settings or {})
        self._binaries = binaries
        self._linger = linger
        self._server: Server | None = None
        self._presence: list[Held] = []

    async def open(self) -> str:
        """The DSN of the running server, a superuser's. The work is done in a thread; a cancel waits for its end.

        Raises:
            ConfigurationError: it is not installed, or cannot keep its data there; the message says what to do.
            StorageError: the server did not start; the message has the last lines of its log.
            StorageUnavailable: the server, or another process that opens it, does not answer.
        """
        if self._presence:
            raise ConfigurationError(f"the embedded Postgres in {self.folder} is already open here: open it once")
        try:
            return await anyio.to_thread.run_sync(self._open)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.close()
            raise

    async def close(self) -> None:
        """Leave the server; it is stopped if nobody else uses it. Closing twice is harmless.

        Raises:
            StorageError: it did not stop.
        """
        if self._presence:
            await anyio.to_thread.run_sync(self._close)

    async def __aenter__(self) -> str:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _open(self) -> str:
        binaries = self._binaries
        try:
            account = server_account(self.folder / "data")
            if binaries is None:
                if account is not None:
                    _make_folder(ROOT_FOLDER)
                binaries = wheel_binaries(account, ROOT_FOLDER)
            _make_folder(self.folder)
            if not can_reach(account, self.folder):
                name = "its account" if account is None else f"the account {account.name}"
                raise ConfigurationError(
                    f"{self.folder} is closed to {name}, which runs the embedded Postgres for root: "
                    f"use a folder below {ROOT_FOLDER}, or set RUNNERQ_DSN"
                )
            (self.folder / "locks").mkdir(exist_ok=True)
            (self.folder / ".gitignore").write_text("*\n")
            return self._enter(Server(self.folder, binaries, account, self._settings, self._linger))
        except OSError as error:
            raise ConfigurationError(
                f"the embedded Postgres cannot be kept in {self.folder}: {error}. "
                "Start from a folder that you can write to, or set RUNNERQ_DSN"
            ) from error

    def _enter(self, server: Server) -> str:
        gate = self._take_gate(server)
        try:
            self._server = server
            # In this order: a keeper waits for `alive` and then judges by `users`.
            self._presence = [hold(server.locks.alive, fcntl.LOCK_SH), hold(server.locks.users, fcntl.LOCK_SH)]
            dsn = server.ensure_running()
        finally:
            gate.release()
        _log.info("the embedded Postgres in %s is running", self.folder)
        return dsn

    def _close(self) -> None:
        server = self._server
        presence, self._presence, self._server = self._presence, [], None
        if server is None or not presence:
            return
        alive, users = presence
        try:
            gate = self._take_gate(server)
            try:
                users.release()
                if becomes_free(server.locks.users) and not becomes_free(server.locks.server):
                    server.stop()
                    _log.info("the embedded Postgres in %s is stopped", self.folder)
            finally:
                # Before the gate: a keeper that wakes up now finds all as it is.
                alive.release()
                gate.release()
        finally:
            users.release()
            alive.release()

    def _take_gate(self, server: Server) -> Held:
        gate = hold_within(server.locks.gate, fcntl.LOCK_EX, GATE_PATIENCE)
        if gate is None:
            raise StorageUnavailable(
                f"another process has been opening or closing {self.folder} for more than {GATE_PATIENCE:g} s: "
                f"see {self.folder / 'server.log'}"
            )
        return gate


def _make_folder(folder: Path) -> None:
    """Make a folder and what is missing above it; for root open to all, whatever the umask, and only what is new."""
    for path in reversed([folder, *folder.parents]):
        if not path.exists():
            path.mkdir(exist_ok=True)
            if os.geteuid() == 0:
                path.chmod(0o755)
