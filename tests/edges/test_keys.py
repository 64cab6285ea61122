"""Idempotency keys as callers meet them: what a taken one answers, whoever holds it, and what a key may look like."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any, Literal, get_args

import pytest

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.errors import KeyTaken, NonRetryableError
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import OnDuplicate, RunFilter, Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.retention import Retention
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage

How = Literal["open", "completed", "failed", "dead_letter", "cancelled"]
Answer = Literal["same", "new", "error"]

ANSWERS: dict[OnDuplicate, dict[How, Answer]] = {
    "return_existing": dict.fromkeys(get_args(How), "same"),
    "no_reuse": dict.fromkeys(get_args(How), "error"),
    "allow_reuse": dict.fromkeys(get_args(How), "new"),
    "allow_reuse_on_failure": {
        "open": "error", "completed": "error", "failed": "new", "dead_letter": "new", "cancelled": "new",
    },
}  # fmt: skip

KEYS = {
    "colons": "order:42::checkout:1",
    "unicode": "Straße 鍵 🔑 e\u0301",
    "1 kB": "k" * 1024,
    "as long as may be": "".join(sha256(bytes([number])).hexdigest() for number in range(28)),
    "a number": "0",
    "a blank": " ",
    "a path": "../../etc/passwd",
    "sql": "'; drop table runnerq.key; --",
    "wild": "%_\\",
}

WORDS: Signal[str] = Signal("words", str)


@activity(retry=RetryPolicy(max_attempts=2, base=0.001))
async def fails(how: str) -> None:
    raise (NonRetryableError(how) if how == "failed" else RuntimeError(how))


@workflow
def order(ctx: Context, how: str) -> Flow[str]:
    if how in ("failed", "dead_letter"):
        yield ctx.step(fails, how)
    if how in ("open", "cancelled"):
        return (yield from ctx.signal(WORDS))
    return how


async def a_holder(client: Client, how: How) -> Handle[str]:
    """The run that holds this client's key, ended so or open."""
    run = await client.start(order, how)
    if how == "cancelled":
        await run.cancel()
    await run.reached(Status.WAITING if how == "open" else Status(how), timeout=SOON)
    return run


@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("on_duplicate", get_args(OnDuplicate))
async def test_a_taken_key_answers_as_its_caller_says_whatever_became_of_its_holder(
    plain_stage: Stage, on_duplicate: OnDuplicate, how: How
) -> None:
    client = plain_stage.client.options(key=f"key-{plain_stage.queue}")
    async with plain_stage.serving(order):
        first = await a_holder(client, how)
        asking = client.options(on_duplicate=on_duplicate)
        match ANSWERS[on_duplicate][how]:
            case "error":
                with pytest.raises(KeyTaken) as taken:
                    await asking.start(order, "completed")
                assert taken.value.run_id == first.id
            case "same":
                again = await asking.start(order, "completed")
                assert (again.id, again.created) == (first.id, False)
            case "new":
                second = await asking.start(order, "completed")
                assert second.created
                assert second.id != first.id
                assert await second.result(timeout=SOON) == "completed"
                # The key is the second's now, and the first is as it was.
                assert (await client.handle_by_key(order, f"key-{plain_stage.queue}").info()).id == second.id
        assert await first.status() is (Status.WAITING if how == "open" else Status(how))


@pytest.mark.parametrize("on_duplicate", get_args(OnDuplicate))
async def test_fifty_callers_in_five_clients_at_once_make_one_run_unless_each_may_have_its_own(
    shared_database: str, on_postgres: Stage, on_duplicate: OnDuplicate
) -> None:
    key = f"key-{on_postgres.queue}"
    clients = [Client(PostgresStorage(shared_database)) for _ in range(5)]

    async def call(number: int) -> Handle[str] | KeyTaken:
        client = clients[number % 5].options(queue=on_postgres.queue, key=key, on_duplicate=on_duplicate)
        try:
            return await client.start(order, "completed")
        except KeyTaken as error:
            return error

    for client in clients:
        await client.open()
    try:
        answers = await asyncio.gather(*(call(number) for number in range(50)))
    finally:
        for client in clients:
            await client.close()
    made = [answer.id for answer in answers if isinstance(answer, Handle) and answer.created]
    refused = [answer.run_id for answer in answers if isinstance(answer, KeyTaken)]
    holder = (await on_postgres.base.handle_by_key(order, key).info()).id
    assert (len(made), len(refused)) == {
        "return_existing": (1, 0), "no_reuse": (1, 49), "allow_reuse": (50, 0), "allow_reuse_on_failure": (1, 49),
    }[on_duplicate]  # fmt: skip
    assert holder in made
    assert set(refused) <= {holder}
    # And it runs once, or as often as it was made.
    async with on_postgres.worker(order) as worker:
        await worker.idle()
    page = await on_postgres.base.list(RunFilter(queue=on_postgres.queue), limit=100)
    assert sorted(info.id for info in page.items) == sorted(made)
    assert {info.status for info in page.items} == {Status.COMPLETED}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
async def test_a_key_of_any_text_finds_its_run_and_no_other(plain_stage: Stage, key: str) -> None:
    client = plain_stage.client

    def a_flow(name: str) -> Any:
        @workflow(name=f"{name}-{plain_stage.queue}")
        def flow(ctx: Context) -> Flow[str]:
            return f"{ctx.info.key} {(yield from ctx.signal(WORDS))}"

        return flow

    one, other = a_flow("one"), a_flow("other")
    async with plain_stage.serving(one, other):
        run = await client.options(key=key).start(one)
        assert (await client.options(key=key).start(one)).id == run.id
        # Each name has keys of its own, and a key that only resembles it is another.
        others = [
            await client.options(key=key).start(other),
            await client.options(key="x" + key[1:]).start(one),
            await client.options(key=key[:-1] + "~").start(one),
        ]
        assert len({run.id, *(each.id for each in others)}) == 4
        await client.handle_by_key(one, key).send(WORDS, "by key")
        assert await client.handle_by_key(one, key).result(timeout=SOON) == f"{key} by key"
        assert {await each.status() for each in others} <= {Status.PENDING, Status.RUNNING, Status.WAITING}
        assert (await run.info()).key == key


async def test_the_key_of_a_run_that_retention_has_deleted_makes_a_new_one(plain_stage: Stage) -> None:
    client = plain_stage.client.options(key=f"key-{plain_stage.queue}", on_duplicate="no_reuse")
    async with plain_stage.serving(order):
        first = await a_holder(client, "completed")
        with pytest.raises(KeyTaken):
            await client.start(order, "completed")
    kept = Retention(completed=0, interval=0.02, batch=10)
    async with plain_stage.serving(order, retention=kept):
        async with asyncio.timeout(SOON):
            while await plain_stage.storage.run(first.id) is not None:
                await asyncio.sleep(0.01)
        second = await client.start(order, "open")
        assert second.created
        assert second.id != first.id
        # Open now: nothing deletes it, and the key is its own.
        with pytest.raises(KeyTaken) as taken:
            await client.start(order, "completed")
        assert taken.value.run_id == second.id
        await second.send(WORDS, "done")


@pytest.mark.parametrize("key", ["", "a\0b", "\ud800", "ü" * 901], ids=["empty", "nul", "surrogate", "long"])
async def test_a_key_that_cannot_be_kept_is_refused_at_the_call(plain_stage: Stage, key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        plain_stage.client.options(key=key)
    page = await plain_stage.base.list(RunFilter(queue=plain_stage.queue))
    assert page.items == []
