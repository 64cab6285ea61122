"""How long runs are kept: what ended long enough ago is deleted, whole trees, and what failed is kept for longer."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import runnerq as rq

RETENTION = rq.Retention(completed=timedelta(seconds=0), failed=timedelta(days=90), interval=0.2)  # default: 10 minutes


@rq.activity(retry=1)
async def work(number: int) -> int:
    if number < 0:
        raise rq.NonRetryableError("a negative number")
    return number * number


@rq.workflow
def square(ctx: rq.Context, number: int) -> rq.Flow[int]:
    return (yield from ctx.child(work, number))


async def is_there(run: rq.Handle[int]) -> bool:
    try:
        await run.status()
    except rq.RunNotFound:
        return False
    return True


async def main() -> None:
    # A schema of its own, for retention is for all runs of a schema, and yours are not to be deleted by an example.
    async with rq.connect(schema="runnerq_retention") as client:
        async with rq.Worker(client, workflows=[square], activities=[work]):
            good = await client.options(key="good").start(square, 7)
            bad = await client.options(key="bad").start(square, -7)
            print("good:", await good.result(timeout=60))
            try:
                await bad.result(timeout=60)
            except rq.RunFailed as failed:
                print("bad:", failed.status)
        children = [child.id for child in (await client.tree(good.id)).children]
        print("nothing is deleted without a Retention:", await is_there(good))

        async with rq.Worker(client, workflows=[square], activities=[work], retention=RETENTION):
            while await is_there(good):
                await asyncio.sleep(0.1)
        print("good is there:", await is_there(good))
        print("its child is there:", await is_there(client.handle(children[0], returns=int)))
        print("bad is there:", await is_there(bad))
        again = await client.options(key="good").start(square, 8)
        print("its key is free again:", again.created)
        await client.terminate(again.id)
        print("deleted by hand:", await client.delete(bad.id), await client.delete(again.id))


if __name__ == "__main__":
    asyncio.run(main())
