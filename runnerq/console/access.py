"""Who is looking, and what they may do."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import msgspec

from runnerq.errors import ConfigurationError, RunnerQError

PERMISSIONS: tuple[str, ...] = (
    "start",
    "signal",
    "cancel",
    "terminate",
    "retry",
    "reschedule",
    "fork",
    "redrive",
    "delete",
    "bulk",
    "queue.write",
    "schedule.write",
    "limit.write",
    "worker.write",
    "payload.reveal",
)
"""Everything that somebody may be let do. Whoever is let in may look: at payloads with what is masked left out."""

ALL: frozenset[str] = frozenset(PERMISSIONS)
"""Every permission: what a principal has that was given no ``access``."""

READ_ONLY: frozenset[str] = frozenset()
"""No permission: looking alone."""


class Principal(msgspec.Struct, frozen=True):
    """Somebody who was let in: what they are called in the audit, and what they may do.

    ``access`` is ``ALL``, ``READ_ONLY`` or a set of permissions. ConfigurationError for one that does not exist: a
    permission that is misspelled would be one that nobody has.
    """

    name: str
    access: AbstractSet[str] = READ_ONLY

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigurationError("a Principal has a name: it stands in the audit")
        msgspec.structs.force_setattr(self, "access", frozenset(self.access))
        if unknown := sorted(self.access - ALL):
            named = ", ".join(map(repr, unknown))
            raise ConfigurationError(f"access= of {self.name!r} has {named}: there are {', '.join(PERMISSIONS)}")

    def may(self, permission: str) -> bool:
        """Whether this is one of their permissions."""
        return permission in self.access

    def need(self, permission: str) -> None:
        """Raise Forbidden if this is none of their permissions."""
        if permission not in self.access:
            raise Forbidden(self.name, permission)


class Forbidden(RunnerQError):
    """Somebody asked for what they may not do. Nothing was changed."""

    __match_args__ = ("principal", "permission")

    def __init__(self, principal: str, permission: str) -> None:
        self.principal = principal
        self.permission = permission
        super().__init__(f"{principal} may not do this: it needs the permission {permission!r}")
