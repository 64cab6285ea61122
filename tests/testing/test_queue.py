"""What the queue does for a run, in an environment: hooks of dead letters, details of attempts, retention."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runnerq.errors import RunFailed, RunNotFound
from runnerq.runtime.current import current
from runnerq.runtime.dead_letters import DeadLetter
from runnerq.runtime.retention import Retention
from runnerq.testing.environment import Environment
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

LETTERS: list[DeadLetter] = []
SEEN: list[object] = []


@activity
async def alert(letter: DeadLetter) -> None:
    LETTERS.append(letter)


@activity(retry=2)
async def charge(cents: int) -> None:
    SEEN.append(current().heartbeat_details)
    current().heartbeat({"cents": cents})
    raise ValueError(f"{cents} is too much")


@activity
async def ship(item: str) -> str:
    return f"shipped {item}"


@workflow(on_dead_letter=alert)
def order(ctx: Context, cents: int) -> Flow[None]:
    yield from ctx.step(charge, cents)


@workflow
def parcel(ctx: Context, item: str) -> Flow[str]:
    yield from ctx.sleep(3600)
    return (yield from ctx.child(ship, item))


async def test_a_dead_letter_is_told_of_in_an_environment_too() -> None:
    LETTERS.clear()
    SEEN.clear()
    async with Environment(workflows=[order], activities=[charge, alert]) as env:
        run = await env.start(order, 5)
        with pytest.raises(RunFailed):
            await run.result()
        await env.advance(0)
    [letter] = LETTERS
    assert (letter.run_id, letter.attempts, letter.reason, letter.input) == (run.id, 2, "attempts", [5])
    assert SEEN == [None, {"cents": 5}]


async def test_a_hook_can_be_replaced_like_any_activity() -> None:
    told: list[DeadLetter] = []
    async with Environment(workflows=[order], activities=[charge, alert]) as env:
        env.replace(alert, told.append)
        run = await env.start(order, 5)
        with pytest.raises(RunFailed):
            await run.result()
        await env.advance(0)
    assert [letter.run_id for letter in told] == [run.id]


async def test_retention_goes_by_the_clock_of_the_test() -> None:
    kept = Retention(completed=timedelta(days=30))
    async with Environment(workflows=[parcel], activities=[ship], retention=kept) as env:
        run = await env.start(parcel, "book")
        assert await run.result() == "shipped book"
        await env.advance(timedelta(days=29))
        assert len(await env.history(run.id)) > 0
        assert len(env.journals()) == 2
        await env.advance(timedelta(days=2))
        with pytest.raises(RunNotFound):
            await run.status()
        assert env.journals() == []


async def test_what_is_still_open_outlives_any_retention() -> None:
    kept = Retention(completed=1, failed=1)
    async with Environment(workflows=[parcel], activities=[ship], retention=kept) as env:
        run = await env.start(parcel, "book")
        await env.advance(3000)
        assert await run.result() == "shipped book"
