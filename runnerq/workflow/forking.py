"""What a fork begins with: another run's rows before an entry was answered (DESIGN section 5, rule 16).

Rules
- The seed stays, so that the same code draws the same. Children that the rows leave open are new ones, with new ids.
- Digests of arguments are not compared in these rows: they are keyed by the original run, and what was asked with an id
  of the original or of its children is asked with another one by the fork.
- An entry that is answered by being asked (a spawn, a publish) is asked anew, with what was asked beside and behind it.
- A run is not forked among its undos: another run did what they undo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from runnerq.workflow.journal import RULES, Asked, Reopened, Row, Started, asks_of
from runnerq.workflow.recorder import asked_text
from runnerq.workflow.reopening import ARGUMENTS, effective

_AT_ONCE = ("spawn", "publish", "patch")


def before_answer(rows: Sequence[Row], position: str) -> tuple[Row, ...]:
    """The rows before this entry's answer; all of them, if it is not answered. ValueError for an unknown position."""
    fed = effective(rows)
    asking, asked = _asking(fed, position)
    if asked.kind == "undo":
        raise ValueError(f"entry {position!r} is an undo: fork the run from an entry of the workflow's own")
    if _is_answered_at_once(asked, fed):
        return _asked_anew(rows, asking)
    ends = (
        row.place for row in fed if row.place > asking.place and (row.position == position or _is_dropped(asked, row))
    )
    end = next(ends, None)
    return tuple(rows) if end is None else tuple(row for row in rows if row.place < end)


def open_children(rows: Sequence[Row]) -> dict[str, str]:
    """The children that were asked for and have not ended by these rows: id, and the position that asked for it."""
    started: dict[str, Asked] = {}
    waited: dict[str, Asked] = {}
    for row in effective(rows):
        ended = waited.get(row.position)
        if row.kind in ("answered", "failed"):
            if ended is not None:
                started.pop(ended.child or "", None)
        elif row.kind == "closed" and ended is not None:
            # A wait that was closed closes the child only where it had started it.
            if started.get(ended.child or "") is ended:
                del started[ended.child or ""]
        elif row.kind in ("closed", "cancel"):
            started = {child: asked for child, asked in started.items() if not _is_dropped(asked, row)}
        for asked in asks_of(row):
            if asked.child is not None:
                waited[asked.position] = asked
                # A wait by ctx.handle(id) has no name: another generation asked for that child, or somebody else.
                if asked.name:
                    started.setdefault(asked.child, asked)
    return {child: asked.position for child, asked in started.items()}


def forked(rows: Sequence[Row], children: Mapping[str, str], began_at: datetime) -> tuple[Row, ...]:
    """The rows of a fork of the run that has these: with new ids in place of the ``children``, and begun then."""
    started = msgspec.json.decode(rows[0].value or "", type=Started)
    value = msgspec.structs.replace(started, rules=max(started.rules, RULES), began_at=began_at)
    first = msgspec.structs.replace(rows[0], value=_json(value))
    copied = [_with_children(row, children) for row in (first, *rows[1:])]
    place = copied[-1].place + 1
    accepting = Reopened(upto=place, accept=(ARGUMENTS,))
    return (*copied, Row(place, "reopened", "", copied[-1].at, _json(accepting)))


def _asking(fed: Sequence[Row], position: str) -> tuple[Row, Asked]:
    for row in fed:
        for asked in asks_of(row):
            if asked.position == position:
                return row, asked
    raise ValueError(f"there is no entry {position!r} in this journal: history() shows those that are")


def _is_answered_at_once(asked: Asked, fed: Sequence[Row]) -> bool:
    inside = f"{asked.position}."
    return asked.kind in _AT_ONCE or (
        asked.kind == "all" and not any(each.position.startswith(inside) for row in fed for each in asks_of(row))
    )


def _is_dropped(asked: Asked, row: Row) -> bool:
    """Whether this row ended it without a row of its own: a cancel of the run, or the closing of what it lies in."""
    if asked.kind not in ("sleep", "signal", "child"):
        return False
    return row.kind == "cancel" or (row.kind == "closed" and asked.position.startswith(f"{row.position}."))


def _asked_anew(rows: Sequence[Row], asking: Row) -> tuple[Row, ...]:
    before = tuple(row for row in rows if row.place < asking.place)
    return before if asking.kind == "mark" else (*before, msgspec.structs.replace(asking, asked=None))


def _with_children(row: Row, children: Mapping[str, str]) -> Row:
    asks = asks_of(row)
    if not any(each.child in children for each in asks):
        return row
    renewed = [
        each if each.child is None else msgspec.structs.replace(each, child=children.get(each.child, each.child))
        for each in asks
    ]
    return msgspec.structs.replace(row, asked=asked_text(renewed))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
