"""A workflow that sleeps while there is no worker at all: it is rows in Postgres, and wakes where the next one is."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import runnerq as rq

A_MONTH = timedelta(seconds=1)  # timedelta(days=30) is the same to a workflow: nothing waits but a row


welcomed = asyncio.Event()


@rq.activity
async def mail(to: str, text: str) -> None:
    print(f"  mail to {to}: {text}")
    welcomed.set()


@rq.workflow
def trial(ctx: rq.Context, user: str) -> rq.Flow[str]:
    yield from ctx.step(mail, user, "welcome to your trial")
    began = ctx.now()
    yield from ctx.sleep(A_MONTH)
    yield from ctx.step(mail, user, "your trial is over")
    return "slept long enough" if ctx.now() - began >= A_MONTH else "woke too early"


async def main() -> None:
    async with rq.connect() as client:
        run = await client.start(trial, "ada")
        print("a worker begins:")
        async with rq.Worker(client, workflows=[trial]):
            await welcomed.wait()
        info = await run.info()  # leaving the worker has stopped it in order: the sleep is on record
        print(f"it has stopped. The run is {info.status}, for {(info.waiting_for or 'nothing').split(',')[0]}")
        await asyncio.sleep(A_MONTH.total_seconds())
        print("the sleep is over, and nobody is there to see it")
        print("another worker begins:")
        async with rq.Worker(client, workflows=[trial]):
            print(f"  {await run.result(timeout=60)}")


if __name__ == "__main__":
    asyncio.run(main())
