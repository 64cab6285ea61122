"""The tail of what happened: nothing is missed and nothing comes twice."""

from __future__ import annotations

import asyncio

import pytest

from runnerq.ids import new_token
from runnerq.persistence.records import CRASH_CAP, Back, End, Event, Reopen, Stuck
from runnerq.testing.conformance.world import COMPLETED, World, a_child, a_holder, a_run


class TestEvents:
    async def test_a_tail_begins_now(self, world: World) -> None:
        old, new = a_run(), a_run()
        await world.storage.start([old])
        begun = await world.storage.events(None, 10)
        assert begun.events == ()
        await world.storage.start([new])
        tail = await world.storage.events(begun.cursor, 10)
        assert [(event.kind, event.run_id) for event in tail.events] == [("started", new.id)]

    async def test_where_nothing_happened_the_cursor_goes_on(self, world: World) -> None:
        cursor = (await world.storage.events(None, 10)).cursor
        for _ in range(3):
            tail = await world.storage.events(cursor, 10)
            assert tail.events == ()
            cursor = tail.cursor
        new = a_run()
        await world.storage.start([new])
        assert [event.run_id for event in (await world.storage.events(cursor, 10)).events] == [new.id]

    async def test_a_run_is_told_from_its_start_to_its_end(self, world: World) -> None:
        cursor = (await world.storage.events(None, 10)).cursor
        before = await world.storage.now()
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        tail = await world.storage.events(cursor, 10)
        assert [(event.kind, event.run_id, event.name, event.queue) for event in tail.events] == [
            ("started", run.id, "order", "q"),
            ("completed", run.id, "order", "q"),
        ]
        first, last = (event.at for event in tail.events)
        assert before <= first <= last <= await world.storage.now()
        assert (await world.storage.events(tail.cursor, 10)).events == ()

    @pytest.mark.parametrize("status", ["failed", "dead_letter", "cancelled"])
    async def test_an_end_says_how_and_why(self, world: World, status: str) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        cursor = (await world.storage.events(None, 10)).cursor
        await holder.commit(run, End(status=status, reason="why"))  # type: ignore[arg-type]
        [event] = (await world.storage.events(cursor, 10)).events
        assert (event.kind, event.run_id, _packed(event)) == (status, run.id, '{"reason":"why"}')

    async def test_pages_hold_all_of_it_once_and_any_event_is_a_place_to_go_on(self, world: World) -> None:
        cursor = (await world.storage.events(None, 10)).cursor
        holder = await a_holder(world.storage)
        await world.storage.start([a_run() for _ in range(25)])
        for run in (await holder.claim()).runs:
            await holder.commit(run, COMPLETED)
        told = await _told(world, cursor, 7)
        assert len(told) == len({event.cursor for event in told}) == 50
        assert _named(told) == _named(await _told(world, cursor, 100))
        assert _named(await _told(world, told[30].cursor, 4)) == _named(told[31:])

    async def test_no_run_ends_before_it_is_told_that_it_started(self, world: World) -> None:
        cursor = (await world.storage.events(None, 10)).cursor
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k"))
        taken = a_run("child", key="k")
        await world.storage.start([taken])
        child = a_child(run, key="k")
        await holder.commit(run, Back(), children=(child,))
        told = [(event.kind, event.run_id) for event in await _told(world, cursor, 100)]
        assert told.index(("started", child.id)) < told.index(("failed", child.id))

    async def test_what_is_written_while_a_reader_follows_is_told_once(self, world: World) -> None:
        cursor = (await world.storage.events(None, 10)).cursor
        storages = [world.storage, await world.another()]
        runs = [a_run() for _ in range(60)]
        writing = asyncio.gather(*(storages[place % 2].start([run]) for place, run in enumerate(runs)))
        told: list[str | None] = []
        while not writing.done():
            tail = await world.storage.events(cursor, 7)
            told += [event.run_id for event in tail.events]
            cursor = tail.cursor
            await asyncio.sleep(0)
        await writing
        told += [event.run_id for event in await _told(world, cursor, 7)]
        assert sorted(told, key=str) == sorted(run.id for run in runs)

    async def test_crashes_are_told(self, world: World) -> None:
        run = a_run()
        await world.storage.start([run])
        cursor = (await world.storage.events(None, 10)).cursor
        for _ in range(CRASH_CAP):
            await world.advance(60)
            await world.storage.wake_due(10)
            gone = await a_holder(world.storage, lease=1)
            await gone.take(run)
            await world.advance(2)
            reaper = await a_holder(world.storage)
            await world.storage.reap(reaper.id, new_token(), 10)
        told = await _told(world, cursor, 100)
        assert [(event.kind, event.run_id) for event in told] == [("crashed", run.id)] * CRASH_CAP
        assert _packed(told[1]) is not None
        assert '"crashes":2' in str(_packed(told[1]))

    async def test_a_run_that_is_given_back_by_its_worker_has_not_crashed(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await holder.start(a_run())
        cursor = (await world.storage.events(None, 10)).cursor
        await world.storage.give_back(holder.id)
        assert await _told(world, cursor, 10) == []

    async def test_a_block_is_told_and_what_a_person_does_about_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        cursor = (await world.storage.events(None, 10)).cursor
        await holder.commit(run, Stuck(message="code changed", build="b1", position="3"))
        await world.storage.reopen(Reopen(run_id=run.id, generation=1, status="blocked"))
        blocked, reopened = await _told(world, cursor, 10)
        assert (blocked.kind, blocked.run_id, blocked.name) == ("blocked", run.id, "order")
        assert _packed(blocked) == '{"message":"codechanged","position":"3","build":"b1"}'
        assert (reopened.kind, reopened.run_id, _packed(reopened)) == ("reopened", run.id, '{"from":"blocked"}')

    async def test_a_termination_is_told_before_the_end_that_it_is(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        cursor = (await world.storage.events(None, 10)).cursor
        await world.storage.terminate([run.id])
        assert [event.kind for event in await _told(world, cursor, 10)] == ["terminated", "cancelled"]

    async def test_an_ended_run_that_is_opened_again_ends_again(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, End(status="failed", error="{}"))
        cursor = (await world.storage.events(None, 10)).cursor
        await world.storage.reopen(Reopen(run_id=run.id, generation=1, status="failed"))
        again = await holder.take_again(run)
        await holder.commit(again, COMPLETED)
        told = await _told(world, cursor, 1)
        assert [(event.kind, event.run_id) for event in told] == [("reopened", run.id), ("completed", run.id)]

    async def test_queues_are_told_of_by_their_name(self, world: World) -> None:
        cursor = (await world.storage.events(None, 10)).cursor
        await world.storage.pause("r")
        await world.storage.resume("r")
        told = await _told(world, cursor, 10)
        assert [(event.kind, event.run_id, event.name, event.queue) for event in told] == [
            ("paused", None, None, "r"),
            ("resumed", None, None, "r"),
        ]

    @pytest.mark.parametrize("cursor", ["", "x", "1;2", "-1", "9" * 30, "9" * 18 + ":" + "9" * 18 + ":", "1:2:3/4"])
    async def test_what_is_no_cursor_is_refused(self, world: World, cursor: str) -> None:
        with pytest.raises(ValueError, match="cursor"):
            await world.storage.events(cursor, 10)


async def _told(world: World, cursor: str, limit: int) -> list[Event]:
    """All that happened since, in pages."""
    told: list[Event] = []
    while True:
        tail = await world.storage.events(cursor, limit)
        told += tail.events
        if not tail.events:
            return told
        cursor = tail.cursor


def _named(told: list[Event]) -> list[tuple[str, str | None]]:
    return [(event.kind, event.run_id) for event in told]


def _packed(event: Event) -> str | None:
    """Its data, without the blanks that a backend may put between."""
    return event.data and event.data.replace(" ", "")
