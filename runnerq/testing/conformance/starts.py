"""Starting runs, and who holds an idempotency key."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from runnerq.ids import new_run_id
from runnerq.persistence.records import End, Ended, NewRun, OnDuplicate, Park, Status
from runnerq.testing.conformance.world import (
    COMPLETED,
    World,
    a_child,
    a_holder,
    a_row,
    a_run,
    an_activity,
    look,
    rows_of,
)

KEYS = ("order-42", "a:b::c", "ключ-🔑-鍵", "k" * 1024, 'it\'s "quoted" \\ %_', " ")
FAILURES = ("failed", "dead_letter", "cancelled")


class TestStarts:
    async def test_a_claimed_run_has_all_that_it_was_started_with(self, world: World) -> None:
        parent, root = a_run(), a_run()
        new = a_run(
            input='{"order":1}',
            priority=1,
            root_id=root.id,
            parent_id=parent.id,
            parent_position="5.1.2",
            depth=2,
            key="k",
            metadata='{"team":"x"}',
            options='{"timeout":5}',
        )
        await world.storage.start([parent, root])
        holder = await a_holder(world.storage)
        run = await holder.start(new)
        for field in (
            "id",
            "kind",
            "name",
            "version",
            "queue",
            "input",
            "priority",
            "root_id",
            "parent_id",
            "depth",
            "key",
        ):
            assert getattr(run, field) == getattr(new, field), field
        assert (run.metadata, run.options) == (new.metadata, new.options)
        assert (run.generation, run.crashes, run.cancel, run.seen, run.resumed) == (1, 0, None, 0, False)
        assert (run.rows, run.signals, run.outcomes, run.attempts, run.state) == ((), (), (), (), None)

    async def test_a_run_without_a_root_is_its_own(self, world: World) -> None:
        new = a_run()
        await world.storage.start([new])
        assert (await look(world.storage, new.id)).root_id == new.id

    async def test_starts_are_answered_in_order(self, world: World) -> None:
        new = [a_run(), an_activity(), a_run(key="k"), a_run()]
        replies = await world.storage.start(list(reversed(new)))
        assert [reply.id for reply in replies] == [run.id for run in reversed(new)]
        assert all(reply.created and not reply.refused for reply in replies)

    async def test_starting_nothing_answers_nothing(self, world: World) -> None:
        assert await world.storage.start([]) == []

    async def test_a_thousand_runs_start_in_one_call(self, world: World) -> None:
        new = [an_activity(key=f"k{number}") for number in range(1000)]
        replies = await world.storage.start(new)
        assert [reply.id for reply in replies] == [run.id for run in new]
        holder = await a_holder(world.storage)
        assert len(await holder.ready()) == 100

    async def test_a_start_sent_again_makes_one_run(self, world: World) -> None:
        new = [a_run(), a_run(key="k")]
        first = await world.storage.start(new)
        assert await world.storage.start(new) == first
        holder = await a_holder(world.storage)
        assert sorted(await holder.ready()) == sorted(run.id for run in new)
        assert await world.storage.start(new) == first
        assert await holder.ready() == []

    async def test_a_start_sent_again_after_the_runs_end_starts_nothing(self, world: World) -> None:
        new = a_run(key="k", on_duplicate="allow_reuse")
        holder = await a_holder(world.storage)
        await holder.commit(await holder.start(new), COMPLETED)
        [again] = await world.storage.start([new])
        assert again.id == new.id
        assert again.created
        assert await holder.ready() == []
        assert (await look(world.storage, new.id)).status == "completed"

    async def test_one_id_given_twice_in_a_call_is_one_run(self, world: World) -> None:
        new = a_run()
        await world.storage.start([new, new])
        holder = await a_holder(world.storage)
        assert await holder.ready() == [new.id]

    async def test_a_delayed_run_is_shown_as_scheduled_and_cannot_be_claimed(self, world: World) -> None:
        now = await world.storage.now()
        at, after = a_run(due_at=now + timedelta(seconds=100)), a_run(due_in=100.0)
        await world.storage.start([at, after])
        await world.storage.wake_due(10)
        holder = await a_holder(world.storage)
        assert await holder.ready() == []
        for new in (at, after):
            record = await look(world.storage, new.id)
            assert record.status is Status.SCHEDULED
            assert record.due_at is not None
            assert timedelta(seconds=99) < record.due_at - now < timedelta(seconds=110)

    async def test_a_delayed_run_can_be_claimed_when_its_time_has_come(self, world: World) -> None:
        now = await world.storage.now()
        at, after = a_run(due_at=now + timedelta(seconds=100)), a_run(due_in=100.0)
        await world.storage.start([at, after])
        await world.advance(101)
        assert await world.storage.wake_due(10) == 2
        holder = await a_holder(world.storage)
        assert sorted(await holder.ready()) == sorted([at.id, after.id])

    async def test_a_run_due_in_the_past_is_ready_at_once(self, world: World) -> None:
        new = a_run(due_at=await world.storage.now() - timedelta(hours=1))
        await world.storage.start([new])
        assert (await look(world.storage, new.id)).status is Status.PENDING
        holder = await a_holder(world.storage)
        assert await holder.ready() == [new.id]

    async def test_a_run_that_is_due_is_scheduled_until_it_is_woken(self, world: World) -> None:
        new = a_run(due_in=60.0)
        await world.storage.start([new])
        await world.advance(61)
        assert (await look(world.storage, new.id)).status is Status.SCHEDULED
        await world.storage.wake_due(10)
        assert (await look(world.storage, new.id)).status is Status.PENDING


class TestFarOff:
    @pytest.mark.parametrize("due", [{"due_in": 3e11}, {"due_at": datetime.max.replace(tzinfo=UTC)}])
    async def test_a_run_that_is_due_in_thousands_of_years_stops_no_claim_and_no_list(
        self, world: World, due: dict[str, Any]
    ) -> None:
        far = a_run(priority=3, **due)
        await world.storage.start([far])
        holder = await a_holder(world.storage)
        near = await holder.start(a_run())
        assert near.id != far.id
        assert await holder.ready() == []
        assert (await look(world.storage, far.id)).status is Status.SCHEDULED

    @pytest.mark.parametrize("given", [{}, {"key": "k"}, {"metadata": "{}"}])
    @pytest.mark.parametrize("seconds", [0, 1, 86_400])
    async def test_a_run_that_was_due_in_the_first_year_is_claimed(
        self, world: World, seconds: int, given: dict[str, Any]
    ) -> None:
        first = datetime.min.replace(tzinfo=UTC) + timedelta(seconds=seconds)
        early = a_run(priority=0, due_at=first, **given)
        await world.storage.start([early])
        holder = await a_holder(world.storage)
        assert await holder.ready() == [early.id]

    async def test_a_child_that_was_due_in_the_first_year_is_claimed(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        early = a_child(run, priority=1, due_at=datetime.min.replace(tzinfo=UTC) + timedelta(seconds=1))
        await holder.commit(run, Park(), children=(early,))
        assert await holder.ready() == [early.id]


class TestCopies:
    """Runs that begin with a journal."""

    async def test_a_run_begins_with_the_rows_it_was_given(self, world: World) -> None:
        rows = tuple(a_row(place, str(place), value) for place, value in enumerate(('"s"', None, '{"a":[1]}')))
        plain, copy = a_run(), a_run(rows=rows)
        await world.storage.start([plain, copy])
        assert await rows_of(world.storage, copy.id) == list(rows)
        assert await rows_of(world.storage, plain.id) == []
        run = await (await a_holder(world.storage)).take(copy)
        assert (run.rows, run.generation, run.attempts) == (rows, 1, ())

    async def test_repeating_the_start_writes_nothing_twice(self, world: World) -> None:
        holder = await a_holder(world.storage)
        copy = a_run(rows=(a_row(0),))
        await world.storage.start([copy])
        run = await holder.take(copy)
        await holder.commit(run, COMPLETED, rows=(a_row(1),))
        [reply] = await world.storage.start([copy])
        assert (reply.id, reply.created) == (copy.id, True)
        assert await rows_of(world.storage, copy.id) == [a_row(0), a_row(1)]

    async def test_where_another_run_stands_for_its_key_nothing_of_it_is_written(self, world: World) -> None:
        holder_of_key, copy = a_run(key="k"), a_run(key="k", rows=(a_row(0),))
        [_, reply] = await world.storage.start([holder_of_key, copy])
        assert (reply.id, reply.created) == (holder_of_key.id, False)
        assert await world.storage.run(copy.id) is None
        assert await rows_of(world.storage, holder_of_key.id) == []
        await (await a_holder(world.storage)).take(holder_of_key)


class TestKeys:
    async def test_the_same_key_answers_its_holder(self, world: World) -> None:
        first, second = a_run(key="k"), a_run(key="k")
        await world.storage.start([first])
        [reply] = await world.storage.start([second])
        assert (reply.id, reply.created, reply.refused) == (first.id, False, False)
        assert await world.storage.run(second.id) is None

    async def test_the_same_key_of_another_name_is_another_run(self, world: World) -> None:
        first, second = a_run("order", key="k"), a_run("child", key="k")
        replies = await world.storage.start([first, second])
        assert [reply.created for reply in replies] == [True, True]
        assert await world.storage.by_key("order", "k") == first.id
        assert await world.storage.by_key("child", "k") == second.id

    async def test_runs_without_a_key_never_meet(self, world: World) -> None:
        replies = await world.storage.start([a_run(), a_run()])
        assert [reply.created for reply in replies] == [True, True]

    @pytest.mark.parametrize("key", KEYS, ids=("plain", "colons", "unicode", "long", "quotes", "blank"))
    async def test_a_key_may_be_any_text(self, world: World, key: str) -> None:
        first, second = a_run(key=key), a_run(key=key)
        await world.storage.start([first, a_run(key=key + "x")])
        [reply] = await world.storage.start([second])
        assert (reply.id, reply.created) == (first.id, False)
        assert await world.storage.by_key("order", key) == first.id
        assert (await look(world.storage, first.id)).key == key

    @pytest.mark.parametrize("status", get_args(Ended))
    async def test_return_existing_answers_the_holder_whatever_became_of_it(self, world: World, status: Ended) -> None:
        first = await _ended(world, status, key="k")
        [reply] = await world.storage.start([a_run(key="k")])
        assert (reply.id, reply.created, reply.refused) == (first.id, False, False)

    @pytest.mark.parametrize("status", get_args(Ended))
    async def test_no_reuse_is_refused_whatever_became_of_the_holder(self, world: World, status: Ended) -> None:
        first = await _ended(world, status, key="k")
        [reply] = await world.storage.start([a_run(key="k", on_duplicate="no_reuse")])
        assert (reply.id, reply.created, reply.refused) == (first.id, False, True)

    async def test_no_reuse_is_refused_while_the_holder_is_open(self, world: World) -> None:
        first = a_run(key="k")
        await world.storage.start([first])
        [reply] = await world.storage.start([a_run(key="k", on_duplicate="no_reuse")])
        assert (reply.id, reply.created, reply.refused) == (first.id, False, True)

    async def test_allow_reuse_moves_the_key_and_the_old_run_goes_on(self, world: World) -> None:
        first, second = a_run(key="k"), a_run(key="k", on_duplicate="allow_reuse")
        await world.storage.start([first])
        [reply] = await world.storage.start([second])
        assert (reply.id, reply.created, reply.refused) == (second.id, True, False)
        assert await world.storage.by_key("order", "k") == second.id
        holder = await a_holder(world.storage)
        assert sorted(await holder.ready()) == sorted([first.id, second.id])

    async def test_a_start_sent_again_does_not_take_the_key_back(self, world: World) -> None:
        first, second = a_run(key="k", on_duplicate="allow_reuse"), a_run(key="k", on_duplicate="allow_reuse")
        await world.storage.start([first])
        await world.storage.start([second])
        [again] = await world.storage.start([first])
        assert again.id == first.id
        assert again.created
        assert await world.storage.by_key("order", "k") == second.id

    @pytest.mark.parametrize("status", FAILURES)
    async def test_allow_reuse_on_failure_creates_after_a_failure(self, world: World, status: Ended) -> None:
        await _ended(world, status, key="k")
        second = a_run(key="k", on_duplicate="allow_reuse_on_failure")
        [reply] = await world.storage.start([second])
        assert (reply.id, reply.created, reply.refused) == (second.id, True, False)
        assert await world.storage.by_key("order", "k") == second.id

    async def test_allow_reuse_on_failure_is_refused_after_success(self, world: World) -> None:
        first = await _ended(world, "completed", key="k")
        [reply] = await world.storage.start([a_run(key="k", on_duplicate="allow_reuse_on_failure")])
        assert (reply.id, reply.created, reply.refused) == (first.id, False, True)

    async def test_allow_reuse_on_failure_is_refused_while_the_holder_is_open(self, world: World) -> None:
        first = a_run(key="k")
        await world.storage.start([first])
        [reply] = await world.storage.start([a_run(key="k", on_duplicate="allow_reuse_on_failure")])
        assert (reply.id, reply.created, reply.refused) == (first.id, False, True)

    @pytest.mark.parametrize("on_duplicate", [each for each in get_args(OnDuplicate) if each != "allow_reuse"])
    async def test_a_key_given_twice_in_a_call_is_the_first_ones(self, world: World, on_duplicate: OnDuplicate) -> None:
        first, second = (a_run(key="k", on_duplicate=on_duplicate) for _ in range(2))
        replies = await world.storage.start([first, second])
        assert [reply.id for reply in replies] == [first.id, first.id]
        assert [reply.created for reply in replies] == [True, False]
        assert await world.storage.run(second.id) is None

    async def test_of_several_in_a_call_that_may_take_the_key_all_run_and_the_last_has_it(self, world: World) -> None:
        await world.storage.start([a_run(key="k")])
        new = [a_run(key="k", on_duplicate="allow_reuse") for _ in range(3)]
        for _ in range(2):
            replies = await world.storage.start(new)
            assert [(reply.id, reply.created) for reply in replies] == [(run.id, True) for run in new]
            assert await world.storage.by_key(new[0].name, "k") == new[-1].id

    async def test_fifty_callers_at_once_make_one_run(self, world: World) -> None:
        assert await _race(world, "return_existing") == (1, 0)

    async def test_fifty_callers_at_once_with_no_reuse_make_one_run(self, world: World) -> None:
        assert await _race(world, "no_reuse") == (1, 49)

    async def test_fifty_callers_at_once_make_one_run_of_a_failed_ones_key(self, world: World) -> None:
        await _ended(world, "failed", key="k")
        assert await _race(world, "allow_reuse_on_failure") == (1, 49)

    async def test_fifty_callers_at_once_with_allow_reuse_leave_one_holder(self, world: World) -> None:
        assert await _race(world, "allow_reuse") == (50, 0)

    async def test_batches_of_the_same_keys_in_opposite_order_do_not_deadlock(self, world: World) -> None:
        storages = (world.storage, await world.another())
        keys = [f"k{number}" for number in range(100)]
        for _ in range(5):
            forth, back = [a_run(key=key) for key in keys], [a_run(key=key) for key in reversed(keys)]
            there, here = await asyncio.gather(storages[0].start(forth), storages[1].start(back))
            assert [reply.id for reply in there] == [reply.id for reply in reversed(here)]


async def _ended(world: World, status: Ended, key: str) -> NewRun:
    """A run that has ended like this."""
    new = a_run(key=key)
    holder = await a_holder(world.storage)
    await holder.commit(await holder.start(new), End(status=status, result="1" if status == "completed" else None))
    return new


async def _race(world: World, on_duplicate: OnDuplicate) -> tuple[int, int]:
    """Fifty callers with one key, over two storages: how many made a run, how many were refused."""
    storages = (world.storage, await world.another())
    new = [a_run(id=new_run_id(), key="k", on_duplicate=on_duplicate) for _ in range(50)]
    answers = await asyncio.gather(*(storages[place % 2].start([run]) for place, run in enumerate(new)))
    replies = [reply for [reply] in answers]
    holder = await world.storage.by_key("order", "k")
    assert holder is not None
    made = [run for run, reply in zip(new, replies, strict=True) if reply.created]
    assert holder in {run.id for run in made}
    assert all(reply.id == holder for reply in replies if not reply.created)
    there = [run for run in new if await world.storage.run(run.id) is not None]
    assert there == made
    return len(made), sum(reply.refused for reply in replies)
