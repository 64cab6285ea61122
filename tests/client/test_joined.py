"""Starts and sends in a transaction that a test stands in for, and what of a client is no part of one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.errors import KeyTaken, RunNotFound, StorageUnavailable, UsageError
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import NewRun, Status
from runnerq.runtime.current import current
from runnerq.testing import Environment
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.client.shop import ORDER, checkout

APPROVAL: Signal[str] = Signal("approval", str)


class RollBack(Exception):
    """Raised in a transaction that is not to be committed."""


@activity
async def ship(order: str) -> str:
    return f"{order} shipped"


@workflow
def approve(ctx: Context, order: str) -> Flow[str]:
    name = yield from ctx.signal(APPROVAL)
    return f"{order} approved by {name}"


@workflow
def place(ctx: Context, order: str) -> Flow[str]:
    return (yield from ctx.step(hand_out, order))


class TestEnvironment:
    async def test_what_is_started_and_sent_comes_about_when_the_transaction_is_left(self) -> None:
        async with Environment(workflows=[approve], activities=[ship]) as env:
            waiting = await env.start(approve, "cup")
            async with env.transaction() as connection:
                joined = env.options(connection=connection)
                run = await joined.start(ship, "mug")
                await joined.send(waiting.id, APPROVAL, "Ann")
                with pytest.raises(RunNotFound):
                    await run.status()
            assert await run.result() == "mug shipped"
            assert await waiting.result() == "cup approved by Ann"

    async def test_and_not_at_all_if_an_exception_leaves_it(self) -> None:
        async with Environment(activities=[ship]) as env:
            with suppress(RollBack):
                async with env.transaction() as connection:
                    run = await env.options(key="k", connection=connection).start(ship, "mug")
                    raise RollBack
            with pytest.raises(RunNotFound):
                await run.result()
            assert (await env.options(key="k").start(ship, "mug")).created

    async def test_it_stands_for_the_transaction_of_a_connection_of_the_tests_own(self) -> None:
        session = object()
        async with Environment(activities=[ship]) as env:
            async with env.transaction(session) as same:
                run = await env.options(connection=session).start(ship, "mug")
            assert same is session
            assert await run.result() == "mug shipped"
            with pytest.raises(UsageError, match=r"env.transaction\(connection\)"):
                await env.options(connection=session).start(ship, "mug")

    async def test_once_it_is_left_nothing_more_is_part_of_it(self) -> None:
        async with Environment(activities=[ship]) as env:
            async with env.transaction() as connection:
                pass
            with pytest.raises(UsageError, match="over"):
                await env.options(connection=connection).start(ship, "mug")

    async def test_a_step_may_hand_out_children_in_a_transaction_of_its_own(self) -> None:
        async with Environment(workflows=[place], activities=[ship]) as env:
            ENVIRONMENTS.append(env)
            run = await env.start(place, "cup")
            child = await run.result()
            assert (await env.handle(child).info()).parent_id == run.id
            assert await env.handle(child).result() == "cup shipped"


ENVIRONMENTS: list[Environment] = []


@activity
async def hand_out(order: str) -> str:
    env = ENVIRONMENTS.pop()
    async with env.transaction() as connection:
        return (await current().client.options(connection=connection).start(ship, order)).id


class TestAnswers:
    async def test_what_a_transaction_was_told_must_still_be_so_when_it_commits(self) -> None:
        async with Client(MemoryStorage()) as client:
            storage: Any = client.storage

            async def overtaken() -> None:
                async with storage.transaction() as connection:
                    await client.options(connection=connection).start(checkout, ORDER)
                    await client.options(key="k", connection=connection).start(checkout, ORDER)
                    await client.options(key="k").start(checkout, ORDER)

            with pytest.raises(StorageUnavailable, match="no longer so"):
                await overtaken()
            assert await client.count() == 1

    async def test_a_key_that_is_refused_is_told_of_its_holder_within_the_transaction(self) -> None:
        async with Client(MemoryStorage()) as client:
            storage: Any = client.storage
            async with storage.transaction() as connection:
                joined = client.options(key="k", connection=connection)
                run = await joined.start(checkout, ORDER)
                with pytest.raises(KeyTaken) as taken:
                    await joined.options(on_duplicate="no_reuse").start(checkout, ORDER)
            assert taken.value.run_id == run.id
            assert await run.status() is Status.PENDING

    async def test_a_start_that_fails_is_not_sent_again(self) -> None:
        async with Client(Broken()) as client:
            with pytest.raises(StorageUnavailable, match="try 1"):
                await client.options(connection=object()).start(checkout, ORDER)

    async def test_a_client_of_no_open_storage_says_so(self) -> None:
        client = Client.of(Never())
        with pytest.raises(UsageError, match="not open"):
            await client.options(connection=object()).start(checkout, ORDER)


class Broken(MemoryStorage):
    """A storage whose transactions fail."""

    tries = 0

    def joined(self, connection: object) -> Any:
        return self

    async def start(self, runs: list[NewRun]) -> Any:  # type: ignore[override]
        self.tries += 1
        raise StorageUnavailable(f"try {self.tries}")


class Never:
    """A source that is not opened."""

    async def open(self) -> Any:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError
