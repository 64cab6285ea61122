"""What is on record of a run: rows with a place, each one answer and what was asked on being fed it.

Rules
- A generation's rows have places 0, 1, 2, ...; replay feeds them in that order and in no other.
- Row 0 is ``started``. It holds the seed, the build, the version and the rules version, and the first asks.
- ``answered``, ``failed``, ``interrupted`` end one command; ``closed`` drops one that a decided composite lost.
  ``cancel``, ``mark`` and ``reopened`` are rows whose position is not a command of their own.
- A position is a path: ``"7"`` the seventh command of the root branch, ``"5.1"`` the second member of the composite
  at 5, ``"5.1.2"`` the second command inside the branch that is that member. A cancel's position is ``""``.
- ``asked`` is JSON: a list of ``[position, kind, name, digest]``, with the deadline (ISO text, or null) and the child's
  id behind them where there is one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

RULES = 1
"""The version of the rules of this journal; a journal of newer rules is not replayed by older code."""

RowKind = Literal["started", "answered", "failed", "closed", "interrupted", "mark", "cancel", "reopened"]


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row of a journal. ``value`` and ``asked`` are JSON text; ``at`` is database time as the worker reads it."""

    place: int
    kind: RowKind
    position: str
    at: datetime
    value: str | None = None
    asked: str | None = None


class Started(msgspec.Struct, frozen=True):
    """The value of row 0."""

    seed: str
    build: str
    rules: int = RULES
    version: int = 1
    arguments: msgspec.Raw | None = None


class Asked(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One command on record before it starts."""

    position: str
    kind: str
    name: str
    digest: str
    deadline: datetime | None = None
    child: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else self.kind
