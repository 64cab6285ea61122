"""The journal's side of an advance: places, times, and what is asked, written down when live and compared in replay.

Rules
- An event (one row with a place) is opened, asks are made while it is fed, and it is closed.
- Live: its asks become the row's ``asked``. In replay: each ask is compared with the recorded one at once, before
  anything depends on it, and what is recorded besides (deadline, child id) is taken from the record.
- A row recorded without ``asked`` was fed to code that failed. It is fed anew, live, and what is asked on it then is
  put on record by a ``mark`` row behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from runnerq.workflow.ending import Blocked
from runnerq.workflow.journal import Asked, Row, RowKind
from runnerq.workflow.tree import Branch, Composite, line_of

_decode_asked = msgspec.json.Decoder(list[Asked]).decode
_encode = msgspec.json.encode

_TAKEN_UP = "taken_up"
_NEVER = datetime.min.replace(tzinfo=UTC)
CHANGED = "the code changed while this run was open, or is not deterministic"


class Recorder:
    """What is on record of one generation, and what is to be written.

    ``at`` is the time of the last row fed, which never goes back. ``replaying`` is true until all that is recorded was
    fed.
    """

    def __init__(self) -> None:
        self.place = 0
        self.at = _NEVER
        self.rows: list[Row] = []
        self.replaying = False
        self._asks: list[Asked] = []
        self._expected: list[Asked] | None = None
        self._taken = 0

    @property
    def recording(self) -> bool:
        """Whether what is asked now is asked for the first time."""
        return self._expected is None

    # --- live ---------------------------------------------------------------------------------------------------------

    def open_event(self, at: datetime) -> None:
        """Begin to feed one answer."""
        if at > self.at:  # noqa: PLR1730 - max() is a call, on the hot path
            self.at = at
        self._asks = []

    def close_event(self, kind: RowKind, position: str, value: str | None) -> None:
        """Keep the row, with what was asked on it."""
        asked = asked_text(self._asks) if self._asks else "[]"
        self.rows.append(Row(self.place, kind, position, self.at, value, asked))
        self.place += 1

    def abandon_event(self, kind: RowKind, position: str, value: str | None) -> None:
        """The code failed on this answer: keep the answer, and nothing of what it asked."""
        self._write(kind, position, value, None)

    def take_rows(self) -> tuple[Row, ...]:
        rows = tuple(self.rows)
        self.rows = []
        return rows

    # --- replay -------------------------------------------------------------------------------------------------------

    def open_recorded(self, at: datetime, asked: str) -> None:
        """Begin to feed a recorded answer, on which this was asked."""
        self.at = at
        self._expected = _decode_asked(asked)
        self._taken = 0

    def close_recorded(self, root: Branch | None) -> None:
        """End it. Raises Blocked unless everything that was recorded has been asked."""
        expected, self._expected = self._expected, None
        if expected is not None and self._taken < len(expected):
            missing = expected[self._taken]
            raise diverged(missing.position, missing, None, line_of(root))
        self.place += 1

    def open_abandoned(self, at: datetime) -> None:
        """Begin to feed the last recorded answer anew, to code that may do better with it than the code that failed."""
        self.replaying = False
        self.place += 1
        self.open_event(at)

    def close_abandoned(self) -> None:
        """Put on record what was asked on it."""
        self._write("mark", "", msgspec.json.encode({_TAKEN_UP: True}).decode(), asked_text(self._asks))

    # --- both ---------------------------------------------------------------------------------------------------------

    def ask(self, asked: Asked, parent: Branch | Composite) -> Asked:
        """Put one command on record. In replay answers with the recorded one, or raises Blocked if it is another."""
        expected = self._expected
        if expected is None:
            self._asks.append(asked)
            return asked
        if self._taken == len(expected):
            raise diverged(asked.position, None, asked, line_of(parent))
        recorded = expected[self._taken]
        if (
            recorded.digest != asked.digest
            or recorded.name != asked.name
            or recorded.kind != asked.kind
            or recorded.position != asked.position
        ):
            raise diverged(recorded.position, recorded, asked, line_of(parent))
        self._taken += 1
        return recorded

    def _write(self, kind: RowKind, position: str, value: str | None, asked: str | None) -> None:
        self.rows.append(Row(self.place, kind, position, self.at, value, asked))
        self.place += 1


def takes_up(row: Row) -> bool:
    """Whether it is the mark that holds what was asked anew on the row before it."""
    return row.kind == "mark" and row.value is not None and _TAKEN_UP in row.value


def asked_text(asks: Sequence[Asked]) -> str:
    """The JSON of asks, without the trailing nulls of those that have no deadline and no child."""
    if len(asks) == 1:
        return f"[{_one_text(asks[0])}]"
    return f"[{','.join(map(_one_text, asks))}]"


def _one_text(ask: Asked) -> str:
    text = _encode(ask).decode()
    if ask.child is not None:
        return text
    return text[:-11] + "]" if ask.deadline is None else text[:-6] + "]"


def diverged(position: str, recorded: Asked | None, asked: Asked | None, line: str | None) -> Blocked:
    """The block of a run whose code asks for something else than its journal holds."""
    was = f"recorded {recorded}" if recorded is not None else "nothing is recorded"
    now = f"the workflow now asks for {asked}" if asked is not None else "the workflow asks for nothing"
    if recorded is not None and asked is not None:
        if recorded.position != asked.position:
            now += f" at position {asked.position}"
        elif str(recorded) == str(asked):
            now += f" with other arguments (recorded digest {recorded.digest}, now {asked.digest})"
    where = f" at {line}" if line else ""
    return Blocked(
        f"position {position}: {was}, {now}{where}; {CHANGED}",
        position=position,
        recorded=None if recorded is None else _described(recorded),
        asked=None if asked is None else _described(asked),
        line=line,
    )


def other_row(row: Row, instead: str, line: str | None = None) -> Blocked:
    """The block of a run whose journal goes on with a row that its code has no place for."""
    recorded = f"{row.kind} {row.position}".rstrip()
    return Blocked(
        f"position {row.position or row.place}: the journal goes on with {recorded!r} (row {row.place}), "
        f"but {instead}; {CHANGED}",
        position=row.position,
        recorded=recorded,
        asked=instead,
        line=line,
    )


def _described(asked: Asked) -> str:
    return f"{asked} ({asked.digest})"
