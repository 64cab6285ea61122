"""What a run looks like: its info, in words what it waits for, and lists of runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.client.info import info_of, waiting_for
from runnerq.ids import new_run_id
from runnerq.persistence.records import GOING, End, Limit, Priority, RunFilter, RunRecord, Status
from runnerq.serialization.failures import modules_snapshot, record
from runnerq.workflow.journal import Row
from tests.client.shop import ORDER, Player, checkout, checkout_v2, resize

DUE = datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def a_record(status: Status, **given: Any) -> RunRecord:
    usual: dict[str, Any] = {
        "id": "r", "kind": "workflow", "name": "checkout", "version": 1, "queue": "default", "priority": 2,
        "created_at": DUE, "root_id": "r",
    }  # fmt: skip
    return RunRecord(status=status, **usual | given)


@pytest.mark.parametrize(
    ("record_", "words"),
    [
        (a_record(Status.WAITING, waiting_signals=("approval",)), "signal 'approval'"),
        (a_record(Status.WAITING, waiting_children=("kid",)), "child kid"),
        (a_record(Status.WAITING, waiting_children=("a", "b")), "2 children"),
        (a_record(Status.WAITING, due_at=DUE), "its time, 2030-01-02 03:04:05 UTC"),
        (
            a_record(Status.WAITING, waiting_signals=("a", "b"), waiting_children=("kid",), due_at=DUE),
            "signal 'a' or signal 'b' or child kid, or 2030-01-02 03:04:05 UTC",
        ),
        (a_record(Status.WAITING), "its children"),
        (a_record(Status.SCHEDULED, due_at=DUE), "its time, 2030-01-02 03:04:05 UTC"),
        (a_record(Status.RETRYING, due_at=DUE), "its next attempt, 2030-01-02 03:04:05 UTC"),
        (
            a_record(Status.PENDING),
            "a worker that serves 'checkout@1' on queue 'default', or for its queue to be resumed",
        ),
        (
            a_record(Status.PENDING, limit=Limit("stripe"), cancel_requested=True),
            "a worker that serves 'checkout@1' on queue 'default', or for its queue to be resumed",
        ),
        (a_record(Status.BLOCKED), "somebody: it is blocked, and its block says why"),
        (a_record(Status.BLOCKED, kind="activity"), "somebody: it is blocked, and its block says why"),
        (a_record(Status.RUNNING), None),
        (a_record(Status.COMPLETED), None),
    ],
)
def test_what_a_run_waits_for_is_said_in_words(record_: RunRecord, words: str | None) -> None:
    assert waiting_for(record_) == words


async def test_info_has_all_there_is_to_say(client: Client, player: Player) -> None:
    run = await client.options(key="k").start(checkout_v2, ORDER)
    started = {"seed": "s", "build": "b7", "rules": 1, "version": 2}
    row = Row(0, "started", "", DUE, msgspec.json.encode(started).decode(), "[]")
    await player.write(run.id, GOING, row)
    info = await run.info()
    assert (info.id, info.workflow, info.version, info.build, info.key) == (run.id, "checkout", 2, "b7", "k")
    assert (info.queue, info.priority, info.status, info.generation) == ("fast", Priority.HIGH, Status.RUNNING, 1)
    assert (info.root_id, info.parent_id, info.metadata) == (run.id, None, {"team": "shop", "tier": "one"})
    assert info.started_at is not None
    assert info.created_at <= info.started_at
    assert await client.info(run.id) == info


async def test_info_of_a_failed_run_has_its_error(client: Client, player: Player) -> None:
    run = await client.start(checkout, ORDER)
    error = record(ValueError("no"), modules_snapshot(), retryable=False)
    await player.write(run.id, End(status="failed", error=error, reason="uncaught"))
    info = await run.info()
    assert info.error is not None
    assert (info.status, info.error.message, info.reason) == (Status.FAILED, "no", "uncaught")
    assert info.ended_at is not None


def test_info_encodes_as_json() -> None:
    shown = msgspec.json.decode(msgspec.json.encode(info_of(a_record(Status.WAITING, due_at=DUE))))
    assert shown["status"] == "waiting"
    assert shown["due_at"] == "2030-01-02T03:04:05.000678Z"


class TestList:
    async def test_newest_first_page_by_page(self, client: Client) -> None:
        handles = await client.start_many(resize, [(n,) for n in range(7)])
        newest = [handle.id for handle in reversed(handles)]
        first = await client.list(limit=3)
        second = await client.list(limit=3, cursor=first.next)
        last = await client.list(limit=3, cursor=second.next)
        assert [info.id for page in (first, second, last) for info in page.items] == newest
        assert last.next is None

    async def test_a_page_that_ends_exactly_has_no_next(self, client: Client) -> None:
        await client.start_many(resize, [(1,), (2,)])
        assert (await client.list(limit=2)).next is None

    async def test_all_conditions_of_a_filter_hold(self, client: Client) -> None:
        a = await client.options(key="a/1", metadata={"k": "v"}).start(checkout, ORDER)
        await client.options(key="a/2").start(checkout, ORDER)
        b = await client.options(key="b/1", metadata={"k": "v"}).start(resize, 1)
        await b.cancel()

        async def found(**where: Any) -> list[str]:
            return [info.id for info in (await client.list(RunFilter(**where))).items]

        assert await found(metadata={"k": "v"}) == [b.id, a.id]
        assert await found(metadata={"k": "v"}, key_prefix="a/") == [a.id]
        assert await found(status="cancelled") == [b.id]
        assert await found(status=(Status.CANCELLED, Status.COMPLETED), workflow="resize") == [b.id]
        assert await found(queue="slow") == [b.id]
        assert await found(root=a.id) == [a.id]
        assert await found(since=datetime.now(UTC) + timedelta(hours=1)) == []

    async def test_bad_limits_cursors_and_statuses_are_value_errors(self, client: Client) -> None:
        for wrong in (0, -1, 1001):
            with pytest.raises(ValueError, match="limit"):
                await client.list(limit=wrong)
        with pytest.raises(ValueError, match="not a run id"):
            await client.list(cursor="abc")
        with pytest.raises(ValueError, match="exploded"):
            await client.list(RunFilter(status="exploded"))
        with pytest.raises(ValueError, match="not a run id"):
            await client.list(RunFilter(parent="x"))
        assert (await client.list(RunFilter(parent=new_run_id()))).items == []
