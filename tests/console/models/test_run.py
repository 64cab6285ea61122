from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.console.access import Principal
from runnerq.console.models.blocked import blocked
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.console.models.offers import offers
from runnerq.console.models.redaction import Spot
from runnerq.console.models.run import block_view, run_detail, whole_payload
from runnerq.console.models.signals import signals
from runnerq.console.models.tree import children_of, tree
from runnerq.errors import RunNotFound
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import BlockRecord, Status
from runnerq.runtime.worker import Worker
from runnerq.serialization.encryption import Encryption
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context as Ctx
from runnerq.workflow.declare import workflow
from runnerq.workflow.ending import Blocked
from runnerq.workflow.journal import Asked
from runnerq.workflow.recorder import diverged
from tests.console.seeing import context_of
from tests.console.shop import SECRET, charge, checkout, fanned, mistaken, refused, resting


@workflow
def hurried(ctx: Ctx, many: int) -> Flow[None]:
    """Waits for so many that nobody serves."""
    yield ctx.gather([ctx.child(charge, {}) for _ in range(many)])


@workflow
def taken_back(ctx: Ctx) -> Flow[None]:
    """Fails, and has something to be undone."""
    ctx.compensate(charge, {})
    yield ctx.publish(stage="before")
    raise ValueError("no")


async def test_a_waiting_run_says_what_it_waits_for_since_when_until_when_and_where_it_stands(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(checkout, {"item": "tea"})
    await run.reached(Status.WAITING, timeout=10)
    detail = await run_detail(context, run.id)
    waiting = detail.waiting
    assert waiting is not None
    assert (waiting.what, waiting.channels, waiting.since) == ("signal 'approval'", ("approval",), detail.parked_at)
    assert waiting.until is not None
    assert waiting.until - detail.now > timedelta(minutes=59)
    assert waiting.line is not None
    assert "shop.py" in waiting.line
    assert waiting.line.endswith("in checkout")


async def test_a_ready_run_says_why_nobody_takes_it_up(client: Client, context: Context) -> None:
    async def obstacle(run_id: str) -> str | None:
        context.cache.forget()
        waiting = (await run_detail(context, run_id)).waiting
        assert waiting is not None
        return waiting.obstacle

    known = await client.start(charge, {})
    unknown = await client.start("nobody")
    assert await obstacle(known.id) == "no living worker serves 'charge' on queue 'default'"
    assert await obstacle(unknown.id) == "no worker has registered 'nobody' so far"
    await client.limits.set("bank", concurrency=0)
    limited = await client.options(limit="bank", queue="slow").start(charge, {})
    async with Worker(client, activities=[charge], queues=["slow"], build="tests"):
        assert await obstacle(known.id) == (
            "no living worker serves 'charge' on queue 'default'; those that serve it work on 'slow'"
        )
        assert await obstacle(limited.id) == "limit 'bank' lets no more of them run now: none at all"
        await client.queues.pause("slow")
        assert await obstacle(limited.id) == "queue 'slow' is paused"


async def test_a_run_that_waits_for_many_children_names_the_first_and_counts_them(
    client: Client, context: Context
) -> None:
    async with Worker(client, workflows=[hurried], activities=[], build="tests"):
        run = await client.start(hurried, 30)
        await run.reached(Status.WAITING, timeout=10)
        waiting = (await run_detail(context, run.id)).waiting
    assert waiting is not None
    assert (waiting.what, waiting.children_count, len(waiting.children)) == ("its children", 30, 20)
    assert {child.status for child in waiting.children} == {Status.PENDING}


async def test_a_blocked_run_shows_why_and_its_traceback_without_a_secret(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(mistaken)
    await run.reached(Status.BLOCKED, timeout=10)
    [row] = (await blocked(context)).rows
    block = (await run_detail(context, run.id)).block
    assert block == row.block
    assert block is not None
    assert "LookupError" in (block.traceback or "")
    assert SECRET not in str(block)


@pytest.mark.parametrize("said", ["", " (recorded digest 2ndDigest_1-, now 1stDigest_1-)"])
def test_a_block_tells_of_other_arguments_without_their_digests(context: Context, said: str) -> None:
    was, now = Asked("1", "step", "pay", "2ndDigest_1-"), Asked("1", "step", "pay", "1stDigest_1-")
    found = diverged("1", was, now, "shop.py:7 in checkout")
    record = BlockRecord(
        run_id="a run",
        at=datetime.now(UTC),
        # As it stands in the rows of a database that is older.
        message=found.message.replace("with other arguments", f"with other arguments{said}"),
        builds=("a", "b"),
        position=found.position,
        recorded=found.recorded,
        asked=found.asked,
        line=found.line,
    )
    block = block_view(context, Spot("error", "a run", "checkout"), record)
    assert "Digest" not in str(block)
    assert (block.recorded, block.asked) == ("step 'pay'", "step 'pay' with other arguments")
    assert block.arguments_differ
    assert "with other arguments at shop.py:7 in checkout;" in block.message
    patch = diverged("1", Asked("1", "patch", "fair", "build-2/4"), now, None)
    other = block_view(context, Spot("error", "a run", "checkout"), msgspec.structs.replace(record, **_told(patch)))
    assert (other.recorded, other.asked, other.arguments_differ) == ("patch 'fair' (build-2/4)", "step 'pay'", False)


def _told(block: Blocked) -> dict[str, str | None]:
    return {"message": block.message, "recorded": block.recorded, "asked": block.asked}


async def test_no_payload_of_a_run_leaves_with_its_secret(client: Client, context: Context, worker: Worker) -> None:
    order = {"password": SECRET, "item": "tea"}
    run = await client.options(metadata={"auth_token": SECRET, "shop": "7"}).start(checkout, order)
    await client.send(run.id, "approval", {"secret": SECRET})
    await run.result(timeout=10)
    detail = await run_detail(context, run.id)
    assert SECRET not in str(detail)
    assert detail.result is not None
    assert json.loads(detail.result.text)["receipt"]["amount"] == 2**60
    assert SECRET not in str(await signals(context, run.id))
    for which in ("input", "result", "state"):
        assert SECRET not in (await whole_payload(context, run.id, which)).text


async def test_a_payload_that_there_is_not_is_an_error_of_the_field(client: Client, context: Context) -> None:
    run = await client.start(charge, {})
    await client.send(run.id, "note", {"text": "x" * 5_000})
    assert len((await whole_payload(context, run.id, "signal", entry=1)).text) > 5_000
    for which, entry in (("result", None), ("entry", None), ("entry", 7), ("signal", 7), ("soul", None)):
        with pytest.raises(BadFields):
            await whole_payload(context, run.id, which, entry=entry)
    with pytest.raises(RunNotFound):
        await run_detail(context, "no id")


async def test_a_fork_leads_back_to_its_origin(client: Client, context: Context, worker: Worker) -> None:
    run = await client.start(checkout, {})
    await run.reached(Status.WAITING, timeout=10)
    fork = await client.fork(run.id, from_entry="3")
    detail = await run_detail(context, fork.id)
    assert detail.forked_from is not None
    assert (detail.forked_from.id, detail.forked_at) == (run.id, "3")
    assert (await run_detail(context, run.id)).forked_from is None


@pytest.fixture
async def of_every_status(client: Client, worker: Worker) -> dict[str, str]:
    """Runs by what they are."""
    parent = await client.start(fanned, 1, 1)
    runs = {
        "waiting": await client.start(checkout, {}),
        "blocked": await client.start(mistaken),
        "dead letter": await client.start(refused, 1),
        "done": await client.start(charge, {}),
        "delayed": await client.options(delay=3600).start(charge, {}),
        "unserved": await client.start("nobody"),
        "sleeping": await client.start(resting),
        "parent": parent,
    }
    await runs["waiting"].reached(Status.WAITING, timeout=10)
    await runs["sleeping"].reached(Status.WAITING, timeout=10)
    await runs["blocked"].reached(Status.BLOCKED, timeout=10)
    await runs["dead letter"].reached(Status.DEAD_LETTER, timeout=10)
    await runs["done"].result(timeout=10)
    await parent.result(timeout=10)
    [child] = (await client.tree(parent.id)).children
    return {name: run.id for name, run in runs.items()} | {"child": child.id}


def offered(context: Context, detail: object) -> set[str]:
    return {offer.name for offer in detail.actions if offer.enabled}  # type: ignore[attr-defined]


async def test_what_is_offered_is_what_the_state_of_a_run_allows(
    of_every_status: dict[str, str], context: Context
) -> None:
    every = {"send", "cancel", "terminate", "priority", "reveal"}
    details = {name: await run_detail(context, run_id) for name, run_id in of_every_status.items()}
    assert {name: offered(context, detail) for name, detail in details.items()} == {
        "waiting": every | {"fork"},
        "sleeping": every | {"fork"},
        "blocked": every | {"retry"},  # it came to nothing that could be forked
        "dead letter": {"retry", "redrive", "fork", "delete", "reveal"},
        "done": {"delete", "reveal"},
        "delayed": (every - {"send"}) | {"run-now", "reschedule"},  # an activity, which takes no signals
        "unserved": every | {"reschedule"},
        "parent": {"fork", "delete", "reveal"},
        "child": {"fork", "reveal"},
    }


async def test_a_run_that_has_undone_what_it_did_is_offered_no_way_back(client: Client, context: Context) -> None:
    async with Worker(client, workflows=[taken_back], activities=[charge]):
        run = await client.start(taken_back)
        await run.reached(Status.FAILED, timeout=10)
    detail = await run_detail(context, run.id)
    assert offered(context, detail) == {"delete", "reveal"}
    retry = detail.action("retry")
    assert retry is not None
    assert "start it anew" in (retry.why_not or "")


async def test_whoever_may_only_look_is_permitted_nothing(of_every_status: dict[str, str], client: Client) -> None:
    record = await client.storage.run(of_every_status["waiting"])
    assert record is not None
    assert not any(offer.permitted for offer in offers(Principal("eve"), record))


async def test_a_small_tree_is_shown_whole_and_a_large_one_opens_level_by_level(
    client: Client, context: Context, worker: Worker
) -> None:
    small = await client.start(fanned, 2, 2)
    await small.result(timeout=10)
    shown = await tree(context, small.id)
    assert shown.whole
    assert [(node.depth, node.children.n) for node in shown.nodes] == [
        (0, 2), (1, 2), (2, 0), (2, 0), (1, 2), (2, 0), (2, 0),
    ]  # fmt: skip
    large = await client.start(fanned, 210, 1)
    await large.result(timeout=30)
    shown = await tree(context, large.id)
    assert not shown.whole
    assert [str(node.children) for node in shown.nodes[:2]] == ["210", "0"]
    assert len(shown.nodes) == 51
    rest, cursor = [], shown.more
    while cursor is not None:
        page = await children_of(context, large.id, cursor, limit=100)
        rest += [node.run.id for node in page.nodes]
        cursor = page.next
    assert len({*rest, *(node.run.id for node in shown.nodes[1:])}) == 210


async def test_what_is_encrypted_is_shown_as_sealed_to_who_has_no_key() -> None:
    storage = MemoryStorage()
    sealing = Client(storage, codec=Encryption({"k1": b"x" * 32}, "k1"))
    async with sealing, Worker(sealing, workflows=[checkout, refused], activities=[charge], build="tests"):
        run = await sealing.start(checkout, {"item": "tea"})
        await run.reached(Status.WAITING, timeout=10)
        blind = context_of(Client(storage))
        detail = await run_detail(blind, run.id)
        for payload in (detail.input, detail.state):
            assert payload is not None
            assert (payload.text, payload.sealed is not None) == ("", True)
        shown = await signals(blind, run.id)
        assert shown.sealed is not None
        assert "tea" not in f"{detail}{shown}"
