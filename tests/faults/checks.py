"""The ledger against the database: what must hold after every fault.

- Every run that was asked for was accepted, and is there once; nothing is there that nobody has asked for.
- Every run has ended once, completed, with the result that its number gives, and whoever waited for it saw that result.
- What ran and what is on record are the same steps. None began after its entry was committed.
- An attempt ran once. Only around a crash may one run again, because what it came to was not on record: such repeats
  are counted, and are a fault where the fault in question cannot cause them.
- No attempt was burned: a step that does not fail has only a first attempt, one that fails once has two.
- Nothing is left open, no signal lies around, journals have no gaps, and no sweep has found anything to mend.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from tests.faults.flows import FAILS_FIRST, STARTED, expected
from tests.faults.ledger import Ledger, Line
from tests.faults.record import Position, Record, Run

SHOWN = 3
"""Of each kind of fault, so many are named."""


class Found(msgspec.Struct, frozen=True):
    """What the comparison came to. ``repeats`` are attempts that ran again; ``crashes`` is the most that a run had."""

    runs: int
    repeats: int
    crashes: int
    faults: list[str]


def judge(ledger: Ledger, record: Record, *, may_repeat: bool) -> Found:
    """Compare, and say what is wrong."""
    ran = list(ledger.read("ran"))
    repeats = sum(times - 1 for times in Counter(line.words for line in ran).values())
    wrong: list[str] = [*record.faults]
    wrong += _starts(ledger, record)
    wrong += _ends(ledger, record)
    wrong += _steps(ran, record)
    wrong += _attempts(ran)
    if repeats and not may_repeat:
        wrong.append(f"{repeats} attempts ran again, though nothing was lost that could make them")
    mended = sum(int(line.words[1]) for line in ledger.read("mended"))
    if mended:
        wrong.append(f"sweeps had to mend {mended} runs: a wake was lost")
    crashes = max((int(line.words[3]) for line in ledger.read("claimed")), default=0)
    return Found(len(record.roots), repeats, crashes, wrong)


def _starts(ledger: Ledger, record: Record) -> list[str]:
    asked = {line.words[0] for line in ledger.read("asked")}
    accepted = {line.words[0]: line.words[1] for line in ledger.read("accepted")}
    there = {run.key: run.id for run in record.roots}
    wrong = _some("asked for and never accepted", asked - accepted.keys())
    wrong += _some(
        "accepted under another id than it is there with", {k for k, i in accepted.items() if there.get(k) != i}
    )
    wrong += _some("there, and nobody has asked for it", {str(key) for key in there if key not in asked})
    if len(there) != len(record.roots):
        wrong.append(f"{len(record.roots) - len(there)} runs are there more than once")
    return wrong


def _ends(ledger: Ledger, record: Record) -> list[str]:
    seen = {line.words[0]: line.words[1:] for line in ledger.read("results")}
    counted = Counter(line.words[0] for line in ledger.read("results"))
    wrong = _some("seen to end more than once", {run for run, times in counted.items() if times > 1})
    wrong += _some("not ended as completed", {_named(run) for run in record.runs.values() if run.status != "completed"})
    for run in record.roots:
        kind, _, number = (run.key or "").partition("-")
        if kind not in STARTED or run.result is None:
            continue
        right = str(expected(kind, int(number)))
        if run.result != right:
            wrong.append(f"{_named(run)}: its result is {run.result}, not {right}")
        if seen.get(run.id) != ("completed", right):
            wrong.append(f"{_named(run)}: its client saw {seen.get(run.id, 'no end')}, not {right}")
    children = Counter(run.parent_id for run in record.runs.values() if run.parent_id)
    orders = {run.id for run in record.roots if run.name == "order"}
    wrong += _some("not with exactly one child", {run for run in orders if children[run] != 1})
    return wrong


def _steps(ran: list[Line], record: Record) -> list[str]:
    late = {
        f"{line.words[0]} began {(line.at - record.entries[position]) * 1000:.1f} ms after its entry was committed"
        for line in ran
        if (position := _position(line.words[0])) in record.entries and line.at > record.entries[position]
    }
    executed = {_position(line.words[0]) for line in ran}
    return (
        _some("a recorded step ran again", late)
        + _some("on record, and never ran", {str(position) for position in record.entries.keys() - executed})
        + _some("ran, and not on record", {str(position) for position in executed - record.entries.keys()})
    )


def _attempts(ran: list[Line]) -> list[str]:
    attempts: dict[str, set[int]] = {}
    for line in ran:
        attempts.setdefault(line.words[0], set()).add(int(line.words[1]))
    return _some(
        "with other attempts than it takes",
        {
            f"{key} {sorted(numbers)}"
            for key, numbers in attempts.items()
            if numbers != ({1, 2} if key.rpartition(":")[2] in FAILS_FIRST else {1})
        },
    )


def _position(key: str) -> Position:
    run, generation, position, _ = key.split(":", 3)
    return run, int(generation), position


def _named(run: Run) -> str:
    return f"{run.name} {run.id} ({run.status or 'open'})"


def _some(what: str, which: set[str]) -> list[str]:
    if not which:
        return []
    shown = "; ".join(sorted(which)[:SHOWN])
    return [f"{what}: {len(which)}, such as {shown}"]
