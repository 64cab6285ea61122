"""Looking at many runs at once: counts, groups, trees, queues, workers."""

from __future__ import annotations

import pytest

from runnerq.client.client import Client
from runnerq.client.tree import PAGE
from runnerq.client.values import Node
from runnerq.errors import ConfigurationError, RunNotFound
from runnerq.ids import new_run_id
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import LOOK, Found, NewRun, Priority, RunFilter, RunRecord, Status
from tests.client.shop import ORDER, Player, checkout, mail, resize


class TestCounting:
    async def test_all_runs_or_those_that_fit_are_counted_up_to_a_cap(self, client: Client) -> None:
        await client.start_many(mail, [("a",), ("b",), ("c",)])
        await client.start(checkout, ORDER)
        assert await client.count() == 4
        assert await client.count(RunFilter(workflow="mail")) == 3
        assert await client.count(RunFilter(status="completed")) == 0
        assert await client.count(cap=2) == 2

    async def test_runs_are_counted_by_what_they_share_the_most_first(self, client: Client, player: Player) -> None:
        await client.start_many(mail, [("a",), ("b",), ("c",)])
        run = await client.start(resize, 1)
        await player.complete(run.id, [1])
        groups = (await client.aggregate("workflow")).groups
        assert [(group.value, group.count) for group in groups] == [("mail", 3), ("resize", 1)]
        by_status = await client.aggregate("status", RunFilter(workflow="resize"))
        assert [(group.value, group.count) for group in by_status.groups] == [("completed", 1)]

    async def test_only_the_newest_are_looked_at_and_it_says_so(self, client: Client) -> None:
        await client.start(checkout, ORDER)
        await client.start_many(mail, [("a",), ("b",)])
        found = await client.aggregate("workflow", cap=2)
        assert ([(group.value, group.count) for group in found.groups], found.capped) == ([("mail", 2)], True)

    async def test_what_nothing_can_be_counted_by_is_refused(self, client: Client) -> None:
        with pytest.raises(ValueError, match="not one of status, workflow"):
            await client.aggregate("colour")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="cap=0"):
            await client.count(cap=0)
        with pytest.raises(ValueError, match="'lost'"):
            await client.count(RunFilter(status="lost"))


def a_child(of: NewRun | RunRecord, name: str = "mail") -> NewRun:
    return NewRun(
        id=new_run_id(), kind="activity", name=name, version=0, queue="default", input="[]",
        root_id=of.root_id or of.id, parent_id=of.id, parent_position="1/1", depth=of.depth + 1,
    )  # fmt: skip


class Counting(MemoryStorage):
    """A storage that counts how often runs are listed."""

    listed = 0

    async def list_runs(
        self, where: RunFilter, limit: int, cursor: str | None = None, *, oldest: bool = False, look: int = LOOK
    ) -> Found:
        self.listed += 1
        return await super().list_runs(where, limit, cursor, oldest=oldest, look=look)


class TestTree:
    async def test_a_run_is_shown_with_all_below_it_oldest_first(self, client: Client) -> None:
        root = await client.start(checkout, ORDER)
        record = await client.storage.run(root.id)
        assert record is not None
        one, two = a_child(record), a_child(record, "resize")
        below = a_child(one)
        await client.storage.start([one, two, below])
        assert shape(await client.tree(root.id)) == ("checkout", [("mail", [("mail", [])]), ("resize", [])])

    async def test_of_a_run_inside_only_what_is_below_it_is_shown(self, client: Client) -> None:
        root = await client.start(checkout, ORDER)
        record = await client.storage.run(root.id)
        assert record is not None
        one, two = a_child(record), a_child(record)
        below = a_child(one, "resize")
        await client.storage.start([one, two, below])
        tree = await client.tree(one.id)
        assert (tree.id, tree.info.parent_id, shape(tree)) == (one.id, root.id, ("mail", [("resize", [])]))

    async def test_a_large_tree_is_read_in_a_few_looks(self) -> None:
        async with Client(Counting()) as client:
            root = await client.start(checkout, ORDER)
            record = await client.storage.run(root.id)
            assert record is not None
            children = [a_child(record) for _ in range(2000)]
            for first in range(0, 2000, 500):
                await client.storage.start(children[first : first + 500])
            tree = await client.tree(root.id)
            assert [node.id for node in tree.children] == [child.id for child in children]
            assert client.storage.listed <= 2000 // PAGE + 1  # type: ignore[attr-defined]

    async def test_a_deep_tree_is_no_recursion(self, client: Client) -> None:
        root = await client.start(checkout, ORDER)
        above = await client.storage.run(root.id)
        assert above is not None
        line = [a_child(above)]
        for _ in range(1200):
            line.append(a_child(line[-1]))
        await client.storage.start(line)
        node, depth = await client.tree(root.id), 0
        while node.children:
            [node] = node.children
            depth += 1
        assert depth == 1201

    async def test_an_unknown_run_is_not_found(self, client: Client) -> None:
        with pytest.raises(RunNotFound):
            await client.tree(new_run_id())


def shape(node: Node) -> tuple[str, list[object]]:
    return node.info.workflow, [shape(child) for child in node.children]


class TestStats:
    async def test_what_is_open_is_counted_by_status_workflow_queue_and_priority(
        self, client: Client, player: Player
    ) -> None:
        await client.start_many(mail, [("a",), ("b",)])
        await client.options(delay=60).start(resize, 1)
        parked = await client.start(checkout, ORDER)
        await player.park(parked.id)
        await client.storage.give_back(player._holder.id)
        stats = await client.stats()
        found = {(depth.status, depth.workflow, depth.queue, depth.priority): depth.count for depth in stats.depths}
        assert found == {
            (Status.PENDING, "mail", "default", Priority.NORMAL): 2,
            (Status.SCHEDULED, "resize", "slow", Priority.LOW): 1,
            (Status.WAITING, "checkout", "default", Priority.NORMAL): 1,
        }
        assert stats.by_status() == {Status.PENDING: 2, Status.SCHEDULED: 1, Status.WAITING: 1}
        assert stats.oldest_ready_at is not None
        assert stats.oldest_ready_at <= stats.at

    async def test_the_workers_that_live_are_there_with_what_they_serve(self, client: Client, player: Player) -> None:
        [worker] = (await client.stats()).workers
        assert (worker.id, worker.alive, worker.left_at) == (player._holder.id, True, None)
        assert worker.serves

    async def test_where_nothing_is_ready_nothing_waits(self, client: Client) -> None:
        stats = await client.stats()
        assert (stats.depths, stats.by_status(), stats.oldest_ready_at) == ((), {}, None)


class TestQueues:
    async def test_a_queue_is_listed_with_what_is_open_in_it(self, client: Client) -> None:
        await client.start_many(resize, [(1,), (2,)])
        await client.options(delay=60).start(resize, 3)
        [slow] = [queue for queue in await client.queues.list() if queue.name == "slow"]
        assert (slow.ready, slow.delayed, slow.running, slow.paused_at) == (2, 1, 0, None)
        assert slow.oldest_ready_at is not None

    async def test_a_paused_queue_says_so_and_nothing_of_it_is_taken_up_until_it_is_resumed(
        self, client: Client, player: Player
    ) -> None:
        run = await client.start(resize, 1)
        assert await client.queues.pause("slow")
        assert not await client.queues.pause("slow")
        [slow] = [queue for queue in await client.queues.list() if queue.name == "slow"]
        assert slow.paused_at is not None
        assert not (await player._holder.claim(pairs=(("slow", "resize"),))).runs
        assert await client.queues.resume("slow")
        assert not await client.queues.resume("slow")
        assert (await player.take(run.id)).id == run.id

    async def test_what_is_no_name_of_a_queue_is_refused(self, client: Client) -> None:
        with pytest.raises(ConfigurationError):
            await client.queues.pause("")
