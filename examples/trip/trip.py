"""A saga: a trip is booked step by step, and what was booked is undone when a later step says no."""

from __future__ import annotations

import asyncio

import runnerq as rq


class SoldOut(rq.NonRetryableError):
    """There is no room left: asking again changes nothing."""


@rq.activity
async def book(what: str, traveller: str) -> str:
    """With a real provider, pass ``rq.current().idempotency_key`` on, so that asking twice books once."""
    if what == "hotel" and traveller == "Bob":
        raise SoldOut("no room left")
    print(f"  booked {what} for {traveller}")
    return f"{what}-{traveller.lower()}"


@rq.activity
async def release(what: str, traveller: str) -> None:
    print(f"  released {what} for {traveller}")


@rq.workflow
def trip(ctx: rq.Context, traveller: str) -> rq.Flow[list[str]]:
    bookings = []
    for what in ("flight", "car", "hotel"):
        # Before its step: an undo must cover a booking whose answer never came back, too.
        ctx.compensate(release, what, traveller)
        bookings.append((yield from ctx.step(book, what, traveller)))
    return bookings


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[trip], activities=[book, release]):
        for traveller in ("Ada", "Bob"):
            print(f"{traveller}:")
            run = await client.start(trip, traveller)
            try:
                print(f"  {await run.result(timeout=30)}")
            except rq.RunFailed as failed:
                print(f"  {failed.status}: {failed.__cause__!r}")
            for entry in await run.history():
                if entry.kind in ("step", "undo"):
                    print(f"  {entry.position:<2} {entry.kind} {entry.name:<7} {entry.state}")


if __name__ == "__main__":
    asyncio.run(main())
