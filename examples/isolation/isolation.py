"""Slow work that holds up nothing else: a queue and workers of its own, and slots that are kept for what is quick."""

from __future__ import annotations

import asyncio

import runnerq as rq

may_end = asyncio.Event()  # reports and thumbnails take as long as this example likes


@rq.activity(queue="example-reports")
async def report(month: int) -> str:
    await may_end.wait()
    return f"report {month}"


@rq.activity
async def thumbnail(picture: int) -> str:
    await may_end.wait()
    return f"thumbnail {picture}"


@rq.activity
async def mail(to: str) -> str:
    return f"mail to {to}"


async def waiting_when(client: rq.Client, name: str, running: int) -> int:
    """How many runs of this name wait for a slot, once so many are running."""
    while await client.count(rq.RunFilter(workflow=name, status=rq.Status.RUNNING)) != running:
        await asyncio.sleep(0.05)
    return await client.count(rq.RunFilter(workflow=name, status=rq.Status.PENDING))


async def main() -> None:
    async with (
        rq.connect() as client,
        # Two fleets, as a rule on machines of their own: `runnerq worker MODULE -q example-reports` is of the first.
        rq.Worker(client, activities=[report], queues=["example-reports"], max_workers=2),
        # And one slot of the second fleet is kept for mails, however many thumbnails are ready.
        rq.Worker(client, activities=[thumbnail, mail], max_workers=3, reserve=(1, [mail])),
    ):
        reports = await client.start_many(report, [(month,) for month in range(1, 6)])
        thumbnails = await client.start_many(thumbnail, [(picture,) for picture in range(1, 6)])
        for name in ("report", "thumbnail"):
            print(f"{name}: 2 run, {await waiting_when(client, name, running=2)} wait for a slot")

        run = await client.start(mail, "ada")
        print(await run.result(timeout=60), "went out all the same")

        await client.queues.pause("example-reports")
        may_end.set()
        print(await thumbnails[-1].result(timeout=60), "is done: its queue is not paused")
        print("paused: the 2 reports that ran are done,", await waiting_when(client, "report", running=0), "wait")
        await client.queues.resume("example-reports")
        print("resumed:", [await each.result(timeout=60) for each in reports])


if __name__ == "__main__":
    asyncio.run(main())
