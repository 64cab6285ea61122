"""Runs that are opened again: ended, blocked, and together with their children."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from runnerq.ids import new_run_id
from runnerq.persistence.records import (
    GOING,
    Attempt,
    Back,
    Claimed,
    End,
    Ended,
    Park,
    Reopen,
    RunRecord,
    Sent,
    Status,
    Stuck,
    Verdict,
)
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    Holder,
    World,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    an_activity,
    look,
    rows_of,
    swept,
)
from runnerq.workflow.journal import Row

FAILED = End(status="failed", error='{"type":"Broken"}', reason="it broke")
STUCK = Stuck(message="m", build="b1")
ROWS = (a_row(0, "", '"s"', "started"), a_row(1, "1", '"no"', "failed"))
REOPENED = a_row(2, "", '{"upto":1}', "reopened")


class TestReopenEnded:
    @pytest.mark.parametrize("status", ["failed", "dead_letter", "cancelled"])
    async def test_it_is_ready_with_all_of_its_journal_and_the_row_behind_it(self, world: World, status: Ended) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(priority=1, input="[7]", metadata='{"a":"b"}'))
        await holder.commit(run, End(status=status, error="{}"), rows=ROWS)
        assert await world.storage.reopen(_again(await look(world.storage, run.id), REOPENED))
        record = await look(world.storage, run.id)
        assert (record.status, record.ended_at, record.error, record.reason) == (Status.PENDING, None, None, None)
        assert (record.due_at, record.cancel_requested, record.generation) == (None, False, 1)
        assert await world.storage.outcomes([run.id]) == []
        again = await holder.take_again(run)
        assert (again.rows, again.resumed, again.crashes, again.faults) == ((*ROWS, REOPENED), False, 0, 0)
        assert (again.input, again.priority, again.metadata) == ("[7]", 1, '{"a":"b"}')

    async def test_it_ends_again_and_that_is_its_end(self, world: World) -> None:
        holder, again, started_at = await _reopened(world)
        assert await holder.commit(again, COMPLETED, rows=(a_row(3),)) is Verdict.DONE
        record = await look(world.storage, again.id)
        assert (record.status, record.result, record.error) == (Status.COMPLETED, "1", None)
        assert record.started_at == started_at

    async def test_it_parks_and_is_woken_as_any_run(self, world: World) -> None:
        holder, again, _ = await _reopened(world)
        assert await holder.commit(again, Park(signals=("go",))) is Verdict.DONE
        assert await world.storage.send([a_signal(again.id)]) == [Sent.SENT]
        assert len((await holder.take_again(again)).signals) == 1

    async def test_it_can_be_opened_as_often_as_it_fails(self, world: World) -> None:
        holder, again, _ = await _reopened(world)
        for place in range(3, 6):
            await holder.commit(again, FAILED)
            assert await world.storage.reopen(
                _again(await look(world.storage, again.id), a_row(place, "", "{}", "reopened"))
            )
            again = await holder.take_again(again)
        assert [row.place for row in again.rows] == list(range(6))

    async def test_a_turn_of_before_the_end_that_is_sent_again_changes_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, FAILED, rows=ROWS)
        assert await world.storage.reopen(_again(await look(world.storage, run.id), REOPENED))
        assert await holder.commit(run, FAILED, rows=ROWS) is Verdict.DONE
        assert await holder.commit(run, GOING, rows=(a_row(3),)) in {Verdict.DONE, Verdict.LOST}
        assert (await look(world.storage, run.id)).status == "pending"
        assert await rows_of(world.storage, run.id) == [*ROWS, REOPENED]

    async def test_an_activity_has_all_of_its_attempts_again(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        failed = Attempt(position="", number=1, error="{}", at=AT, next_at=None)
        await holder.commit(run, Back(), attempts=(failed,))
        await holder.commit(await holder.take_again(run), End(status="dead_letter", error="{}"))
        assert await world.storage.reopen(_again(await look(world.storage, run.id)))
        assert (await holder.take_again(run)).attempts == ()

    async def test_its_key_still_stands_for_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k"))
        await holder.commit(run, FAILED)
        await world.storage.reopen(_again(await look(world.storage, run.id)))
        assert await world.storage.by_key("order", "k") == run.id
        [reply] = await world.storage.start([a_run(key="k", on_duplicate="allow_reuse_on_failure")])
        assert (reply.id, reply.created) == (run.id, False)

    async def test_it_is_opened_though_its_key_has_moved_on(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k"))
        await holder.commit(run, FAILED)
        other = a_run(key="k", on_duplicate="allow_reuse_on_failure")
        await world.storage.start([other])
        assert await world.storage.reopen(_again(await look(world.storage, run.id)))
        assert await world.storage.by_key("order", "k") == other.id

    async def test_a_child_that_was_refused_for_its_key_stays_so(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.start([a_run("child", key="k")])
        child = a_child(run, key="k")
        await holder.commit(run, GOING, children=(child,))
        assert not await world.storage.reopen(_again(await look(world.storage, child.id)))
        assert (await look(world.storage, child.id)).status == "failed"

    async def test_its_mailbox_stays_and_goes_on_in_order(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id, value=str(number), dedup=str(number)) for number in range(3)])
        box = await holder.inbox(run)
        await holder.commit(run, FAILED, consumed=(box.signals[2].id,))
        assert await world.storage.send([a_signal(run.id, value="9")]) == [Sent.FINISHED]
        await world.storage.reopen(_again(await look(world.storage, run.id)))
        sent = [a_signal(run.id, value="3"), a_signal(run.id, value="1", dedup="1")]
        assert await world.storage.send(sent) == [Sent.SENT, Sent.DUPLICATE]
        again = await holder.take_again(run)
        assert [mail.value for mail in again.signals] == ["0", "1", "3"]
        assert await holder.commit(again, Park(signals=("else",))) is Verdict.DONE

    async def test_what_it_has_published_stays(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, FAILED, rows=ROWS, published='{"a":1}')
        await world.storage.reopen(_again(await look(world.storage, run.id), REOPENED))
        again = await holder.take_again(run)
        assert again.state == '{"a":1}'
        await holder.commit(again, GOING, rows=(a_row(3),), published='{"a":2}')
        assert await world.storage.state(run.id) == '{"a":2}'

    async def test_what_is_completed_is_not_opened(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        assert not await world.storage.reopen(_again(await look(world.storage, run.id)))
        assert (await look(world.storage, run.id)).status == "completed"

    async def test_what_is_not_as_the_caller_saw_it_is_not_opened(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, held = await holder.start(a_run()), await holder.start(a_run())
        await holder.commit(run, FAILED, rows=ROWS)
        for wrong in (
            Reopen(run_id=run.id, generation=1, status="dead_letter"),
            Reopen(run_id=run.id, generation=1, status="blocked"),
            Reopen(run_id=run.id, generation=2, status="failed"),
            Reopen(run_id=run.id, generation=1, status="failed", row=a_row(1, "", "{}", "reopened")),
            Reopen(run_id=held.id, generation=1, status="failed"),
            Reopen(run_id=held.id, generation=1, status="blocked"),
            Reopen(run_id=new_run_id(), generation=1, status="failed"),
        ):
            assert not await world.storage.reopen(wrong), wrong
        assert (await look(world.storage, run.id)).status == "failed"
        assert await rows_of(world.storage, run.id) == list(ROWS)
        assert await holder.commit(held, COMPLETED) is Verdict.DONE

    async def test_of_many_at_once_one_opens_it(self, world: World) -> None:
        storages = (world.storage, await world.another())
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, FAILED, rows=ROWS)
        wanted = _again(await look(world.storage, run.id), REOPENED)
        answers = await asyncio.gather(*(storages[number % 2].reopen(wanted) for number in range(10)))
        assert sorted(answers) == [False] * 9 + [True]
        assert await holder.ready() == [run.id]


class TestReopenBlocked:
    async def test_it_is_ready_without_its_block(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, STUCK, rows=ROWS)
        assert await world.storage.reopen(_again(await look(world.storage, run.id), REOPENED))
        assert await world.storage.block(run.id) is None
        assert (await holder.take_again(run)).rows == (*ROWS, REOPENED)

    async def test_a_build_that_could_not_follow_it_is_asked_anew(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, STUCK)
        await world.storage.reopen(_again(await look(world.storage, run.id)))
        await holder.commit(await holder.take_again(run), Stuck(message="m2", build="b2"))
        block = await world.storage.block(run.id)
        assert block is not None
        assert block.builds == ("b2",)

    async def test_a_fault_of_the_worker_is_not_waited_for(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        later = await world.storage.now() + timedelta(hours=1)
        await holder.commit(run, Stuck(message="m", build=None, retry_at=later))
        await world.storage.reopen(_again(await look(world.storage, run.id)))
        assert (await holder.take_again(run)).faults == 0

    async def test_a_generator_that_is_still_held_is_not_resumed(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, STUCK, rows=ROWS)
        await world.storage.reopen(_again(await look(world.storage, run.id), REOPENED))
        [again] = (await holder.claim(held={run.id: run.token})).runs
        assert (again.resumed, again.rows) == (False, (*ROWS, REOPENED))

    async def test_its_attempts_and_its_cancel_stay(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        failed = Attempt(position="2", number=1, error="{}", at=AT, next_at=None)
        await holder.commit(run, STUCK, attempts=(failed,))
        await world.storage.cancel([run.id], "why")
        await world.storage.reopen(_again(await look(world.storage, run.id)))
        again = await holder.take_again(run)
        assert (again.attempts, again.cancel) == ((failed,), "why")

    async def test_a_place_that_is_taken_is_not_written_over(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, STUCK, rows=ROWS)
        assert not await world.storage.reopen(_again(await look(world.storage, run.id), a_row(1, "", "{}", "reopened")))
        assert (await look(world.storage, run.id)).status == "blocked"
        assert await rows_of(world.storage, run.id) == list(ROWS)

    async def test_the_turn_that_blocked_it_sent_again_changes_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, STUCK)
        await world.storage.reopen(_again(await look(world.storage, run.id)))
        assert await holder.commit(run, STUCK) is Verdict.DONE
        assert (await look(world.storage, run.id)).status == "pending"

    async def test_of_two_at_once_one_opens_it(self, world: World) -> None:
        storages = (world.storage, await world.another())
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, STUCK, rows=ROWS)
        wanted = _again(await look(world.storage, run.id), REOPENED)
        assert sorted(await asyncio.gather(*(storage.reopen(wanted) for storage in storages))) == [False, True]


class TestReopenFamily:
    async def test_a_child_tells_its_parent_again_when_it_ends(self, world: World) -> None:
        holder, run, child = await _a_failed_child(world)
        parent = await holder.take_again(run)
        await world.storage.reopen(_again(await look(world.storage, child.id)))
        assert await holder.commit(parent, Park(children=(child.id,))) is Verdict.DONE
        assert await holder.commit(await holder.take_again(child), COMPLETED) is Verdict.DONE
        woken = await holder.take_again(run)
        assert [(each.run_id, each.status) for each in woken.outcomes] == [(child.id, "completed")]

    async def test_a_parent_and_its_child_are_opened_in_one_commit(self, world: World) -> None:
        holder, run, child = await _a_failed_child(world)
        await holder.commit(await holder.take_again(run), FAILED, rows=ROWS)
        wanted = _again(
            await look(world.storage, run.id), REOPENED, children=(_again(await look(world.storage, child.id)),)
        )
        assert await world.storage.reopen(wanted)
        claimed = {each.id: each for each in (await holder.claim()).runs}
        assert sorted(claimed) == sorted([run.id, child.id])
        assert claimed[run.id].outcomes == ()
        await holder.commit(claimed[run.id], Park(children=(child.id,)))
        await holder.commit(claimed[child.id], COMPLETED)
        assert await holder.ready() == [run.id]

    async def test_if_a_child_is_not_as_it_was_seen_the_parent_is_not_opened(self, world: World) -> None:
        holder, run, child = await _a_failed_child(world)
        await holder.commit(await holder.take_again(run), FAILED, rows=ROWS)
        of_child = _again(await look(world.storage, child.id))
        assert await world.storage.reopen(of_child)
        wanted = _again(await look(world.storage, run.id), REOPENED, children=(of_child,))
        assert not await world.storage.reopen(wanted)
        assert (await look(world.storage, run.id)).status == "failed"
        assert await rows_of(world.storage, run.id) == list(ROWS)

    async def test_a_child_that_was_cancelled_before_it_began_is_opened_with_its_parent(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, due_in=3600.0)
        await holder.commit(run, FAILED, rows=ROWS, children=(child,))
        await world.storage.cancel([child.id], "parent ended")
        children = (_again(await look(world.storage, child.id)),)
        assert await world.storage.reopen(_again(await look(world.storage, run.id), REOPENED, children=children))
        claimed = {each.id: each for each in (await holder.claim()).runs}
        assert sorted(claimed) == sorted([run.id, child.id])
        assert (claimed[child.id].cancel, claimed[child.id].rows) == (None, ())

    async def test_a_blocked_child_is_opened_with_its_parent(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, options='{"parent_close":"abandon"}')
        await holder.commit(run, FAILED, rows=ROWS, children=(child,))
        await holder.commit(await holder.take(child), STUCK)
        children = (_again(await look(world.storage, child.id)),)
        assert await world.storage.reopen(_again(await look(world.storage, run.id), REOPENED, children=children))
        assert sorted(await holder.ready()) == sorted([run.id, child.id])

    async def test_a_child_opened_again_outlives_the_earlier_end_of_its_parent(self, world: World) -> None:
        holder, run, child = await _a_failed_child(world)
        await holder.commit(await holder.take_again(run), FAILED)
        await world.advance(1)
        await world.storage.reopen(_again(await look(world.storage, child.id)))
        assert await swept(world) == 0
        assert (await holder.take_again(child)).cancel is None

    async def test_a_child_opened_again_is_cancelled_with_a_later_end_of_its_parent(self, world: World) -> None:
        holder, run, child = await _a_failed_child(world)
        await world.storage.reopen(_again(await look(world.storage, child.id)))
        await world.advance(1)
        parent = next(each for each in (await holder.claim()).runs if each.id == run.id)
        await holder.commit(parent, COMPLETED)
        assert await swept(world) == 1
        assert (await look(world.storage, child.id)).cancel_requested


async def _reopened(world: World) -> tuple[Holder, Claimed, datetime | None]:
    """A run that failed, was opened again and is held anew; when it was first started."""
    holder = await a_holder(world.storage)
    run = await holder.start(a_run())
    started_at = (await look(world.storage, run.id)).started_at
    await holder.commit(run, FAILED, rows=ROWS)
    assert await world.storage.reopen(_again(await look(world.storage, run.id), REOPENED))
    return holder, await holder.take_again(run), started_at


async def _a_failed_child(world: World) -> tuple[Holder, Claimed, Claimed]:
    """A parent that was woken by the failure of its only child, and that child."""
    holder = await a_holder(world.storage)
    run = await holder.start(a_run())
    new = a_child(run)
    await holder.commit(run, Park(children=(new.id,)), children=(new,))
    child = await holder.take(new)
    await holder.commit(child, FAILED)
    return holder, run, child


def _again(record: RunRecord, row: Row | None = None, children: tuple[Reopen, ...] = ()) -> Reopen:
    """What opens the run as it stands."""
    given: dict[str, Any] = {"status": str(record.status), "row": row, "children": children}
    return Reopen(run_id=record.id, generation=record.generation, **given)
