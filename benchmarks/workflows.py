"""The workflows that are measured."""

from __future__ import annotations

import time

import runnerq as rq

PAD = "x" * 80
MARKS: list[float] = []
MARK_EVERY = 100


@rq.activity
async def trivial(i: int) -> dict[str, int | str]:
    return {"i": i, "pad": PAD}


@rq.workflow
def steps(ctx: rq.Context, count: int) -> rq.Flow[int]:
    for i in range(count):
        yield from ctx.step(trivial, i)
    return count


@rq.workflow
def sequence(ctx: rq.Context, count: int) -> rq.Flow[int]:
    """Leaves a mark every hundred steps, outside of its journal, so that growth shows."""
    for i in range(count):
        if i % MARK_EVERY == 0 and not ctx.replaying:
            MARKS.append(time.perf_counter())
        yield from ctx.step(trivial, i)
    MARKS.append(time.perf_counter())
    return count


@rq.workflow
def waiting(ctx: rq.Context, number: int) -> rq.Flow[int]:
    yield from ctx.signal("go")
    return number


@rq.workflow
def entries(ctx: rq.Context, count: int) -> rq.Flow[int]:
    """A journal of so many entries; it is resumed once, by a signal."""
    for i in range(count):
        yield from ctx.step(trivial, i)
    yield from ctx.signal("go")
    return count
