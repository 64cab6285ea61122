"""What is on record of a run: rows with a place, each one answer and what was asked on being fed it.

Rules
- A generation's rows have places 0, 1, 2, ...; replay feeds them in that order and in no other.
- Row 0 is ``started``. It holds the seed, the build, the version and the rules version, and the first asks.
- ``answered``, ``failed``, ``interrupted`` end one command; ``closed`` drops one that a decided composite lost.
  ``cancel``, ``mark`` and ``reopened`` are rows whose position is not a command of their own.
- A position is a path: ``"7"`` the seventh command of the root branch, ``"5.1"`` the second member of the composite
  at 5, ``"5.1.2"`` the second command inside the branch that is that member. A cancel's position is ``""``. Undos are
  ``"u1"``, ``"u2"``, ... in the order in which they run. A patch takes no number: ``"7+1"`` is the first one behind the
  seventh command.
- ``asked`` is JSON: a list of ``[position, kind, name, digest]``, with the deadline (ISO text, or null) and the child's
  id behind them where there is one. A patch has the build that made it as its digest, and as its deadline the time at
  which that build was first seen.
- A row without ``asked`` was fed to code that failed on it, or waits to be fed: row 0 of a later generation, the answer
  of a transaction.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

RULES = 2
"""The version of the rules of this journal; a journal of newer rules is not replayed by older code.

2: row 0 of a later generation holds that generation's arguments. Code of rules 1 would not miss them: it would begin
with the first one's input. All else that came with them (patches, undos, ``reopened``) is a row or an ask that such
code has no place for, and stops at. A journal of rules 1 reads the same under rules 2.
"""

RowKind = Literal["started", "answered", "failed", "closed", "interrupted", "mark", "cancel", "reopened"]


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row of a journal. ``value`` and ``asked`` are JSON text; ``at`` is database time as the worker reads it."""

    place: int
    kind: RowKind
    position: str
    at: datetime
    value: str | None = None
    asked: str | None = None


class Started(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of row 0.

    Of a later generation: ``arguments`` are its own (as ``Codec.encode_call`` writes them), ``state`` is what those
    before it had published, and ``began_at`` is when the first one began. Of a fork: ``began_at`` is when it was made.
    """

    seed: str
    build: str
    # By a factory, as a plain default would be left out, and a reader of other rules would take it for its own.
    rules: int = msgspec.field(default_factory=lambda: RULES)
    version: int = 1
    # msgspec reads no union of Raw with anything.
    arguments: msgspec.Raw = msgspec.Raw()
    state: dict[str, Any] = {}
    began_at: datetime | None = None

    @property
    def own_arguments(self) -> str | None:
        """The JSON of ``arguments``; None in a first generation, which is called with the run's input."""
        text = bytes(self.arguments).decode()
        return None if text in ("", "null") else text


class Reopened(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a ``reopened`` row: what a person had taken back before it, so that the run goes on.

    Rows from place ``upto`` on are fed no more. With ``anew`` the last row that still is, is fed as if what was asked
    on it were not on record. ``skipped`` are places of failed undos: those are waited for again. ``accept``: with
    ``"arguments"`` in it, digests that were recorded before this row are not compared.
    """

    upto: int
    anew: bool = False
    skipped: tuple[int, ...] = ()
    accept: tuple[str, ...] = ()


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


_decode_asked = msgspec.json.Decoder(list[Asked]).decode


def asks_of(row: Row) -> list[Asked]:
    """What was asked on being fed this row; nothing, if the row is without ``asked``."""
    return [] if row.asked is None else _decode_asked(row.asked)
