"""Limits, seen from inside the activities of workers, on both backends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Claim, ClaimRequest, Limit, Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon


class Inside:
    """Who is inside an activity now, who has been, and how many were at most."""

    def __init__(self) -> None:
        self.now = Counter[str]()
        self.most = Counter[str]()
        self.came: list[str] = []

    @contextmanager
    def stay(self, name: str) -> Iterator[None]:
        self.now[name] += 1
        self.most[name] = max(self.most[name], self.now[name])
        self.came.append(name)
        try:
            yield
        finally:
            self.now[name] -= 1


INSIDE = Inside()
GATES: dict[str, Gate] = {}


@pytest.fixture(autouse=True)
def _nobody_inside() -> None:
    INSIDE.__init__()  # type: ignore[misc]  # anew for each test
    GATES.clear()


@activity
async def visit(name: str) -> str:
    with INSIDE.stay(name):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return name


@activity
async def stay(name: str) -> str:
    """Until its gate is opened."""
    with INSIDE.stay(name):
        await GATES.setdefault(name, Gate()).pass_through()
    return name


@activity(retry=RetryPolicy(max_attempts=2, base=3600))
async def come_again() -> str:
    with INSIDE.stay("again"):
        if current().attempt == 1:
            raise ConnectionError("come again")
    return "done"


@workflow
def waits(ctx: Context, name: str) -> Flow[str]:
    yield ctx.step(visit, name)
    yield ctx.signal("go")
    yield ctx.step(visit, name)
    return name


@workflow
def parent(ctx: Context, scope: str) -> Flow[str]:
    """It counts against the scope itself, and so does its child."""
    answer: str = yield ctx.options(limit=scope).child(visit, "child")
    return answer


def a_scope(stage: Stage) -> str:
    """Of this test alone: the database is shared."""
    return stage.queue.replace("q-", "s-")


def gate_of(name: str) -> Gate:
    return GATES.setdefault(name, Gate())


async def test_no_more_runs_of_a_scope_are_held_at_once_than_it_may_have(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=2)
    async with plain_stage.serving(visit):
        runs = await client.options(limit=scope).start_many(visit, [("x",)] * 30)
        await asyncio.gather(*(run.result(timeout=SOON) for run in runs))
    assert (len(INSIDE.came), INSIDE.most["x"] <= 2) == (30, True)


async def test_each_key_has_its_own_places_where_the_limit_is_per_key(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=1, per_key=True)
    async with plain_stage.serving(stay):
        first = [await client.options(limit=(scope, name)).start(stay, name) for name in ("a", "b")]
        second = [await client.options(limit=(scope, name)).start(stay, name) for name in ("a", "b")]
        await asyncio.gather(gate_of("a").somebody(), gate_of("b").somebody())
        assert [await run.status() for run in second] == [Status.PENDING] * 2
        gate_of("a").open()
        gate_of("b").open()
        await asyncio.gather(*(run.result(timeout=SOON) for run in first + second))
    assert INSIDE.most == {"a": 1, "b": 1}


async def test_a_run_over_the_limit_holds_no_slot(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=1)
    async with plain_stage.serving(stay, visit, max_workers=2):
        runs = await client.options(limit=scope).start_many(stay, [("x",)] * 5)
        await gate_of("x").somebody()
        # One slot is left, whatever waits for the limit.
        other = await client.start(visit, "y")
        assert await other.result(timeout=SOON) == "y"
        gate_of("x").open()
        await asyncio.gather(*(run.result(timeout=SOON) for run in runs))


async def test_a_parked_run_gives_its_place_back_and_asks_again(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=1)
    limited = client.options(limit=scope)
    async with plain_stage.serving(waits, stay, visit):
        waiting = await limited.start(waits, "flow")
        assert await waiting.reached("waiting", timeout=SOON) is Status.WAITING
        holding = await limited.start(stay, "x")
        await gate_of("x").somebody()
        await waiting.send("go", None)
        # It is woken, and waits for the place, while who needs none goes by.
        assert await (await client.start(visit, "y")).result(timeout=SOON) == "y"
        assert (await waiting.status(), INSIDE.came.count("flow")) == (Status.PENDING, 1)
        gate_of("x").open()
        assert await waiting.result(timeout=SOON) == "flow"
        assert await holding.result(timeout=SOON) == "x"


async def test_a_parent_and_its_child_share_the_one_place_of_their_limit(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=1)
    async with plain_stage.serving(parent, visit):
        run = await client.options(limit=scope).start(parent, scope)
        assert await run.result(timeout=SOON) == "child"


async def test_between_two_attempts_the_place_is_free(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=1)
    limited = client.options(limit=scope)
    async with plain_stage.serving(come_again, visit):
        again = await limited.start(come_again)
        await soon(lambda: INSIDE.came == ["again"])
        assert await (await limited.start(visit, "x")).result(timeout=SOON) == "x"
        assert await client.run_now(again.id)
        assert await again.result(timeout=SOON) == "done"


async def test_no_more_runs_are_let_in_within_a_span_than_the_rate_says_and_the_rest_comes_later(
    plain_stage: Stage,
) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, rate=(3, 0.4))
    storage = plain_stage.storage
    async with plain_stage.serving(visit):
        began = await storage.now()
        runs = await client.options(limit=scope).start_many(visit, [("x",)] * 7)
        await asyncio.gather(*(run.result(timeout=SOON) for run in runs))
        ended = await storage.now()
    # The seventh is two spans behind the first.
    assert (ended - began).total_seconds() >= 0.8


async def test_a_scope_that_may_have_nobody_lets_its_runs_in_once_it_is_set_again(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=0)
    async with plain_stage.worker(visit) as worker:
        run = await client.options(limit=scope).start(visit, "x")
        await worker.idle()
        assert await run.status() is Status.PENDING
        await client.limits.set(scope, concurrency=1)
        assert await run.result(timeout=SOON) == "x"


async def test_a_limit_that_ends_lets_all_in(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=1)
    async with plain_stage.serving(stay):
        runs = await client.options(limit=scope).start_many(stay, [("x",)] * 4)
        await gate_of("x").somebody()
        assert await client.limits.delete(scope)
        await soon(lambda: INSIDE.now["x"] == 4)
        gate_of("x").open()
        await asyncio.gather(*(run.result(timeout=SOON) for run in runs))


async def test_a_wider_limit_lets_more_in_and_a_tighter_one_takes_nothing_away(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=1)
    async with plain_stage.serving(stay):
        runs = await client.options(limit=scope).start_many(stay, [("x",)] * 4)
        await gate_of("x").somebody()
        await client.limits.set(scope, concurrency=3)
        await soon(lambda: INSIDE.now["x"] == 3)
        await client.limits.set(scope, concurrency=1)
        assert INSIDE.now["x"] == 3
        gate_of("x").open()
        await asyncio.gather(*(run.result(timeout=SOON) for run in runs))
    assert INSIDE.most["x"] == 3


async def test_a_scope_that_nobody_has_limited_limits_nothing(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    async with plain_stage.serving(stay):
        runs = await client.options(limit=(scope, "k")).start_many(stay, [("x",)] * 5)
        await soon(lambda: INSIDE.now["x"] == 5)
        gate_of("x").open()
        await asyncio.gather(*(run.result(timeout=SOON) for run in runs))


async def test_a_place_that_one_worker_frees_is_taken_by_a_run_of_another(plain_stage: Stage) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    await client.limits.set(scope, concurrency=1)
    other = f"{plain_stage.queue}-other"
    async with plain_stage.serving(stay), plain_stage.serving(visit, queues=(other,)):
        first = await client.options(limit=scope).start(stay, "x")
        await gate_of("x").somebody()
        second = await client.options(limit=scope, queue=other).start(visit, "y")
        gate_of("x").open()
        assert await second.result(timeout=SOON) == "y"
        assert await first.result(timeout=SOON) == "x"


class Asked(Tapped):
    """A storage whose claims a test sees as they were asked for."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.freed: list[Limit] = []

    async def claim(self, request: ClaimRequest) -> Claim:
        self.freed += request.freed
        return await super().claim(request)


async def test_the_next_claim_tells_of_places_that_ends_parks_and_failed_attempts_have_freed(
    memory: Stage,
) -> None:
    asked: Any = Asked(memory.storage)
    stage, client = memory.on(asked), memory.client
    async with stage.worker(visit, waits, come_again):
        await (await client.start(visit, "free")).result(timeout=SOON)
        expected = []
        for limit, target, args in (
            (Limit("ends"), visit, ("x",)), (Limit("parks", "k"), waits, ("y",)), (Limit("fails"), come_again, ()),
        ):  # fmt: skip
            await client.options(limit=limit).start(target, *args)
            expected.append(limit)
            await soon(lambda: asked.freed == expected)


FEW, MANY = 10, 400

RULES: dict[str, dict[str, Any]] = {
    "places of each": {"concurrency": 3, "per_key": True},
    "places for all": {"concurrency": 2},
    "no rule": {},
}


@pytest.mark.parametrize("rule", RULES)
async def test_a_tenant_with_many_waiting_runs_holds_up_none_that_has_few(plain_stage: Stage, rule: str) -> None:
    client, scope = plain_stage.client, a_scope(plain_stage)
    if RULES[rule]:
        await client.limits.set(scope, **RULES[rule])
    await client.options(limit=(scope, "many")).start_many(visit, [("many",)] * MANY)
    async with plain_stage.serving(visit, max_workers=4):
        await soon(lambda: INSIDE.came.count("many") >= 20)
        before = INSIDE.came.count("many")
        runs = await client.options(limit=(scope, "few")).start_many(visit, [("few",)] * FEW)
        await asyncio.gather(*(run.result(timeout=SOON) for run in runs))
        last = max(nth for nth, name in enumerate(INSIDE.came) if name == "few")
    meanwhile = INSIDE.came[: last + 1].count("many") - before
    # By turns it is one of theirs for one of ours; what was claimed before ours had come, and their slots, are theirs.
    assert meanwhile < MANY / 4
