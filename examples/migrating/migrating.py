"""Changing a workflow while runs of it are open: a careless change blocks them, and a patch lets them go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import runnerq as rq


@rq.activity
async def charge(order: str) -> str:
    return f"{order} charged"


@rq.activity
async def insure(order: str) -> str:
    return f"{order} insured"


# In your repository these are one function, at three times. Here they stand side by side, and share their name.


@rq.workflow(name="order")
def monday(ctx: rq.Context, order: str) -> rq.Flow[list[str]]:
    done = [(yield from ctx.step(charge, order))]
    yield from ctx.signal("shipped")
    return done


@rq.workflow(name="order")
def tuesday(ctx: rq.Context, order: str) -> rq.Flow[list[str]]:
    done = [(yield from ctx.step(insure, order))]  # in the middle of what open runs have on record
    done.append((yield from ctx.step(charge, order)))
    yield from ctx.signal("shipped")
    return done


@rq.workflow(name="order")
def wednesday(ctx: rq.Context, order: str) -> rq.Flow[list[str]]:
    done: list[str] = []
    if ctx.patched("insurance"):  # False in a run that is past this point by the old way
        done.append((yield from ctx.step(insure, order)))
    done.append((yield from ctx.step(charge, order)))
    yield from ctx.signal("shipped")
    return done


def deployed(client: rq.Client, order: Callable[..., Any]) -> rq.Worker:
    """A worker with that day's code. Its build names the code; without one it is a digest of the sources."""
    return rq.Worker(client, workflows=[order], build=order.__name__)


async def main() -> None:
    async with rq.connect() as client:
        async with deployed(client, monday):
            cup = await client.start(monday, "a cup")
            print("monday: the cup is", await cup.reached(rq.Status.WAITING, timeout=60))

        async with deployed(client, tuesday):
            await cup.send("shipped", True)  # kept for it, whatever becomes of the code
            print("tuesday: the cup is", await cup.reached(rq.Status.BLOCKED, timeout=60))
            try:
                await cup.result(timeout=0)
            except rq.ResultTimeout as late:
                if late.blocked:
                    was, now = (str(each).split(" (")[0] for each in (late.blocked.recorded, late.blocked.asked))
                    print(f"  at {late.blocked.position} it has {was} on record, and the code asks for {now}")

        async with deployed(client, wednesday):
            mug = await client.options(signals=[("shipped", True)]).start(wednesday, "a mug")
            print("wednesday: the cup is", await cup.result(timeout=60))
            print("           the mug is", await mug.result(timeout=60))


if __name__ == "__main__":
    asyncio.run(main())
