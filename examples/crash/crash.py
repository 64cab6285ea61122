"""A worker is killed with SIGKILL in the middle of a step; another one goes on with what the first has recorded."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import runnerq as rq


@rq.activity
async def charge(order: str) -> str:
    print(f"  charging {order}", flush=True)
    return f"receipt for {order}"


@rq.activity
async def pack(order: str) -> str:
    print(f"  packing {order}", flush=True)
    if "doomed" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)  # no exception, no clean-up: as when the power goes out
    return f"{order}, packed"


@rq.workflow
def checkout(ctx: rq.Context, order: str) -> rq.Flow[list[str]]:
    receipt = yield from ctx.step(charge, order)
    parcel = yield from ctx.step(pack, order)
    return [receipt, parcel]


def worker(client: rq.Client) -> rq.Worker:
    return rq.Worker(client, workflows=[checkout])


async def doomed() -> None:
    """The first worker, a process of its own. It works until it is killed."""
    async with rq.connect() as client:
        await worker(client).run()


async def main() -> None:
    async with rq.connect() as client:
        run = await client.start(checkout, "a cup")
        print("worker 1:", flush=True)
        process = await asyncio.create_subprocess_exec(sys.executable, __file__, "doomed")
        code = await process.wait()
        print(f"worker 1 was ended by {signal.Signals(-code).name}")
        print("worker 2:")
        async with worker(client):
            print(f"  {await run.result(timeout=60)}")
        for entry in await run.history():
            print(f"  {entry.position or '-'} {entry.kind:<8} {entry.name:<8} {entry.state}")


if __name__ == "__main__":
    asyncio.run(doomed() if "doomed" in sys.argv else main())
