"""Limits that hold across all workers: each customer has one call at a time, and two a second."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import runnerq as rq

SCOPE = "example-customer"
under_way, most = Counter[str](), Counter[str]()


@rq.activity
async def call(customer: str, number: int) -> int:
    """A call of a partner's API for a customer: the partner takes one at a time for each, and not too many."""
    under_way[customer] += 1
    most[customer] = max(most[customer], under_way[customer])
    await asyncio.sleep(0.02)
    under_way[customer] -= 1
    return number


@rq.workflow
def sync(ctx: rq.Context, customer: str, calls: int) -> rq.Flow[int]:
    # A limit counts runs, so the call is a child. What waits for its turn takes no slot of a worker.
    limited = ctx.options(limit=(SCOPE, customer))
    done = yield from ctx.gather(limited.child(call, customer, number) for number in range(calls))
    return len(done)


async def starts(client: rq.Client, run: rq.Handle[int]) -> list[float]:
    """When the calls of this run were let in, by the database's clock, in seconds."""
    infos = [child.info for child in (await client.tree(run.id)).children]
    return sorted(info.started_at.timestamp() for info in infos if info.started_at)


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[sync], activities=[call]):
        # A row in the database: it holds from the next claim on, whoever runs, and can be changed while they do.
        await client.limits.set(SCOPE, concurrency=1, rate=(2, timedelta(seconds=1)), per_key=True)
        runs = {customer: await client.start(sync, customer, 4) for customer in ("ada", "bob")}
        for customer, run in runs.items():
            print(f"{customer}: {await run.result(timeout=60)} calls, at most {most[customer]} at once")
            times = await starts(client, run)
            apart = all(third - first >= 1 for first, third in zip(times, times[2:], strict=False))
            print(f"  never three within a second: {apart}")
        await client.limits.delete(SCOPE)


if __name__ == "__main__":
    asyncio.run(main())
