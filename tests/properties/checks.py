"""What must hold of a case that was played: the model's outcome, no recorded step run again, every prefix replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from runnerq.persistence.records import Journal, RunRecord, Sent
from tests.properties.model import ChildSeen, Facts, Failed, Model, Renewed, Stopped
from tests.properties.programs import (
    Block,
    Child,
    Compensate,
    Node,
    Spawn,
    Step,
    Tell,
    Wait,
    all_nodes,
    nodes_of,
    reachable,
    read,
)
from tests.properties.replays import Replayed, asks_of, program_in, replay
from tests.properties.world import Played

MOST_PREFIXES = 12
"""Prefixes of one journal that are replayed, so that long ones do not take all the time."""


def check(played: Played, second: float = 1.0) -> frozenset[int]:
    """Raise AssertionError unless all of it holds. The numbers of the nodes that were come to."""
    runs = {run.id: run for run in played.runs}
    by_node = _children(played)
    assert played.ledger.broken == []
    twice = [signal for signal, count in played.ledger.sent.items() if count > 1]
    assert twice == [], f"signals were sent twice: {twice}"
    _check_steps(played)
    _check_cancel(played, runs[played.root])
    reached: set[int] = set()
    journals = {(journal.run_id, journal.generation): journal for journal in played.journals}
    for run in played.runs:
        if run.started is None and not any(run_id == run.id for run_id, _ in journals):
            assert run.status == "cancelled", f"{run.id} ended as {run.status} without a journal"
            continue
        reached |= _check_run(played, run, journals, by_node, second)
    return frozenset(reached)


# --- one run ----------------------------------------------------------------------------------------------------------


def _check_run(
    played: Played,
    run: RunRecord,
    journals: Mapping[tuple[str, int], Journal],
    by_node: Mapping[int, RunRecord],
    second: float,
) -> set[int]:
    block: Block | None = read(program_in(run.input))
    reached: set[int] = set()
    for generation in range(1, run.generation + 1):
        journal = journals.get((run.id, generation))
        if journal is None or not journal.rows:
            assert run.status == "cancelled", f"{run.id} ended as {run.status} without rows"
            return reached
        assert [row.place for row in journal.rows] == list(range(len(journal.rows)))
        assert block is not None, f"{run.id} has more generations than its program"
        whole = _check_prefixes(run, journal, second)
        reached |= whole.reached
        facts = _facts(played, run, whole, block, by_node)
        _check_undos(played, run, journal, facts, last=generation == run.generation)
        block = _outcome(facts, run, block, last=generation == run.generation)
    if run.id == played.root:
        _check_mailbox(played, [journals[run.id, each] for each in range(1, run.generation + 1)])
    assert block is None, f"{run.id} was to go on in another generation"
    return reached


def _facts(played: Played, run: RunRecord, whole: Replayed, block: Block, by_node: Mapping[int, RunRecord]) -> Facts:
    sent: dict[str, set[int]] = {}
    if run.id == played.root:
        sent = {channel: set(values) for channel, values in played.sent.items()}
        told = [node for node in all_nodes(played.case.program) if isinstance(node, Tell)]
    else:
        told = [node for node in reachable(block) if isinstance(node, Tell)]
    for node in told:
        sent.setdefault(node.channel, set()).add(node.n)
    own = _spawn_of(played, run)
    if isinstance(own, Spawn):
        sent.setdefault("blue", set()).add(own.n)
    children = {
        node.n: ChildSeen(child.status, _result(child), child.cancel_requested)
        for node in nodes_of(block)
        if isinstance(node, Child | Spawn) and (child := by_node.get(node.n)) is not None
    }
    frozen = {channel: frozenset(values) for channel, values in sent.items()}
    registered = {node.n for node in nodes_of(block) if isinstance(node, Compensate)}
    undos = tuple(n for n in whole.seen if n in registered)
    return Facts(seen=whole.seen, sent=frozen, children=children, cancelled=run.cancel_requested, undos=undos)


def _outcome(facts: Facts, run: RunRecord, block: Block, *, last: bool) -> Block | None:
    """Compare with the model; the next generation's program, if there is to be one."""
    undo_fails = any(isinstance(node, Compensate) and node.fails and node.n in facts.undos for node in nodes_of(block))
    end = _end(facts, block)
    if isinstance(end, Renewed):
        assert not last, run
        return end.body
    assert last, run
    match end:
        case Failed():
            status, told = "dead_letter" if end.exhausted or undo_fails else "failed", end.told[1]
        case Stopped():
            status, told = "dead_letter" if undo_fails else "cancelled", "Cancelled" if undo_fails else None
        case _:
            status, told, undo_fails = "completed", None, False
            assert _result(run) == end, (run, end)
    error = None if run.error is None else msgspec.json.decode(run.error).get("type")
    assert (run.status, error) == (status, told), (run, told)
    assert (run.reason == "undo_failed") == undo_fails, run
    return None


def _end(facts: Facts, block: Block) -> Any:
    """What the model says that it comes to: a value, or how it ends instead."""
    try:
        return Model(facts).block(block)
    except (Failed, Stopped, Renewed) as end:
        return end


def _result(run: RunRecord) -> Any:
    return None if run.result is None else msgspec.json.decode(run.result)


def _children(played: Played) -> dict[int, RunRecord]:
    """The child that each node started; none is started twice."""
    found: dict[int, RunRecord] = {}
    for run in played.runs:
        if run.id != played.root:
            n = int(msgspec.json.decode(run.metadata or "{}")["n"])
            assert n not in found, f"node {n} started two children: {run.id} and {found[n].id}"
            found[n] = run
    return found


def _spawn_of(played: Played, run: RunRecord) -> Node | None:
    if run.id == played.root:
        return None
    n = int(msgspec.json.decode(run.metadata or "{}")["n"])
    return next((node for node in all_nodes(played.case.program) if node.n == n), None)


def _check_undos(played: Played, run: RunRecord, journal: Journal, facts: Facts, *, last: bool) -> None:
    """Undos run if the run did not complete, the last registered first, each to its answer."""
    begun = {
        began.position: began.n
        for began in played.begun
        if (began.run_id, began.generation) == (run.id, journal.generation) and began.position.startswith("u")
    }
    expected = facts.undos if last and run.status != "completed" else ()
    assert begun == {f"u{index}": n for index, n in enumerate(reversed(expected), 1)}, (run, begun, facts.undos)
    ended = [row.position for row in journal.rows if row.position.startswith("u")]
    assert ended == [f"u{index}" for index in range(1, len(expected) + 1)], (run, ended)


# --- replay -----------------------------------------------------------------------------------------------------------


def _check_prefixes(run: RunRecord, journal: Journal, second: float) -> Replayed:
    """Each prefix asks for what is on record, waits for what is to be answered, and has seen nothing else."""
    rows = journal.rows
    late = rows[-1].at + timedelta(days=1)
    whole = replay(run, journal, len(rows), late, second)
    assert whole.rows == (), f"{run.id} goes on after its end: {whole.rows}"
    assert whole.end is not None, f"{run.id} has ended, and its journal does not: it waits for {whole.open}"
    asked = asks_of(rows)
    lengths = list(range(1, len(rows)))
    if len(lengths) > MOST_PREFIXES:
        lengths = sorted(Random(run.id).sample(lengths, MOST_PREFIXES))
    for length in lengths:
        part = replay(run, journal, length, rows[length].at, second)
        following = rows[length : length + len(part.rows)]
        now, then = [_plain(row) for row in part.rows], [_plain(row) for row in following]
        assert now == then, f"{run.id}, {length} rows: what follows was {then}, and is now {now}"
        fed = rows[: length + len(part.rows)]
        for position, ask in part.open.items():
            assert asks_of(fed).get(position) == ask, f"{run.id}, {length} rows: {ask} is open and was not asked so"
            assert asked[position] == ask
        for n, seen in part.seen.items():
            assert whole.seen[n] == seen, f"{run.id}, {length} rows: node {n} saw {seen!r}, later {whole.seen[n]!r}"
        # What answers next is something that is waited for now.
        after = len(fed)
        if after < len(rows) and rows[after].kind in ("answered", "failed", "interrupted"):
            assert rows[after].position in part.open, f"{run.id}: row {after} answers what is not open: {part.open}"
    return whole


def _plain(row: Any) -> tuple[Any, ...]:
    return row.kind, row.position, row.value, row.asked


# --- steps ------------------------------------------------------------------------------------------------------------


def _check_steps(played: Played) -> None:
    """Nothing whose answer was committed is begun again, nor an attempt that was."""
    ledger = played.ledger
    steps = {node.n: node for node in all_nodes(played.case.program) if isinstance(node, Step)}
    for began in played.begun:
        if began.stale:
            continue
        key = (began.run_id, began.generation, began.position)
        answered_at = ledger.answers.get(key)
        assert answered_at is None or began.at < answered_at, f"{began} began again after its answer was recorded"
        number, tried_at = ledger.tried.get(key, (0, began.at))
        assert began.at <= tried_at or began.attempt > number, f"{began} began again after it was recorded as failed"
        step = steps.get(began.n)
        if step is not None:
            assert began.attempt <= step.attempts, f"{began} is an attempt too many"


# --- signals ----------------------------------------------------------------------------------------------------------


def _check_mailbox(played: Played, journals: Sequence[Journal]) -> None:
    """Each payload is taken once, the oldest first, and none is passed over but by a wait for the latest."""
    taken: dict[str, list[int]] = {}
    for journal in journals:
        asked = asks_of(journal.rows)
        for row in journal.rows:
            ask = asked.get(row.position)
            if row.kind == "answered" and ask is not None and ask.kind == "signal":
                taken.setdefault(ask.name, []).append(msgspec.json.decode(row.value or "null"))
    for channel, values in taken.items():
        assert len(values) == len(set(values)), f"{channel}: a signal was taken twice: {values}"
        outside = [value for value in values if value >= 100_000]
        assert outside == sorted(outside), f"{channel}: signals were taken out of order: {outside}"
        latest = any(
            isinstance(node, Wait) and node.latest and node.channel == channel
            for node in all_nodes(played.case.program)
        )
        if not latest and outside:
            sent = played.sent[channel]
            assert outside == sent[: len(outside)], f"{channel}: {outside} were taken of {sent}: one was lost"


# --- cancel -----------------------------------------------------------------------------------------------------------


def _check_cancel(played: Played, root: RunRecord) -> None:
    if played.cancel is Sent.SENT:
        assert root.cancel_requested, f"a cancel that was taken is nowhere to be seen: {root}"
