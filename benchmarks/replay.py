"""W7: how long it takes to resume a workflow with a long journal, without the cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import runnerq as rq
from benchmarks.databases import Place
from benchmarks.workflows import PAD, entries, trivial
from runnerq.ids import new_run_id
from runnerq.persistence.records import NewRun
from runnerq.serialization.codec import Codec
from runnerq.workflow.identity import Identity, Info
from runnerq.workflow.interpreter import Interpreter
from runnerq.workflow.journal import Row, Started

LENGTHS = (1_000, 10_000, 50_000)
RESUMED = 3
"""Times that each is resumed; the fastest counts, as what else runs on the machine only adds."""


async def w7_replay(place: Place) -> dict[str, Any]:
    """Milliseconds from a signal to the end of a workflow of so many entries, replayed from its journal."""
    result: dict[str, Any] = {}
    async with (
        place.fresh() as dsn,
        rq.connect(dsn) as client,
        rq.Worker(client, workflows=[entries], activities=[trivial], cache=0),
    ):
        for length in LENGTHS:
            took = [await _resumed(client, length) for _ in range(RESUMED)]
            result[f"ms_{length}"] = round(1000 * min(took), 1)
    first, last = LENGTHS[0], LENGTHS[-1]
    result["us_entry"] = round(1000 * (result[f"ms_{last}"] - result[f"ms_{first}"]) / (last - first), 1)
    return result


async def _resumed(client: rq.Client, length: int) -> float:
    run_id = new_run_id()
    text = Codec().encode_call((length,), {}, "the input")
    run = NewRun(
        id=run_id, kind="workflow", name="entries", version=1, queue="default", input=text,
        rows=tuple(a_journal(run_id, length)),
    )  # fmt: skip
    await client.storage.start([run])
    handle = client.handle(run_id, int)
    await handle.reached("waiting", timeout=60)
    began = time.perf_counter()
    await handle.send("go", None)
    await handle.result(timeout=60)
    return time.perf_counter() - began


def a_journal(run_id: str, length: int) -> Iterator[Row]:
    """The journal of a run that has taken so many steps and waits for a signal."""
    now = datetime.now(UTC)
    info = Info(
        id=run_id, workflow="entries", version=1, key=None, queue="default", parent_id=None, root_id=run_id,
        generation=1, metadata={}, created_at=now, entries=0,
    )  # fmt: skip
    run = Interpreter(Identity(info, lambda ctx, _: entries(ctx, length), frozenset()), Codec())
    run.begin(Started(seed="0", build="benchmark"), now)
    for i in range(length):
        yield from run.collect().rows
        value = {"i": i, "pad": PAD}
        [position] = run.leaves
        run.answer(position, Codec().encode(value, "an answer"), value, now)
    yield from run.collect().rows
    run.close()
