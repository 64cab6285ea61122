"""Schedules: at an interval, at the ticks of a cron expression in a time zone, for days that are over, and by hand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import runnerq as rq

collected: asyncio.Queue[str] = asyncio.Queue()


@rq.activity
async def collect(region: str) -> None:
    await collected.put(region)


@rq.workflow
def report(ctx: rq.Context, region: str) -> rq.Flow[str]:
    yield from ctx.step(collect, region)
    # The tick is in the metadata, also where the run comes late: there is no need to look at the clock.
    return f"{region} {ctx.info.metadata['scheduled_for']}"


OFTEN = rq.Schedule("example-often", report, ("us",), every=timedelta(seconds=0.2), overlap="skip")
NIGHTLY = rq.Schedule("example-nightly", report, ("eu",), cron="30 2 * * MON-FRI", zone="Europe/Berlin", missed="once")


async def put(client: rq.Client, schedule: rq.Schedule) -> None:
    """Done at each deploy: what is there as it is stays as it is."""
    created = await client.schedules.put(schedule)
    info = await client.schedules.get(schedule.name)
    print(schedule.name, "is put" if created else "is there", "and ticks", info.words() if info else "no more")


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[report]):
        await put(client, OFTEN)
        await put(client, OFTEN)
        print("two ticks:", await collected.get(), await collected.get())
        await client.schedules.pause(OFTEN.name)

        await put(client, NIGHTLY)
        since, until = datetime(2025, 3, 28, tzinfo=UTC), datetime(2025, 4, 1, tzinfo=UTC)  # summer time begins within
        print("backfilled:", await client.schedules.backfill(NIGHTLY.name, since, until))
        runs = await client.list(rq.RunFilter(workflow="report", key_prefix=f"{NIGHTLY.name}@2025-03-"), oldest=True)
        for run in runs.items:
            print(" ", await client.handle(run.id).result(timeout=60))
        by_hand = await client.schedules.trigger(NIGHTLY.name)
        print("triggered for", (await by_hand.result(timeout=60)).split(" ")[0])

        for schedule in (OFTEN, NIGHTLY):
            await client.schedules.delete(schedule.name)  # its runs stay
        for run in runs.items:
            await client.delete(run.id)  # a tick is one run as long as that is there: another backfill can do it again


if __name__ == "__main__":
    asyncio.run(main())
