"""W6, sequence: one workflow of many steps."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import Any

import runnerq as rq
from benchmarks.databases import Place
from benchmarks.meter import Meter
from benchmarks.workflows import MARK_EVERY, MARKS, sequence, trivial

STEPS = 2000


async def w6_sequence(place: Place) -> dict[str, Any]:
    """One workflow of 2,000 trivial async steps; milliseconds a step for its first, middle and last hundred."""
    async with (
        place.fresh() as dsn,
        rq.connect(dsn) as client,
        rq.Worker(client, workflows=[sequence], activities=[trivial]),
    ):
        await (await client.start(sequence, MARK_EVERY)).result(timeout=60)
        MARKS.clear()
        with Meter(place.postmaster) as meter:
            await (await client.start(sequence, STEPS)).result(timeout=120)
    per_step = [1000 * (b - a) / MARK_EVERY for a, b in pairwise(MARKS)]
    return {
        "steps_s": round(STEPS / meter.cost.seconds),
        "first_ms": round(per_step[0], 3),
        "middle_ms": round(statistics.median(per_step), 3),
        "last_ms": round(per_step[-1], 3),
        **meter.cost.of(STEPS),
    }
