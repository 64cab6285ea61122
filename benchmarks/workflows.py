"""The workflows that are measured."""

from __future__ import annotations

import asyncio
import time

import runnerq as rq
from benchmarks.pickup import tell

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


@rq.activity
async def telling(number: int) -> int:
    tell()
    return number


@rq.workflow
def told(ctx: rq.Context, number: int) -> rq.Flow[int]:
    """One step, which tells that it runs."""
    return (yield from ctx.step(telling, number))


@rq.activity
async def child(number: int) -> int:
    return number


@rq.workflow
def parent(ctx: rq.Context, children: int) -> rq.Flow[int]:
    numbers = yield from ctx.gather(ctx.child(child, i) for i in range(children))
    return sum(numbers)


@rq.activity(timeout=3600)
async def held(number: int) -> int:
    """It lasts."""
    await asyncio.sleep(3000)
    return number


@rq.activity
async def echo(text: str) -> str:
    return text


@rq.workflow
def echoes(ctx: rq.Context, count: int) -> rq.Flow[int]:
    for _ in range(count):
        yield from ctx.step(echo, "x" * 196)
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
