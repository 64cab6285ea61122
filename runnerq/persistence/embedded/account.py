"""Whom the server runs as. Postgres refuses to run as root, so for root it is an account that is already there.

No account is created, and no mode is changed to make a place reachable: what the account cannot reach is copied (the
server's programs) or refused (a folder).
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import TypedDict

import msgspec

from runnerq.errors import ConfigurationError

CANDIDATES = ("runnerq", "postgres", "nobody")
"""In order of preference. initdb looks its own account up by number, so a bare uid without a name does not do."""


class Account(msgspec.Struct, frozen=True):
    """An account of this machine."""

    name: str
    uid: int
    gid: int


class Identity(TypedDict, total=False):
    """The arguments of ``subprocess`` that make a child run as somebody else."""

    user: int
    group: int
    extra_groups: list[int]


def server_account(data: Path) -> Account | None:
    """The account for the server of this data, None if it is our own: the data's owner, else the best candidate."""
    if os.geteuid() != 0:
        return None
    try:
        owner = pwd.getpwuid(data.stat().st_uid)
    except FileNotFoundError:
        owner = _first_candidate()
    except KeyError:
        raise ConfigurationError(
            f"{data} belongs to user {data.stat().st_uid}, who has no account on this machine: "
            "give it to one (chown -R), or set RUNNERQ_DSN"
        ) from None
    return Account(owner.pw_name, owner.pw_uid, owner.pw_gid)


def _first_candidate() -> pwd.struct_passwd:
    for name in CANDIDATES:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ConfigurationError(
        f"Postgres does not run as root, and none of the accounts {', '.join(CANDIDATES)} is there to run it: "
        "create one, start as another user, or set RUNNERQ_DSN"
    )


def identity(account: Account | None) -> Identity:
    """What makes a child run as this account."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def can_reach(account: Account | None, path: Path) -> bool:
    """Whether the account can read (and enter, or execute) this file or folder, judged by the modes of all above it."""
    if account is None:
        return True
    path = path.resolve()
    needs = stat.S_IROTH | stat.S_IXOTH if path.is_dir() or os.access(path, os.X_OK) else stat.S_IROTH
    return _allows(account, path, needs) and all(_allows(account, above, stat.S_IXOTH) for above in path.parents)


def _allows(account: Account, path: Path, needs: int) -> bool:
    """``needs`` are bits as for others; they are moved to where this account's bits are."""
    found = path.stat()
    if found.st_uid == account.uid:
        needs <<= 6
    elif found.st_gid == account.gid:
        needs <<= 3
    return found.st_mode & needs == needs
