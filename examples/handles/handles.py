"""One process starts a run and is gone; another finds it by its id or its key, watches it, and gets its result."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from uuid import uuid4

import runnerq as rq


@dataclass
class Report:
    title: str
    pages: int


TITLE = rq.Signal("title", str)


@rq.workflow
def report(ctx: rq.Context, pages: int) -> rq.Flow[Report]:
    yield from ctx.publish(pages=pages, stage="needs a title")
    title = yield from ctx.signal(TITLE)
    return Report(title, pages)


def start(key: str) -> None:
    """What the other process does: start it, say its id, and end. A script without an event loop has a SyncClient."""
    with rq.SyncClient() as client:
        print(client.options(key=key).start(report, 3).id)


async def main() -> None:
    key = f"report-{uuid4()}"
    async with rq.connect() as client:
        process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "start", key, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        print("the process that started it has ended with", process.returncode)
        by_id = client.handle(said.decode().strip(), returns=Report)  # an id is text: keep it in your own table
        by_key = client.handle_by_key(report, key)  # or name it after what it is for
        print("no worker yet, it is", await by_id.status())
        async with rq.Worker(client, workflows=[report]):
            state = await by_key.wait(lambda state: "stage" in state, timeout=60)
            print("published:", state)
            await by_key.send(TITLE, "Cups of the year")
            print("by id: ", await by_id.result(timeout=60))
            print("by key:", await by_key.result(timeout=60))
            untyped = await client.handle(by_id.id).result(timeout=60)
            print("by somebody who has not the code:", untyped)


if __name__ == "__main__":
    if sys.argv[1:2] == ["start"]:
        start(sys.argv[2])
    else:
        asyncio.run(main())
