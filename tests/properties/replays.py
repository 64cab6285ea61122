"""Journals fed to the pure interpreter, without storage or worker: what the workflow asks for, and what it sees."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextvars import copy_context
from datetime import datetime
from typing import Any

import msgspec

from runnerq.persistence.records import Journal, RunRecord
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import modules_snapshot
from runnerq.serialization.signatures import workflow_signature_of
from runnerq.workflow.context import Context, Info
from runnerq.workflow.identity import NEVER, Identity
from runnerq.workflow.interpreter import Interpreter
from runnerq.workflow.journal import Asked, Row
from tests.properties.flows import OBSERVER, REACHED, SCALE, program

BUILD = "properties"
CODEC = Codec()
MODULES = modules_snapshot()
_SIGNATURE = workflow_signature_of(program)

asked_in = msgspec.json.Decoder(list[Asked]).decode


class Replayed(msgspec.Struct, frozen=True):
    """``seen`` is what the workflow saw by node, in order; ``reached`` are the nodes it came to, ``open`` is what it
    waits for, ``rows`` what followed."""

    seen: dict[int, Any]
    reached: frozenset[int]
    open: dict[str, Asked]
    rows: tuple[Row, ...]
    end: Any


def program_in(call: str | None) -> str:
    """The program that a run's input, or a later generation's, holds."""
    (text,), _ = CODEC.decode_call(call or "", _SIGNATURE, "the program")
    return str(text)


def identity_of(run: RunRecord, journal: Journal) -> Identity:
    """What the interpreter knows of this run; patches are marked with the build that it was played with."""
    marks = {(ask.deadline or NEVER, ask.digest) for ask in asks_of(journal.rows).values() if ask.kind == "patch"}
    build_seen, build = max(marks, default=(NEVER, BUILD))
    info = Info(
        id=run.id, workflow=run.name, version=run.version, key=run.key, queue=run.queue, parent_id=run.parent_id,
        root_id=run.root_id, generation=journal.generation, metadata=msgspec.json.decode(run.metadata or "{}"),
        created_at=run.created_at, entries=0,
    )  # fmt: skip

    def body(ctx: Context, arguments: str | None = None) -> Generator[Any, Any, Any]:
        return program(ctx, program_in(run.input if arguments is None else arguments))

    return Identity(info=info, body=body, modules=MODULES, build=build, build_seen=build_seen)


def replay(run: RunRecord, journal: Journal, length: int, at: datetime, second: float = 1.0) -> Replayed:
    """Feed the first ``length`` rows to a fresh interpreter. Raises Blocked if the workflow does not follow them."""
    seen: dict[int, Any] = {}
    reached: set[int] = set()

    def feed() -> Replayed:
        OBSERVER.set(seen.setdefault)
        REACHED.set(reached.add)
        SCALE.set(second)
        interpreter = Interpreter(identity_of(run, journal), CODEC)
        interpreter.replay(journal.rows[:length], at)
        progress = interpreter.collect()
        standing = Replayed(
            seen=dict(seen),
            reached=frozenset(reached),
            open={position: leaf.asked for position, leaf in interpreter.leaves.items()},
            rows=progress.rows,
            end=progress.end,
        )
        assert interpreter.close() == []
        return standing

    return copy_context().run(feed)


def asks_of(rows: Sequence[Row]) -> dict[str, Asked]:
    """Everything that is on record as asked."""
    return {each.position: each for row in rows if row.asked is not None for each in asked_in(row.asked)}
