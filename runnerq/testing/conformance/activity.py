"""What was done when, and what people did."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from runnerq.errors import StorageRefused
from runnerq.ids import new_run_id
from runnerq.persistence.records import Activity, AuditFilter, End, NewAudit
from runnerq.testing.conformance.world import COMPLETED, World, a_holder, a_run, an_activity

DAY = timedelta(days=1)
MANY = 8
"""Spans of a few minutes that a test looks at."""


class TestActivity:
    async def test_starts_and_ends_are_counted_by_what_they_were(self, world: World) -> None:
        holder = await a_holder(world.storage)
        for move in (COMPLETED, COMPLETED, End(status="failed"), End(status="dead_letter"), End(status="cancelled")):
            await holder.commit(await holder.start(a_run()), move)
        await world.storage.start([an_activity()])
        [all_of_it] = await _counted(world)
        assert _numbers(all_of_it) == (6, 2, 1, 1, 1)
        assert (all_of_it.name, sum(all_of_it.durations)) == (None, 5)

    async def test_each_name_is_counted_by_itself(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await world.storage.start([a_run(), a_run(), a_run("else")])
        await holder.commit(await holder.start(an_activity()), COMPLETED)
        of_each = {each.name: _numbers(each) for each in await _counted(world, ())}
        assert of_each == {"order": (2, 0, 0, 0, 0), "else": (1, 0, 0, 0, 0), "work": (1, 1, 0, 0, 0)}
        assert [each.name for each in await _counted(world, ("work", "nothing"))] == ["work"]

    async def test_counting_again_counts_nothing_twice_and_goes_on(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await holder.commit(await holder.start(a_run()), COMPLETED)
        assert sum(_numbers(each)[0] for each in await _counted(world)) == 1
        await world.advance(20)
        await holder.commit(await holder.start(a_run()), COMPLETED)
        [all_of_it] = await _counted(world)
        assert (_numbers(all_of_it)[:2], sum(all_of_it.durations)) == ((2, 2), 2)

    async def test_spans_begin_where_they_are_asked_for(self, world: World) -> None:
        await world.storage.start([a_run()])
        now = await _tallied(world)
        minute = now.replace(second=0, microsecond=0)
        for before in (0, 1, 2):
            since = minute - timedelta(minutes=3 * MANY + before)
            found = await world.storage.activity(since, minute + timedelta(minutes=2), 3)
            assert [(each.at - since) % timedelta(minutes=3) for each in found] == [timedelta(0)]
            assert found[0].at <= now < found[0].at + timedelta(minutes=4)
        assert await world.storage.activity(minute - DAY, minute - timedelta(minutes=5), 1) == []


class TestAudit:
    async def test_what_people_did_is_kept_newest_first_in_pages(self, world: World) -> None:
        before = await world.storage.now()
        entries = [_entry(action) for action in ("cancel", "retry", "pause")]
        await world.storage.write_audit(entries)
        found = await world.storage.read_audit(AuditFilter(), 2)
        assert [record.entry for record in found] == [entries[2], entries[1]]
        now = await world.storage.now()
        assert all(before <= record.at <= now for record in found)
        older = await world.storage.read_audit(AuditFilter(), 2, found[-1].entry.id)
        assert [record.entry for record in older] == [entries[0]]

    async def test_all_of_an_entry_is_kept(self, world: World) -> None:
        entry = NewAudit(
            id=new_run_id(),
            principal="ann@example.com",
            action="send",
            outcome="done",
            target="queue mails",
            run_id=new_run_id(),
            reason="they asked",
            request='{"channel":"approval","value":[1,2.50]}',
        )
        await world.storage.write_audit([entry])
        [found] = await world.storage.read_audit(AuditFilter(), 10)
        assert found.entry == entry

    async def test_entries_are_found_by_run_principal_and_action(self, world: World) -> None:
        run_id = new_run_id()
        mine = _entry("cancel", run_id=run_id)
        others = [_entry("cancel"), _entry("retry", run_id=run_id), _entry("retry", principal="bob")]
        await world.storage.write_audit([mine, *others])

        async def found(**where: str) -> list[str]:
            return [each.entry.id for each in await world.storage.read_audit(AuditFilter(**where), 10)]

        assert await found(run_id=run_id) == [others[1].id, mine.id]
        assert await found(action="cancel") == [others[0].id, mine.id]
        assert await found(principal="bob") == [others[2].id]
        assert await found(run_id=run_id, action="cancel", principal="ann") == [mine.id]

    async def test_an_entry_that_is_written_again_is_the_same_one(self, world: World) -> None:
        entry = _entry("cancel")
        await world.storage.write_audit([entry])
        await world.storage.write_audit([entry, _entry("retry")])
        assert [each.entry.action for each in await world.storage.read_audit(AuditFilter(), 10)] == ["retry", "cancel"]

    async def test_a_principal_that_cannot_be_kept_is_refused(self, world: World) -> None:
        with pytest.raises(StorageRefused):
            await world.storage.write_audit([_entry("cancel"), _entry("cancel", principal="a\0b")])
        assert await world.storage.read_audit(AuditFilter(), 10) == []


def _entry(action: str, principal: str = "ann", run_id: str | None = None) -> NewAudit:
    return NewAudit(id=new_run_id(), principal=principal, action=action, outcome="done", run_id=run_id)


def _numbers(activity: Activity) -> tuple[int, ...]:
    return activity.started, activity.completed, activity.failed, activity.dead_letter, activity.cancelled


async def _tallied(world: World) -> datetime:
    """Count all that has happened; the time before."""
    now = await world.storage.now()
    await world.advance(60)
    while await world.storage.tally():
        pass
    return now


async def _counted(world: World, names: tuple[str, ...] | None = None) -> list[Activity]:
    """All that has happened, in one span."""
    now = (await _tallied(world)).replace(second=0, microsecond=0)
    return await world.storage.activity(now - DAY, now + DAY, 3 * 24 * 60, names)
