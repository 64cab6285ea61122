"""The journal's side of an advance: places, times, and what is asked, written down when live and compared in replay.

Rules
- An event (one row with a place) is opened, asks are made while it is fed, and it is closed.
- Live: its asks become the row's ``asked``. In replay: each ask is compared with the recorded one at once, before
  anything depends on it, and what is recorded besides (deadline, child id) is taken from the record.
- A row recorded without ``asked`` was fed to code that failed, or is the answer of a transaction, whose commit it went
  with and which is fed behind it. It is fed (anew), live, and what is asked on it then is put on record by a ``mark``
  row behind it.
- A patch is asked for by its branch before its next command. One that is on record and not asked for is passed over by
  a build that was first seen after the one that made it: there the patch was removed. An earlier build stops at it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from runnerq.workflow.ending import Blocked
from runnerq.workflow.identity import NEVER
from runnerq.workflow.journal import Asked, Row, RowKind
from runnerq.workflow.options import CallOptions
from runnerq.workflow.tree import Parent, line_of

_decode_asked = msgspec.json.Decoder(list[Asked]).decode
_encode = msgspec.json.encode

_TAKEN_UP = "taken_up"
CHANGED = "the code changed while this run was open, or is not deterministic"
_OTHERWISE = {
    "sleep": "of another length",
    "signal": "with another timeout, default or latest",
    "all": "of another number of members, or with another limit",
    "race": "of another number of members",
}
"""What is said of a command of such a kind whose digest alone differs; of all others, that it has other arguments."""
# The build of a patch stands at the same place.
_DIGEST = re.compile(r"\A((?!patch ).*) \([\w-]{0,12}\)\Z", re.DOTALL)


class Recorder:
    """What is on record of one generation, and what is to be written.

    ``at`` is the time of the last row fed, which never goes back. ``replaying`` is true until all that is recorded was
    fed. Digests of rows before the place ``accept_before`` are not compared.
    """

    def __init__(self, build: str = "", build_seen: datetime = NEVER) -> None:
        self.place = 0
        self.at = NEVER
        self.rows: list[Row] = []
        self.replaying = False
        self.accept_before = 0
        self._build = build
        self._build_seen = build_seen
        self._asks: list[Asked] = []
        self._expected: list[Asked] | None = None
        self._taken = 0
        # Patches that were asked for where a branch stands now, and those of them that were found on record.
        self._patched_at = ""
        self._patches: dict[str, bool] = {}
        self._found: set[str] = set()

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

    def open_recorded(self, place: int, at: datetime, asked: str) -> None:
        """Begin to feed a recorded answer, on which this was asked."""
        self.place = place
        self.at = at
        self._expected = _decode_asked(asked)
        self._taken = 0

    def close_recorded(self, node: Parent | None) -> Asked | None:
        """End it. Answers with what was recorded and not asked; None if everything was asked, as it should be."""
        expected = self._expected
        missing = None
        if expected is not None and self._taken < len(expected):
            self._pass_over(expected, None, node)
            missing = expected[self._taken] if self._taken < len(expected) else None
        self._expected = None
        self.place += 1
        return missing

    def open_abandoned(self, place: int, at: datetime) -> None:
        """Begin to feed the last recorded answer anew, to code that may do better with it than the code that failed."""
        self.replaying = False
        self.place = place
        self.open_event(at)

    def open_recorded_now(self, at: datetime) -> None:
        """Begin to feed an answer that was just put on record, without what is asked on it."""
        self.place += 1
        self.open_event(at)

    def close_abandoned(self) -> None:
        """Put on record what was asked on it."""
        self._write("mark", "", msgspec.json.encode({_TAKEN_UP: True}).decode(), asked_text(self._asks))

    # --- both ---------------------------------------------------------------------------------------------------------

    def ask(self, asked: Asked, parent: Parent, options: CallOptions) -> Asked:
        """Put one command on record. In replay answers with the recorded one, or raises Blocked if it is another."""
        expected = self._expected
        if expected is None:
            self._asks.append(asked)
            return asked
        taken = self._taken
        if taken < len(expected):
            recorded = expected[taken]
            if (
                recorded.digest == asked.digest
                and recorded.name == asked.name
                and recorded.kind == asked.kind
                and recorded.position == asked.position
            ):
                self._taken = taken + 1
                return recorded
        return self._ask_otherwise(expected, asked, parent, options)

    def _ask_otherwise(self, expected: list[Asked], asked: Asked, parent: Parent, options: CallOptions) -> Asked:
        """What is on record is not what is asked for, letter by letter; it may do all the same."""
        self._pass_over(expected, asked, parent)
        if self._taken == len(expected):
            raise diverged(asked.position, None, asked, line_of(parent))
        recorded = expected[self._taken]
        same_place = recorded.position == asked.position and recorded.kind == asked.kind
        same_name = recorded.name == asked.name or recorded.name in (options.formerly or ())
        any_arguments = options.arguments == "any" or self.place < self.accept_before
        if not (same_place and same_name and (any_arguments or recorded.digest == asked.digest)):
            if same_name:
                asked = msgspec.structs.replace(asked, name=recorded.name)
            raise diverged(recorded.position, recorded, asked, line_of(parent))
        self._taken += 1
        return recorded

    def patched(self, change: str, place: str) -> bool:
        """Whether the branch that has asked for ``place`` last goes the new way of a change, here and until its next
        command: where its mark is on record, or where nothing is."""
        if place != self._patched_at:
            self._patched_at, self._patches = place, {}
        known = self._patches.get(change)
        if known is None:
            known = self._patches[change] = self._mark(change, place)
        return known

    def _mark(self, change: str, place: str) -> bool:
        expected = self._expected
        if expected is None:
            position = f"{place}+{len(self._patches) + 1}"
            self._asks.append(Asked(position, "patch", change, self._build, self._build_seen))
            return True
        # Nothing is raised here, where user code would see it: what comes next, an ask or the end, finds it again.
        taken = self._taken
        while taken < len(expected) and (mark := expected[taken]).kind == "patch":
            if mark.name == change and mark.position.startswith(f"{place}+"):
                self._found.add(mark.position)
                return True
            taken += 1
        return False

    def _pass_over(self, expected: list[Asked], asked: Asked | None, parent: Parent | None) -> None:
        """Go past the patches that come next on record. Raises Blocked at one that this build has to ask for."""
        while self._taken < len(expected) and expected[self._taken].kind == "patch":
            mark = expected[self._taken]
            is_older = mark.deadline is not None and mark.deadline < self._build_seen
            if mark.position not in self._found and not is_older:
                raise not_asked_for(mark, asked, line_of(parent))
            self._found.discard(mark.position)
            self._taken += 1

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
            now += f" {_otherwise(asked.kind)}"
    return _blocked(position, f"{was}, {now}", recorded, asked, line)


def not_asked_for(mark: Asked, asked: Asked | None, line: str | None) -> Blocked:
    """The block of a run that took the new way of a patch which this code does not know."""
    message = (
        f"recorded {mark} by build {mark.digest!r}, and the workflow does not ask for it; only a build that was first "
        "seen after that one may leave it out"
    )
    return _blocked(mark.position, message, mark, asked, line)


def _blocked(position: str, message: str, recorded: Asked | None, asked: Asked | None, line: str | None) -> Blocked:
    where = f" at {line}" if line else ""
    return Blocked(
        f"position {position}: {message}{where}; {CHANGED}",
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


def differ_in_arguments_alone(recorded: str | None, asked: str | None) -> bool:
    """Whether these, as a block describes them, are the same but for the digests of their arguments."""
    if recorded is None or asked is None:
        return False
    return recorded.rpartition(" (")[0] == asked.rpartition(" (")[0]


def without_digests(recorded: str | None, asked: str | None) -> tuple[str | None, str | None]:
    """These, as a block describes them, for people.

    What a digest is of can be found out by trying, where there are not many things that it can be: a card, a PIN.
    """
    plain = _without_digest(asked)
    if plain is not None and differ_in_arguments_alone(recorded, asked):
        plain += f" {_otherwise(plain.partition(' ')[0])}"
    return _without_digest(recorded), plain


def _otherwise(kind: str) -> str:
    return _OTHERWISE.get(kind, "with other arguments")


def _without_digest(described: str | None) -> str | None:
    return None if described is None else _DIGEST.sub(r"\1", described)
