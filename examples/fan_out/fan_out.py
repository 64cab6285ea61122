"""Fan-out: a run starts a child for each page, three at a time, and goes on when all are there, failures included."""

from __future__ import annotations

import asyncio

import runnerq as rq

PAGES = {
    "home": "welcome to our little shop",
    "about": "we are two and a cat",
    "jobs": "nobody works here but us",
    "cups": "cups with and without handles",
    "contact": "write us a letter",
}
under_way, most = 0, 0


@rq.activity(retry=1)
async def count_words(page: str) -> int:
    """Queued as a run of its own, so that any worker of the fleet may take it."""
    global under_way, most  # noqa: PLW0603 - shows how many there are at once
    under_way += 1
    most = max(most, under_way)
    await asyncio.sleep(0.05)
    under_way -= 1
    return len(PAGES[page].split())


@rq.workflow
def count_all(ctx: rq.Context, pages: list[str]) -> rq.Flow[dict[str, str]]:
    counting = [ctx.child(count_words, page) for page in pages]
    counts = yield from ctx.gather(counting, limit=3, return_errors=True)  # without it, the first error ends them all
    return {
        page: f"failed, {count.__cause__!r}" if isinstance(count, Exception) else f"{count} words"
        for page, count in zip(pages, counts, strict=True)
    }


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[count_all], activities=[count_words]):
        run = await client.start(count_all, [*PAGES, "blog"])
        for page, count in (await run.result(timeout=60)).items():
            print(f"  {page}: {count}")
        tree = await client.tree(run.id)
        statuses = [str(child.info.status) for child in tree.children]
        print(f"{len(statuses)} children, {statuses.count('completed')} completed; over 3 at once: {most > 3}")


if __name__ == "__main__":
    asyncio.run(main())
