"""The queries: what a run, a key, a journal and a list of runs show."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import get_args

import msgspec
import pytest

from runnerq.ids import new_run_id
from runnerq.persistence.records import (
    GOING,
    Attempt,
    Back,
    Claimed,
    End,
    Ended,
    NewRun,
    Park,
    Renew,
    RunFilter,
    RunRecord,
    Status,
    Stuck,
    Verdict,
)
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    World,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    an_activity,
    look,
)


class TestRun:
    async def test_an_unknown_run_is_nothing(self, world: World) -> None:
        unknown = new_run_id()
        assert await world.storage.run(unknown) is None
        assert await world.storage.journal(unknown) is None
        assert await world.storage.state(unknown) is None
        assert await world.storage.block(unknown) is None
        assert await world.storage.outcomes([unknown]) == []
        assert await world.storage.by_key("order", unknown) is None

    async def test_a_fresh_run_shows_what_it_was_started_with(self, world: World) -> None:
        before = await world.storage.now()
        new = a_run(key="k", priority=1, metadata='{"a":"b"}', options='{"o":1}', input="[1]")
        await world.storage.start([new])
        record = await look(world.storage, new.id)
        for field in (
            "id",
            "kind",
            "name",
            "version",
            "queue",
            "priority",
            "key",
            "input",
            "metadata",
            "options",
            "depth",
        ):
            assert getattr(record, field) == getattr(new, field), field
        assert before <= record.created_at <= await world.storage.now()
        assert (record.status, record.generation, record.cancel_requested) == (Status.PENDING, 1, False)
        assert (record.started_at, record.ended_at, record.parked_at, record.due_at) == (None, None, None, None)
        assert (record.started, record.result, record.error, record.reason) == (None, None, None, None)

    async def test_a_parked_run_shows_what_it_waits_for(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        due_at = await world.storage.now() + timedelta(hours=1)
        park = Park(signals=("a", "b"), children=(child.id,), due_at=due_at)
        before = await world.storage.now()
        await holder.commit(run, park, children=(child,))
        record = await look(world.storage, run.id)
        assert (record.status, record.waiting_signals, record.waiting_children) == (
            Status.WAITING,
            ("a", "b"),
            (child.id,),
        )
        assert record.due_at == due_at
        assert record.parked_at is not None
        assert before <= record.parked_at <= await world.storage.now()

    async def test_a_parked_run_shows_where_its_code_stands_until_it_is_woken(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        stack = ("shop.py:12 in checkout", 'it\'s "more", {here}\\', "ü")
        await holder.commit(run, Park(signals=("a",), stack=stack))
        assert (await look(world.storage, run.id)).stack == stack
        await world.storage.send([a_signal(run.id, "a")])
        assert (await look(world.storage, run.id)).stack == ()
        again = await holder.take_again(run)
        assert (await look(world.storage, run.id)).stack == ()
        await holder.commit(again, Park(signals=("b",)))
        assert (await look(world.storage, run.id)).stack == ()

    @pytest.mark.parametrize("wake", ["a timer", "a cancel", "a child"])
    async def test_whatever_wakes_a_run_ends_where_it_stood(self, world: World, wake: str) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        children = (a_child(run, "1"), a_child(run, "2"))
        named = tuple(child.id for child in children)
        due_at = await world.storage.now()
        await holder.commit(run, Park(children=named, needs=2, due_at=due_at, stack=("here",)), children=children)
        first, last = (await holder.claim()).runs
        await holder.commit(first, COMPLETED)
        assert (await look(world.storage, run.id)).stack == ("here",)
        match wake:
            case "a timer":
                await world.storage.wake_due(10)
            case "a cancel":
                await world.storage.cancel([run.id])
            case _:
                await holder.commit(last, COMPLETED)
        again = await holder.take_again(run)
        assert await holder.commit(again, Park(signals=("x",))) is Verdict.DONE
        assert (await look(world.storage, run.id)).stack == ()

    async def test_a_run_that_went_on_waits_for_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("a",)))
        await world.storage.cancel([run.id])
        await holder.take_again(run)
        record = await look(world.storage, run.id)
        assert (record.status, record.waiting_signals, record.parked_at) == (Status.RUNNING, (), None)

    async def test_a_started_run_shows_when_and_with_what(self, world: World) -> None:
        holder = await a_holder(world.storage)
        before = await world.storage.now()
        run = await holder.start(a_run())
        first = (await look(world.storage, run.id)).started_at
        assert first is not None
        assert before <= first <= await world.storage.now()
        await holder.commit(run, Back(), rows=(a_row(0, "", '{"build":"b1"}', "started"),))
        await holder.take_again(run)
        record = await look(world.storage, run.id)
        assert (record.started_at, record.started) == (first, '{"build":"b1"}')

    async def test_a_child_shows_where_it_comes_from(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        record = await look(world.storage, child.id)
        assert (record.parent_id, record.root_id, record.depth) == (run.id, run.id, 1)

    async def test_an_ended_run_shows_all_of_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k"))
        started_at = (await look(world.storage, run.id)).started_at
        await holder.commit(run, Renew(started=a_row(0, "", '"s"', "started")))
        await holder.commit(run, COMPLETED, generation=2)
        record = await look(world.storage, run.id)
        assert (record.status, record.result, record.key, record.generation) == (Status.COMPLETED, "1", "k", 2)
        assert (record.started_at, record.started, record.due_at, record.parked_at) == (started_at, '"s"', None, None)

    async def test_outcomes_are_only_of_what_has_ended(self, world: World) -> None:
        holder = await a_holder(world.storage)
        ended, held = await holder.start(a_run()), await holder.start(a_run())
        await holder.commit(ended, COMPLETED)
        found = await world.storage.outcomes([held.id, ended.id, new_run_id()])
        assert [(outcome.run_id, outcome.result) for outcome in found] == [(ended.id, "1")]
        assert await world.storage.outcomes([]) == []


class TestJournal:
    async def test_a_journal_is_in_order_of_place_with_the_attempts_of_what_is_open(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        rows = tuple(a_row(place, str(place)) for place in range(12))
        attempt = Attempt(position="12", number=1, error="{}", at=AT, next_at=AT)
        await holder.commit(run, GOING, rows=rows[::-1], attempts=(attempt,))
        journal = await world.storage.journal(run.id)
        assert journal is not None
        assert (journal.run_id, journal.generation, journal.rows, journal.attempts) == (run.id, 1, rows, (attempt,))

    async def test_a_run_that_wrote_nothing_has_an_empty_journal(self, world: World) -> None:
        new = a_run()
        await world.storage.start([new])
        journal = await world.storage.journal(new.id)
        assert journal is not None
        assert (journal.generation, journal.rows) == (1, ())

    async def test_a_long_journal_comes_whole(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        rows = tuple(a_row(place, str(place)) for place in range(3000))
        await holder.commit(run, Back(), rows=rows)
        assert (await holder.take_again(run)).rows == rows


class TestLists:
    async def test_runs_are_listed_newest_first_in_pages(self, world: World) -> None:
        new = [a_run() for _ in range(7)]
        await world.storage.start(new)
        newest_first = sorted((run.id for run in new), reverse=True)
        seen: list[str] = []
        cursor: str | None = None
        for _ in range(3):
            page = await world.storage.list_runs(RunFilter(), 3, cursor)
            seen += [record.id for record in page.runs]
            cursor = page.next
        assert (seen, cursor) == (newest_first, None)

    async def test_a_listed_run_is_the_run(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k", metadata='{"a":"b"}'))
        await holder.commit(run, Park(signals=("go",)), rows=(a_row(0, "", "{}", "started"),))
        ended = await holder.start(a_run())
        await holder.commit(ended, COMPLETED)
        listed = await world.storage.list_runs(RunFilter(), 10)
        whole = [await look(world.storage, run_id) for run_id in (ended.id, run.id)]
        assert listed.runs == tuple(msgspec.structs.replace(each, input=None, result=None) for each in whole)

    async def test_runs_are_filtered_by_what_is_shown_of_them(self, world: World) -> None:
        by_status = await one_of_each(world)
        for status, run_id in by_status.items():
            assert await _ids(world, RunFilter(status=status)) == [run_id], status
        several = (Status.FAILED, Status.WAITING)
        assert await _ids(world, RunFilter(status=several)) == sorted(
            (by_status[each] for each in several), reverse=True
        )
        assert await _ids(world, RunFilter(status="completed")) == [by_status[Status.COMPLETED]]

    async def test_runs_are_filtered_by_name_and_queue(self, world: World) -> None:
        new = [a_run("x"), a_run("x", queue="r"), a_run("y"), an_activity()]
        await world.storage.start(new)
        assert await _ids(world, RunFilter(workflow="x")) == _newest(new[:2])
        assert await _ids(world, RunFilter(queue="r")) == [new[1].id]
        assert await _ids(world, RunFilter(workflow="x", queue="q")) == [new[0].id]
        assert await _ids(world, RunFilter(workflow="work")) == [new[3].id]

    async def test_runs_are_filtered_by_the_beginning_of_their_key(self, world: World) -> None:
        new = [a_run(key=key) for key in ("order_1", "order_2", "orderX3", "100%", "100 %", "ü")]
        await world.storage.start([*new, a_run()])
        assert await _ids(world, RunFilter(key_prefix="order_")) == _newest(new[:2])
        assert await _ids(world, RunFilter(key_prefix="order")) == _newest(new[:3])
        assert await _ids(world, RunFilter(key_prefix="100%")) == [new[3].id]
        assert await _ids(world, RunFilter(key_prefix="ü")) == [new[5].id]

    async def test_runs_are_filtered_by_metadata(self, world: World) -> None:
        texts = ('{"team":"a","tier":"1"}', '{"team":"a"}', '{"team":"b","tier":"1"}', '{"it\'s":"\\"x\\""}')
        new = [a_run(metadata=text) for text in texts]
        await world.storage.start([*new, a_run()])
        assert await _ids(world, RunFilter(metadata={"team": "a"})) == _newest(new[:2])
        assert await _ids(world, RunFilter(metadata={"team": "a", "tier": "1"})) == [new[0].id]
        assert await _ids(world, RunFilter(metadata={"it's": '"x"'})) == [new[3].id]
        assert await _ids(world, RunFilter(metadata={"team": "c"})) == []

    async def test_runs_are_filtered_by_their_family(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child, other = a_child(run, "1"), a_run()
        await holder.commit(run, GOING, children=(child,))
        grandchild = a_child(await holder.take(child), "1")
        await holder.commit(run, GOING)
        await world.storage.start([grandchild, other])
        assert await _ids(world, RunFilter(parent=run.id)) == [child.id]
        assert await _ids(world, RunFilter(parent=child.id)) == [grandchild.id]
        assert await _ids(world, RunFilter(root=run.id)) == sorted([run.id, child.id, grandchild.id], reverse=True)

    async def test_runs_are_filtered_by_when_they_were_created(self, world: World) -> None:
        first = a_run()
        await world.storage.start([first])
        created_at = (await look(world.storage, first.id)).created_at
        before, after = created_at - timedelta(seconds=1), created_at + timedelta(seconds=1)
        assert await _ids(world, RunFilter(since=before, until=after)) == [first.id]
        assert await _ids(world, RunFilter(since=after)) == []
        assert await _ids(world, RunFilter(until=before)) == []

    async def test_times_are_utc(self, world: World) -> None:
        new = a_run(due_in=60.0)
        await world.storage.start([new])
        record = await look(world.storage, new.id)
        assert record.due_at is not None
        for at in (await world.storage.now(), record.created_at, record.due_at):
            assert _is_utc(at)


class TestOpenRuns:
    async def test_open_workflow_runs_of_these_names_are_listed_oldest_first_in_pages(self, world: World) -> None:
        by_status = await one_of_each(world, a_run)
        open_ = sorted(run_id for status, run_id in by_status.items() if not status.ended)
        await world.storage.start([a_run("else"), a_run("order", kind="activity"), a_run(id=new_run_id(), version=7)])
        newest = (await world.storage.list_runs(RunFilter(workflow="order"), 1)).runs[0]
        seen: list[RunRecord] = []
        after: str | None = None
        while page := await world.storage.open_runs(["order", "nothing"], 3, after):
            seen += page
            after = page[-1].id
        assert [record.id for record in seen] == [*open_, newest.id]
        assert seen == [await look(world.storage, record.id) for record in seen]
        assert {record.status for record in seen} == {status for status in by_status if not status.ended}
        assert await world.storage.open_runs([], 10, None) == []
        assert [record.name for record in await world.storage.open_runs(["else"], 10, None)] == ["else"]


def _is_utc(at: datetime) -> bool:
    return at.utcoffset() == timedelta(0)


def _newest(runs: list[NewRun]) -> list[str]:
    return sorted((run.id for run in runs), reverse=True)


async def _ids(world: World, where: RunFilter) -> list[str]:
    found = await world.storage.list_runs(where, 100)
    return [record.id for record in found.runs]


async def one_of_each(world: World, a_new_one: Callable[[], NewRun] = an_activity) -> dict[Status, str]:
    """A run in each state that can be shown."""
    holder = await a_holder(world.storage)
    runs: dict[Status, Claimed] = {
        status: await holder.start(a_new_one()) for status in Status if status is not Status.SCHEDULED
    }
    soon = await world.storage.now() + timedelta(hours=1)
    attempt = Attempt(position="", number=1, error="{}", at=AT, next_at=soon)
    await holder.commit(runs[Status.PENDING], Back())
    await holder.commit(runs[Status.WAITING], Park(signals=("go",)))
    await holder.commit(runs[Status.BLOCKED], Stuck(message="m", build="b"))
    await holder.commit(runs[Status.RETRYING], Back(due_at=soon), attempts=(attempt,))
    for status in get_args(Ended):
        await holder.commit(runs[Status(status)], End(status=status))
    scheduled = a_run(due_in=3600.0)
    await world.storage.start([scheduled])
    return {status: run.id for status, run in runs.items()} | {Status.SCHEDULED: scheduled.id}
