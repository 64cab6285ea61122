"""The web console in a program of yours: runs that wait and that failed, shown in a browser or asked for as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.request import urlopen

import uvicorn

import runnerq as rq
from runnerq.console import Console


@rq.activity(retry=1)
async def charge(card: str) -> str:
    if card == "stolen":
        raise rq.NonRetryableError("this card is stolen")
    return f"{card} was charged"


@rq.workflow
def checkout(ctx: rq.Context, card: str) -> rq.Flow[str]:
    receipt = yield from ctx.step(charge, card)
    yield from ctx.signal("approval")
    return receipt


def ask(url: str) -> Any:
    with urlopen(url) as response:  # noqa: S310 - an address of our own
        return json.load(response)


async def look_around(url: str, run: rq.Handle[str]) -> None:
    """What the pages show is to be had as JSON, under the same address."""
    asked = await asyncio.to_thread(ask, f"{url}api/v1/runs/{run.id}")
    print("waiting for:", asked["run"]["waiting_for"])
    listed = await asyncio.to_thread(ask, f"{url}api/v1/runs?workflow=checkout&status=failed&limit=1")
    print("failed:", listed["items"][0]["error_line"])


async def main() -> None:
    client = rq.connect()
    console = Console(client)  # without an auth it answers this machine alone
    async with client, console.lifespan(), rq.Worker(client, workflows=[checkout]):
        good, bad = await client.start(checkout, "gold"), await client.start(checkout, "stolen")
        await good.reached(rq.Status.WAITING, timeout=60)
        await bad.reached(rq.Status.FAILED, timeout=60)

        stays = "stay" in sys.argv
        server = uvicorn.Server(uvicorn.Config(console.app(), port=8000 if stays else 0, log_level="warning"))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.05)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        if stays:
            print(f"the console is at {url}; Ctrl-C ends it")
        else:
            await look_around(url, good)
            await good.send("approval", True)
            print("approved:", await good.result(timeout=60))
            server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())
