"""A workflow and its tests: a month in milliseconds, a fake bank, a crash at every commit. No database is needed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import runnerq as rq
from runnerq.testing import Environment, explore_crashes

KEEP = rq.Signal("keep", bool)


@rq.activity(retry=rq.RetryPolicy(max_attempts=3, base=60))
async def charge(cents: int) -> str:
    raise ConnectionError(f"no bank in a test takes {cents} cents: replace this, or see it fail")


@rq.workflow
def trial(ctx: rq.Context, cents: int) -> rq.Flow[str]:
    yield from ctx.sleep(timedelta(days=30))
    if not (yield from ctx.signal(KEEP, timeout=timedelta(days=2), default=False)):
        return "given back"
    return (yield from ctx.step(charge, cents))


async def test_who_does_not_answer_gives_it_back() -> None:
    async with Environment(workflows=[trial]) as env:
        began = env.now()
        run = await env.start(trial, 950)
        assert await run.result() == "given back"  # while a result is awaited, time jumps to what is due next
        assert env.now() - began == timedelta(days=32)


async def test_a_bank_that_is_away_for_a_while_is_asked_again() -> None:
    attempts: list[int] = []

    async def flaky(cents: int) -> str:
        attempts.append(rq.current().attempt)
        if len(attempts) < 3:
            raise ConnectionError("the bank is away")
        return f"{cents} cents charged"

    async with Environment(workflows=[trial]) as env:
        env.replace(charge, flaky)
        run = await env.start(trial, 950)
        await env.advance(timedelta(days=31))  # all that is due on the way runs, each thing at its time
        await run.send(KEEP, True)
        assert await run.result() == "950 cents charged"
        assert attempts == [1, 2, 3]


async def test_no_crash_charges_twice() -> None:
    charged: dict[str, int] = {}

    @rq.activity(name="charge")
    async def careful(cents: int) -> int:
        charged[rq.current().idempotency_key] = cents  # as a bank does that is given the key
        return sum(charged.values())

    @rq.workflow
    def pay(ctx: rq.Context) -> rq.Flow[int]:
        total = yield from ctx.step(careful, 950)
        yield from ctx.sleep(60)
        return total

    report = await explore_crashes(pay, reset=charged.clear)  # a worker dies before and after each commit
    assert report.result == 950, report
    assert report.ran_twice == {"charge": 2}, report


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            asyncio.run(test())
            print("passed:", name.removeprefix("test_").replace("_", " "))
