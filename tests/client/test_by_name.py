"""Starting by name, without the code, and starting within a step, as a child of its run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.errors import DepthExceeded, UsageError, WrongState
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Definition, End, Parent, Priority, RunRecord, WorkerRow
from runnerq.testing.conformance.world import Holder, a_holder
from tests.client.shop import ORDER, Player, checkout, checkout_v2, mail, resize


async def stored(client: Client, run_id: str) -> RunRecord:
    record = await client.storage.run(run_id)
    assert record is not None
    return record


async def register(client: Client, holder: Holder, *definitions: Definition, served: tuple[str, ...] = ("s",)) -> None:
    row = WorkerRow(id=holder.id, lease=60, host="h", pid=1, build="b", queues=("q",), served=served)
    await client.storage.register(row, definitions)


CHECKOUT = Definition(kind="workflow", name="checkout", version=1, queue="default", build="b")
CHECKOUT_2 = msgspec.structs.replace(CHECKOUT, version=2, queue="fast", options='{"priority":1,"timeout":5.0}')


class TestByName:
    async def test_a_name_that_nobody_knows_waits_without_a_version_until_a_worker_does(self, client: Client) -> None:
        run = await client.start("unheard_of", {"a": 1})
        record = await stored(client, run.id)
        assert (record.kind, record.name, record.version, record.queue) == ("workflow", "unheard_of", 0, "default")
        assert record.priority == Priority.NORMAL
        assert (await run.info()).waiting_for == "a worker that registers 'unheard_of': none has so far"

    async def test_it_may_be_an_activity_and_so_be_tried_again(self, client: Client) -> None:
        run = await client.options(retry=3).start("unheard_of")
        options = (await stored(client, run.id)).options
        assert options is not None
        assert msgspec.json.decode(options)["retry"]["max_attempts"] == 3

    async def test_it_is_adopted_with_the_kind_and_version_that_a_worker_brings(
        self, client: Client, player: Player
    ) -> None:
        run = await client.options(queue="fast").start("checkout", {"item": "cup"})
        assert await client.storage.adopt([CHECKOUT, CHECKOUT_2], 10) == 1
        record = await stored(client, run.id)
        assert (record.version, record.queue) == (2, "fast")
        assert (await player.take(run.id)).version == 2

    async def test_the_highest_version_that_a_living_worker_serves_is_taken(
        self, client: Client, player: Player
    ) -> None:
        await register(client, player._holder, CHECKOUT, CHECKOUT_2, served=("checkout@1",))
        record = await stored(client, (await client.start("checkout", {"item": "cup"})).id)
        assert (record.version, record.queue) == (1, "default")

    async def test_where_none_is_served_it_is_the_highest_with_its_queue_and_options(
        self, client: Client, player: Player
    ) -> None:
        await register(client, player._holder, CHECKOUT, CHECKOUT_2)
        record = await stored(client, (await client.start("checkout", {"item": "cup"})).id)
        assert (record.version, record.queue, record.priority) == (2, "fast", Priority.HIGH)

    async def test_a_registered_activity_is_started_as_one(self, client: Client, player: Player) -> None:
        it = Definition(kind="activity", name="mail", version=1, queue="post", build="b")
        await register(client, player._holder, it)
        record = await stored(client, (await client.start("mail", "me")).id)
        assert (record.kind, record.queue) == ("activity", "post")

    async def test_an_empty_name_is_a_value_error(self, client: Client) -> None:
        with pytest.raises(ValueError, match="non-empty"):
            await client.start("")


def a_parent(record: RunRecord, **changes: Any) -> Parent:
    parent = Parent(
        run_id=record.id,
        root_id=record.root_id,
        depth=record.depth,
        priority=Priority.CRITICAL,
        queue="parents",
        position="1/4",
        key="a-step",
    )
    return msgspec.structs.replace(parent, **changes)


class TestWithin:
    """``client.within(parent)``: what a step's ``rq.current().client`` is."""

    @pytest.fixture
    async def root(self, client: Client) -> RunRecord:
        return await stored(client, (await client.start(checkout, ORDER)).id)

    async def test_what_it_starts_is_a_child_of_that_run(self, client: Client, root: RunRecord) -> None:
        child = await stored(client, (await client.within(a_parent(root, depth=3)).start(mail, "me")).id)
        assert (child.parent_id, child.root_id, child.depth) == (root.id, root.id, 4)

    async def test_it_is_the_workers_own_and_nobody_else_opens_or_closes_it(
        self, client: Client, root: RunRecord
    ) -> None:
        within = client.within(a_parent(root)).options(priority=1)
        for verb in (within.open, within.close):
            with pytest.raises(UsageError, match="the worker's own"):
                await verb()
        assert (await client.info(root.id)).id == root.id

    async def test_it_goes_on_when_that_run_ends(self, client: Client, root: RunRecord) -> None:
        child = await stored(client, (await client.within(a_parent(root)).options(timeout=5).start(mail, "me")).id)
        assert msgspec.json.decode(child.options or "") == {"parent_close": "abandon", "timeout": 5}

    async def test_it_inherits_priority_and_queue_where_nothing_is_given_or_declared(
        self, client: Client, root: RunRecord
    ) -> None:
        within = client.within(a_parent(root))
        inherited = await stored(client, (await within.start(mail, "me")).id)
        declared = await stored(client, (await within.start(resize, 1)).id)
        given = await stored(client, (await within.options(queue="q", priority=1).start(checkout_v2, ORDER)).id)
        assert (inherited.queue, inherited.priority) == ("parents", Priority.CRITICAL)
        assert (declared.queue, declared.priority) == ("slow", Priority.LOW)
        assert (given.queue, given.priority) == ("q", Priority.HIGH)

    async def test_an_attempt_made_again_finds_what_the_one_before_had_started(
        self, client: Client, root: RunRecord
    ) -> None:
        async def attempt() -> list[str]:
            within = client.within(a_parent(root))
            first = await within.start(mail, "me")
            many = await within.options(queue="q").start_many(mail, [("a",), ("b",)])
            named = await within.options(key="mine").start(mail, "you")
            return [first.id, *(each.id for each in many), named.id]

        assert await attempt() == await attempt()
        keys = [info.key for info in (await client.list()).items if info.parent_id == root.id]
        assert sorted(keys, key=str) == ["a-step:1", "a-step:2", "a-step:3", "mine"]

    async def test_a_run_that_is_too_deep_starts_nothing(self, client: Client, root: RunRecord) -> None:
        with pytest.raises(DepthExceeded) as refused:
            await client.within(a_parent(root, depth=5, max_depth=5)).start(mail, "me")
        assert (refused.value.run_id, refused.value.child) == (root.id, "mail")

    async def test_nothing_is_started_below_a_run_that_has_ended(
        self, client: Client, player: Player, root: RunRecord
    ) -> None:
        await player.write(root.id, End(status="completed", result="null"))
        with pytest.raises(WrongState, match="nothing is started below it") as refused:
            await client.within(a_parent(root)).start(mail, "me")
        assert refused.value.run_id == root.id


async def test_a_definition_read_while_no_worker_lives_is_served_by_nobody() -> None:
    async with Client(MemoryStorage()) as client:
        holder = await a_holder(client.storage)
        await register(client, holder, CHECKOUT, served=("checkout@1",))
        [known] = await client.storage.definitions("checkout")
        assert known.served
        await client.storage.give_back(holder.id)
        [known] = await client.storage.definitions("checkout")
        assert not known.served
