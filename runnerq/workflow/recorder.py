"""The journal's side of an advance: places, times, and what is asked, written down when live and compared in replay.

Rules
- An event (one row with a place) is opened, asks are made while it is fed, and it is closed.
- Live: its asks become the row's ``asked``. In replay: each ask is compared with the recorded one at once, before anything
  depends on it, and what is recorded besides (deadline, child id) is taken from the record.
- A row recorded without ``asked`` was fed to code that failed: what follows it is asked anew, and put on record by a
  ``mark`` row once it is live.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from runnerq.workflow.ending import Blocked
from runnerq.workflow.journal import Asked, Row, RowKind

_decode_asked = msgspec.json.Decoder(list[Asked]).decode
_encode = msgspec.json.encode

TAKEN_UP = "taken_up"
_NEVER = datetime.min.replace(tzinfo=UTC)


class Recorder:
    """What is on record of one generation, and what is to be written."""

    def __init__(self) -> None:
        self.place = 0
        self.at = _NEVER
        self.rows: list[Row] = []
        self.asks: list[Asked] = []
        self.unrecorded: list[Asked] = []
        self.replaying = False
        self._expected: list[Asked] | None = None
        self._taken = 0

    def open_event(self, at: datetime) -> None:
        """Begin to feed one answer. Times never go back."""
        if at > self.at:
            self.at = at
        self.asks = []

    def close_event(self, kind: RowKind, position: str, value: str | None) -> None:
        """Live: keep the row with what was asked on it."""
        asked = asked_text(self.asks) if self.asks else "[]"
        self.rows.append(Row(self.place, kind, position, self.at, value, asked))
        self.place += 1

    def abandon_event(self, kind: RowKind, position: str, value: str | None) -> None:
        """Live: the code failed on this answer; keep the answer, and nothing of what it asked."""
        self.rows.append(Row(self.place, kind, position, self.at, value, None))
        self.place += 1

    def replay_event(self, row: Row, asked: str | None) -> None:
        """Begin to feed a recorded row; ``asked`` is what was asked on it, None if that is not on record."""
        self.at = row.at
        self.asks = []
        self._expected = None if asked is None else _decode_asked(asked)
        self._taken = 0

    def replayed_event(self, line: str | None) -> None:
        """End it: everything that was recorded must have been asked."""
        expected = self._expected
        if expected is None:
            self.unrecorded = self.asks
        elif self._taken < len(expected):
            missing = expected[self._taken]
            raise diverged(missing.position, missing, None, line)
        self.place += 1
        self._expected = None

    def ask(self, asked: Asked, line: str | None) -> Asked:
        """Put one command on record; in replay answers with the recorded one."""
        if self._expected is not None:
            if self._taken >= len(self._expected):
                raise diverged(asked.position, None, asked, line)
            recorded = self._expected[self._taken]
            if (
                recorded.digest != asked.digest
                or recorded.name != asked.name
                or recorded.kind != asked.kind
                or recorded.position != asked.position
            ):
                raise diverged(recorded.position, recorded, asked, line)
            self._taken += 1
            asked = recorded
        self.asks.append(asked)
        return asked

    @property
    def recording(self) -> bool:
        """Whether what is asked now is asked for the first time."""
        return self._expected is None

    def take_rows(self) -> tuple[Row, ...]:
        rows = tuple(self.rows)
        self.rows = []
        return rows


def asked_text(asks: Sequence[Asked]) -> str:
    """The JSON of asks, without the trailing nulls of those that have no deadline and no child."""
    parts = []
    for ask in asks:
        text = _encode(ask).decode()
        if ask.child is None:
            text = text[:-11] + "]" if ask.deadline is None else text[:-6] + "]"
        parts.append(text)
    return "[" + ",".join(parts) + "]"


def diverged(position: str, recorded: Asked | None, asked: Asked | None, line: str | None) -> Blocked:
    """The block of a run whose code asks for something else than its journal holds."""
    was = f"recorded {recorded}" if recorded is not None else "nothing is recorded"
    now = f"the workflow now asks for {asked}" if asked is not None else "the workflow asks for nothing"
    if recorded is not None and asked is not None and str(recorded) == str(asked):
        now += f" with other arguments (recorded digest {recorded.digest}, now {asked.digest})"
    where = f" at {line}" if line else ""
    return Blocked(
        f"position {position}: {was}, {now}{where}; the code changed while this run was open, or is not deterministic",
        position=position,
        recorded=None if recorded is None else _described(recorded),
        asked=None if asked is None else _described(asked),
        line=line,
    )


def _described(asked: Asked) -> str:
    return f"{asked} ({asked.digest})" if asked.digest else str(asked)
