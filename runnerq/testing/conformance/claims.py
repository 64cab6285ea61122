"""Claiming: who goes first, what a claim brings, and who gets nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from runnerq.ids import new_token
from runnerq.persistence.records import GOING, HEAD_START, Attempt, Back, Claimed, Park, Priority, Verdict
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    PAIRS,
    QUEUE,
    Holder,
    World,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    an_activity,
    look,
)

FOR_GO = Park(signals=("go",))


class TestClaimOrder:
    async def test_a_higher_priority_goes_first(self, world: World) -> None:
        by_priority = {priority: a_run(priority=priority) for priority in reversed(Priority)}
        await world.storage.start(list(by_priority.values()))
        holder = await a_holder(world.storage)
        claimed = [run.id for _ in by_priority for run in (await holder.claim(1)).runs]
        assert claimed == [by_priority[priority].id for priority in Priority]

    async def test_one_order_holds_across_queues_and_names(self, world: World) -> None:
        now = await world.storage.now()
        new = [
            (an_activity if number % 2 else a_run)(queue=f"q{number % 3}", due_at=now - timedelta(seconds=100 - number))
            for number in range(12)
        ]
        await world.storage.start(list(reversed(new)))
        pairs = tuple((f"q{queue}", served) for queue in range(3) for served in ("work", "order@1"))
        holder = await a_holder(world.storage)
        claimed = [{run.id for run in (await holder.claim(3, pairs)).runs} for _ in range(4)]
        assert claimed == [{run.id for run in new[begin : begin + 3]} for begin in range(0, 12, 3)]

    async def test_a_run_that_waited_longer_than_the_head_start_goes_before_a_higher_priority(
        self, world: World
    ) -> None:
        now = await world.storage.now()
        old = a_run(priority=Priority.LOW, due_at=now - timedelta(minutes=21))
        high = a_run(priority=Priority.HIGH)
        critical = a_run(priority=Priority.CRITICAL)
        await world.storage.start([high, critical, old])
        holder = await a_holder(world.storage)
        claimed = [run.id for _ in range(3) for run in (await holder.claim(1)).runs]
        assert claimed == [critical.id, old.id, high.id]

    @pytest.mark.parametrize(("higher", "lower"), list(pairwise(Priority)))
    async def test_what_is_older_by_the_difference_of_the_head_starts_goes_before_a_higher_priority(
        self, world: World, higher: Priority, lower: Priority
    ) -> None:
        now = await world.storage.now()
        difference = timedelta(seconds=HEAD_START[higher] - HEAD_START[lower])
        first = a_run(priority=lower, due_at=now - difference - timedelta(seconds=1))
        second = a_run(priority=higher, due_at=now)
        third = a_run(priority=lower, due_at=now - difference + timedelta(seconds=1))
        await world.storage.start([third, second, first])
        holder = await a_holder(world.storage)
        claimed = [run.id for _ in range(3) for run in (await holder.claim(1)).runs]
        assert claimed == [first.id, second.id, third.id]

    async def test_a_low_run_is_not_starved_where_more_of_high_priority_come_than_can_be_done(
        self, world: World
    ) -> None:
        holder = await a_holder(world.storage, lease=3600 * 24)
        low = a_run(priority=Priority.LOW)
        await world.storage.start([low])
        taken: list[str] = []
        while low.id not in taken:
            await world.storage.start([a_run(priority=Priority.HIGH) for _ in range(2)])
            await world.advance(60)
            taken += [run.id for run in (await holder.claim(1)).runs]
            assert len(taken) < 100, "starved"
        # What came in the first twenty minutes went before it, two a minute, and nothing that came later.
        assert 40 <= len(taken) <= 43

    async def test_a_run_that_was_woken_queues_up_from_then_on(self, world: World) -> None:
        holder = await a_holder(world.storage)
        first = await holder.start(a_run())
        await holder.commit(first, FOR_GO)
        second = a_run(due_at=await world.storage.now())
        await world.storage.start([second])
        await world.advance(1)
        await world.storage.send([a_signal(first.id)])
        assert [run.id for run in (await holder.claim(1)).runs] == [second.id]

    async def test_a_claim_takes_no_more_than_its_limit(self, world: World) -> None:
        await world.storage.start([a_run() for _ in range(7)])
        holder = await a_holder(world.storage)
        assert [len((await holder.claim(3)).runs) for _ in range(4)] == [3, 3, 1, 0]

    async def test_a_claim_takes_only_what_it_names(self, world: World) -> None:
        mine = a_run()
        others = [a_run(queue="other"), a_run("else"), a_run(version=2), an_activity(queue="other")]
        await world.storage.start([*others, mine])
        holder = await a_holder(world.storage)
        assert [run.id for run in (await holder.claim(pairs=PAIRS)).runs] == [mine.id]
        assert (await holder.claim(pairs=())).runs == ()

    async def test_names_may_be_any_text(self, world: World) -> None:
        names = ("a b", "a@1", "ü:%_'\"\\", "n" * 500)
        new = [a_run(name, queue=name) for name in names]
        await world.storage.start(new)
        holder = await a_holder(world.storage)
        claimed = [run.id for name in names for run in (await holder.claim(pairs=((name, f"{name}@1"),))).runs]
        assert claimed == [run.id for run in new]


class TestClaimedOnce:
    async def test_a_run_is_held_by_one_worker(self, world: World) -> None:
        await world.storage.start([a_run()])
        first, second = await a_holder(world.storage), await a_holder(world.storage)
        assert len(await first.ready()) == 1
        assert await second.ready() == []

    async def test_claims_side_by_side_share_out_the_runs(self, world: World) -> None:
        new = [a_run() for _ in range(200)]
        await world.storage.start(new)
        storages = (world.storage, await world.another())
        holders = [await a_holder(storages[number % 2]) for number in range(4)]
        claimed = [run_id for share in await asyncio.gather(*map(_all_of, holders)) for run_id in share]
        assert sorted(claimed) == sorted(run.id for run in new)

    async def test_a_worker_that_is_not_registered_gets_nothing(self, world: World) -> None:
        await world.storage.start([a_run()])
        assert (await Holder(world.storage, 12345).claim()).runs == ()

    async def test_a_worker_that_was_reaped_gets_nothing(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        await world.storage.start([a_run()])
        await world.advance(2)
        await world.storage.reap(reaper.id, new_token(), 10)
        assert (await gone.claim()).runs == ()
        assert len(await reaper.ready()) == 1

    async def test_a_worker_that_signed_off_gets_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await holder.start(a_run())
        assert await world.storage.give_back(holder.id) == 1
        assert (await holder.claim()).runs == ()


class TestClaimReply:
    async def test_a_claim_brings_the_journal_the_mail_the_attempts_and_the_state(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        rows = (a_row(0, "", '{"seed":"x"}', "started"), a_row(1), a_row(2, "2", None, "failed"))
        attempts = (Attempt(position="3", number=2, error='{"type":"E"}', at=AT, next_at=AT, details='"half"'),)
        await world.storage.send([a_signal(run.id, "a", "1"), a_signal(run.id, "b", "2")])
        await holder.commit(run, Back(), rows=tuple(reversed(rows)), attempts=attempts, published='{"done":1}')
        await world.storage.send([a_signal(run.id, "a", "3")])
        again = await holder.take_again(run)
        assert again.rows == rows
        assert [(mail.number, mail.channel, mail.value) for mail in again.signals] == [
            (1, "a", "1"),
            (2, "b", "2"),
            (3, "a", "3"),
        ]
        assert all(first.at <= second.at for first, second in pairwise(again.signals))
        assert again.attempts == attempts
        assert again.state == '{"done":1}'
        assert again.seen == 3

    async def test_rows_keep_every_field_to_the_microsecond(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        row = a_row(0, "5.1.2")
        await holder.commit(run, Back(), rows=(row,))
        assert (await holder.take_again(run)).rows == (row,)

    async def test_a_claim_brings_the_ends_of_the_children_that_the_park_named(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        named, other = a_child(run, "1"), a_child(run, "2")
        await holder.commit(run, Park(children=(named.id,)), children=(named, other))
        for child in (await holder.claim()).runs:
            await holder.commit(child, COMPLETED)
        [again] = (await holder.claim()).runs
        assert [(each.run_id, each.status, each.result) for each in again.outcomes] == [(named.id, "completed", "1")]
        assert again.seen == 2

    async def test_a_run_still_under_its_parks_token_is_resumed_without_its_rows(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await _parked_and_woken(world, holder)
        [again] = (await holder.claim(held={run.id: run.token})).runs
        assert again.resumed
        assert again.rows == ()
        assert [mail.channel for mail in again.signals] == ["go"]

    async def test_a_run_is_not_resumed_under_another_token(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await _parked_and_woken(world, holder)
        [again] = (await holder.claim(held={run.id: new_token()})).runs
        assert not again.resumed
        assert len(again.rows) == 1

    async def test_a_run_that_another_worker_had_meanwhile_is_not_resumed(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        run = await _parked_and_woken(world, holder)
        [theirs] = (await other.claim()).runs
        await other.commit(theirs, Park(signals=("go",)), rows=(a_row(1),), consumed=(theirs.signals[0].id,))
        await world.storage.send([a_signal(run.id)])
        [again] = (await holder.claim(held={run.id: run.token})).runs
        assert not again.resumed
        assert len(again.rows) == 2

    async def test_a_run_that_another_worker_lost_meanwhile_is_not_resumed(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        run = await _parked_and_woken(world, holder)
        assert len(await other.ready()) == 1
        await world.storage.release(other.id, ())
        [again] = (await holder.claim(held={run.id: run.token})).runs
        assert not again.resumed

    async def test_a_run_parked_by_one_is_signalled_by_a_second_and_resumed_by_a_third(self, world: World) -> None:
        second = await world.another()
        first, third = await a_holder(world.storage), await a_holder(second)
        run = await first.start(a_run())
        await first.commit(run, FOR_GO, rows=(a_row(0),))
        await second.send([a_signal(run.id, value='"yes"')])
        again = await third.take_again(run)
        assert (again.rows, [mail.value for mail in again.signals]) == ((a_row(0),), ['"yes"'])
        end = {"rows": (a_row(1),), "consumed": (again.signals[0].id,)}
        assert await third.commit(again, COMPLETED, **end) is Verdict.DONE

    async def test_a_claim_tells_the_time_and_when_the_next_run_is_due(self, world: World) -> None:
        holder = await a_holder(world.storage)
        assert (await holder.claim()).next_due is None
        before = await world.storage.now()
        later, sooner = before + timedelta(hours=2), before + timedelta(hours=1)
        run = await holder.start(a_run())
        await holder.commit(run, Park(due_at=sooner))
        await world.storage.start([a_run(due_at=later)])
        claim = await holder.claim()
        assert claim.next_due == sooner
        assert before <= claim.now <= await world.storage.now()

    @pytest.mark.parametrize("size", [1, 900_000])
    async def test_inputs_of_any_size_come_back(self, world: World, size: int) -> None:
        holder = await a_holder(world.storage)
        text = '["' + "x" * size + '"]'
        assert (await holder.start(a_run(input=text))).input == text

    async def test_a_turn_that_goes_on_leaves_nothing_to_claim(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, GOING, rows=(a_row(0),))
        assert await holder.ready() == []
        assert (await look(world.storage, run.id)).status == "running"
        assert (await look(world.storage, run.id)).queue == QUEUE


async def _parked_and_woken(world: World, holder: Holder) -> Claimed:
    run = await holder.start(a_run())
    await holder.commit(run, FOR_GO, rows=(a_row(0),))
    await world.storage.send([a_signal(run.id)])
    return run


async def _all_of(holder: Holder) -> list[str]:
    claimed: list[str] = []
    while batch := (await holder.claim(7)).runs:
        claimed += [run.id for run in batch]
    return claimed
