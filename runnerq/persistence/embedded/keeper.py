"""The locks around an embedded server, and the small process that stops the server when its last user is gone.

This file is also run as a script, by path, with nothing but the standard library (``python -I -S keeper.py``): a keeper
starts in milliseconds and holds none of the user's modules. So it imports nothing of ours.

Rules
- Who is there is told by ``flock`` on files in ``locks/``. A lock goes with the process that held it, SIGKILL included.
- ``gate``    exclusive   held while somebody opens, closes or stops; every decision below is taken under it.
- ``users``   shared      held by each user of the server. Free, under the gate: there is none.
- ``alive``   shared      held by each user too, and let go last. A keeper blocks on it. It is a file of its own since
                          a keeper that blocked on ``users`` could be granted it in the instant in which a closer asks.
- ``server``  shared      inherited by the server and all its children (and by initdb): free means that none is left,
                          whatever a pid file says. Probed under the gate only.
- ``keeper``  exclusive   held by the keeper, let go before the gate, so that who takes the gate next knows the truth.
- A file of ``locks/`` is never deleted: a lock on a deleted file guards nothing.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

LINGER = 2.0
"""Seconds for which a server without users is kept, so that commands one after another find it running."""

STOP_PATIENCE = 60.0
"""Seconds a fast stop may take before an immediate one; the log then has to be replayed at the next start."""

_POLL = 0.02


class Locks(NamedTuple):
    """The lock files of one folder."""

    folder: Path

    @property
    def gate(self) -> Path:
        return self.folder / "gate"

    @property
    def users(self) -> Path:
        return self.folder / "users"

    @property
    def alive(self) -> Path:
        return self.folder / "alive"

    @property
    def server(self) -> Path:
        return self.folder / "server"

    @property
    def keeper(self) -> Path:
        return self.folder / "keeper"


class Held:
    """A lock held until ``release``, or until this process and every child that inherited it has ended."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def release(self) -> None:
        # Closed, never unlocked: an unlock would also take it from children that inherited it.
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def hold(path: Path, mode: int) -> Held:
    """The lock, as soon as it is to be had; with LOCK_NB in ``mode``, at once or BlockingIOError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise
    return Held(descriptor)


def hold_within(path: Path, mode: int, seconds: float) -> Held | None:
    """The lock, or None if it could not be had in so many seconds."""
    until = time.monotonic() + seconds
    while True:
        try:
            return hold(path, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return None
        time.sleep(_POLL)


def becomes_free(path: Path, seconds: float = 0.0) -> bool:
    """Whether nobody holds this lock, now or within so many seconds."""
    held = hold_within(path, fcntl.LOCK_EX, seconds)
    if held is None:
        return False
    held.release()
    return True


class StopOrder(NamedTuple):
    """What it takes to stop the server of a folder. ``uid`` and ``gid`` are whom it runs as, if that is not us."""

    pg_ctl: str
    data: str
    uid: int | None
    gid: int | None


def stop_server(order: StopOrder, server: Path) -> None:
    """Stop the server and return when nothing of it is left. Under the gate, without users.

    pg_ctl runs as the server's own account, so that a forged pid file can at worst make it signal a process of its own.

    Raises:
        TimeoutError: something still holds the ``server`` lock.
    """
    socket_folder = _socket_folder(Path(order.data))
    until = time.monotonic() + STOP_PATIENCE
    while not becomes_free(server):
        # Repeated: a server that is just starting has no pid file yet, and pg_ctl finds none to stop.
        _pg_ctl_stop(order, "fast")
        if not becomes_free(server, _POLL) and time.monotonic() > until:
            _pg_ctl_stop(order, "immediate")
            if not becomes_free(server, 5):
                raise TimeoutError(f"the server of {order.data} did not stop")
    # A short-named socket folder was made for this start alone (see server.py); the usual one stays.
    if socket_folder is not None and socket_folder.parent != Path(order.data).parent:
        try:
            socket_folder.rmdir()
        except OSError as error:
            print(f"runnerq keeper: {socket_folder} is left over: {error}", file=sys.stderr)  # noqa: T201 - its log


def _pg_ctl_stop(order: StopOrder, mode: str) -> None:
    subprocess.run(  # noqa: S603 - our own binaries
        [order.pg_ctl, "stop", "-D", order.data, "-m", mode, "-w", "-t", str(int(STOP_PATIENCE)), "-s"],
        check=False,  # judged by the lock, which knows better
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        user=order.uid,
        group=order.gid,
        extra_groups=None if order.uid is None else [],
    )


def _socket_folder(data: Path) -> Path | None:
    """Where the server of this data listens, as its pid file says in its fifth line."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    return Path(lines[4]) if len(lines) > 4 and lines[4] else None


def keep(locks: Locks, order: StopOrder, own: Held, linger: float) -> None:
    """Wait until the last user has gone, and stop the server if none comes for ``linger`` seconds."""
    while True:
        # Blocks without cost until no user is left.
        hold(locks.alive, fcntl.LOCK_EX).release()
        if _gone(locks, own):
            return
        time.sleep(linger)
        if _stopped(locks, order, own):
            return


def _gone(locks: Locks, own: Held) -> bool:
    """Whether the last user has stopped the server itself; then this keeper is done."""
    gate = hold(locks.gate, fcntl.LOCK_EX)
    try:
        gone = becomes_free(locks.users) and becomes_free(locks.server)
        if gone:
            own.release()
        return gone
    finally:
        gate.release()


def _stopped(locks: Locks, order: StopOrder, own: Held) -> bool:
    """Stop the server if there is still no user; whether it is stopped, and this keeper done."""
    gate = hold(locks.gate, fcntl.LOCK_EX)
    try:
        if not becomes_free(locks.users):
            return False
        stop_server(order, locks.server)
        own.release()
        return True
    finally:
        gate.release()


def main(arguments: list[str]) -> None:
    """``keeper.py LOCKS DESCRIPTOR LINGER PG_CTL DATA [UID GID]``; DESCRIPTOR is the ``keeper`` lock, inherited."""
    folder, descriptor, linger, pg_ctl, data, *account = arguments
    if os.fork() > 0:
        os._exit(0)  # the opener waits for this one only: the keeper is nobody's child and leaves nobody a zombie
    os.set_inheritable(int(descriptor), False)
    uid, gid = (int(account[0]), int(account[1])) if account else (None, None)
    keep(Locks(Path(folder)), StopOrder(pg_ctl, data, uid, gid), Held(int(descriptor)), float(linger))


if __name__ == "__main__":
    main(sys.argv[1:])
