"""Starts that are more than a start: with signals, of children from outside, and of unrelated runs by a turn."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from runnerq.ids import new_run_id
from runnerq.persistence.records import GOING, End, Ended, Move, OnDuplicate, Park, Sent, Status, Verdict
from runnerq.testing.conformance.world import (
    COMPLETED,
    World,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    a_turn,
    an_activity,
    look,
    swept,
)

NOBODY = "0" * 8 + "-0000-7000-8000-" + "0" * 12
"""What the signals of these starts name: it counts for nothing."""


class TestStartOrSend:
    async def test_a_new_run_has_the_signals_in_its_mailbox(self, world: World) -> None:
        new = a_run(key="k")
        signals = [a_signal(NOBODY, "a", "1"), a_signal(NOBODY, "b", "2")]
        reply, sent = await world.storage.start_or_send(new, signals)
        assert (reply.id, reply.created, sent) == (new.id, True, [Sent.SENT] * 2)
        run = await (await a_holder(world.storage)).take(new)
        assert [(mail.channel, mail.value, mail.number) for mail in run.signals] == [("a", "1", 1), ("b", "2", 2)]
        assert run.seen == 2

    async def test_the_run_that_holds_the_key_gets_them_and_is_woken(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k"))
        await holder.commit(run, Park(signals=("go",)))
        reply, sent = await world.storage.start_or_send(a_run(key="k"), [a_signal(NOBODY)])
        assert (reply.id, reply.created, reply.refused, sent) == (run.id, False, False, [Sent.SENT])
        assert [mail.channel for mail in (await holder.take_again(run)).signals] == ["go"]

    @pytest.mark.parametrize("status", get_args(Ended))
    async def test_one_that_has_ended_takes_none(self, world: World, status: Ended) -> None:
        run_id = await _ended(world, status)
        reply, sent = await world.storage.start_or_send(a_run(key="k"), [a_signal(NOBODY), a_signal(NOBODY)])
        assert (reply.id, reply.created, sent) == (run_id, False, [Sent.FINISHED] * 2)
        assert await world.storage.mailbox(run_id) == []

    async def test_a_refused_start_sends_nothing(self, world: World) -> None:
        first = a_run(key="k")
        await world.storage.start([first])
        reply, sent = await world.storage.start_or_send(a_run(key="k", on_duplicate="no_reuse"), [a_signal(NOBODY)])
        assert (reply.id, reply.refused, sent) == (first.id, True, [])
        assert await world.storage.mailbox(first.id) == []

    @pytest.mark.parametrize("on_duplicate", ["allow_reuse", "allow_reuse_on_failure"])
    async def test_a_run_that_takes_the_key_over_gets_them(self, world: World, on_duplicate: OnDuplicate) -> None:
        before = await _ended(world, "failed")
        new = a_run(key="k", on_duplicate=on_duplicate)
        reply, sent = await world.storage.start_or_send(new, [a_signal(NOBODY)])
        assert (reply.id, reply.created, sent) == (new.id, True, [Sent.SENT])
        assert await world.storage.mailbox(before) == []

    async def test_sent_again_a_signal_with_a_dedup_id_counts_once(self, world: World) -> None:
        new = a_run()
        answers = [await world.storage.start_or_send(new, [a_signal(NOBODY, dedup="d")]) for _ in range(2)]
        assert [(reply.id, reply.created) for reply, _ in answers] == [(new.id, True)] * 2
        assert [sent for _, sent in answers] == [[Sent.SENT], [Sent.DUPLICATE]]
        assert len(await world.storage.mailbox(new.id)) == 1

    async def test_a_delayed_run_keeps_them_for_its_time(self, world: World) -> None:
        new = a_run(due_in=60.0)
        await world.storage.start_or_send(new, [a_signal(NOBODY)])
        assert (await look(world.storage, new.id)).status is Status.SCHEDULED
        await world.advance(61)
        await world.storage.wake_due(10)
        assert len((await (await a_holder(world.storage)).take(new)).signals) == 1

    async def test_without_signals_it_is_a_start(self, world: World) -> None:
        new = a_run()
        reply, sent = await world.storage.start_or_send(new, [])
        assert (reply.id, reply.created, sent) == (new.id, True, [])
        assert await (await a_holder(world.storage)).ready() == [new.id]

    async def test_fifty_callers_at_once_make_one_run_that_gets_all(self, world: World) -> None:
        storages = (world.storage, await world.another())
        signals = [a_signal(NOBODY, value=str(number)) for number in range(50)]
        starts = [(a_run(id=new_run_id(), key="k"), [signal]) for signal in signals]
        answers = await asyncio.gather(
            *(storages[number % 2].start_or_send(*start) for number, start in enumerate(starts))
        )
        run_id = await world.storage.by_key("order", "k")
        assert run_id is not None
        assert [reply.id for reply, _ in answers] == [run_id] * 50
        assert [reply.created for reply, _ in answers].count(True) == 1
        mailbox = await world.storage.mailbox(run_id)
        assert sorted(int(mail.value or "") for mail in mailbox) == list(range(50))
        assert [mail.number for mail in mailbox] == list(range(1, 51))


class TestChildrenFromOutside:
    async def test_a_child_of_an_open_run_belongs_to_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, key="k")
        [reply] = await world.storage.start([child])
        assert (reply.id, reply.created) == (child.id, True)
        claimed = await holder.take(child)
        assert (claimed.parent_id, claimed.root_id, claimed.depth) == (run.id, run.id, 1)
        await holder.commit(claimed, COMPLETED)
        assert (await holder.inbox(run)).seen == 1

    async def test_a_child_of_a_run_that_is_not_open_is_refused_and_claims_no_key(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        child = a_child(run, key="k")
        stranger = a_run("child", parent_id=new_run_id(), root_id=new_run_id())
        other = a_run()
        replies = await world.storage.start([child, stranger, other])
        assert [(reply.id, reply.created, reply.refused) for reply in replies] == [
            (child.id, False, True),
            (stranger.id, False, True),
            (other.id, True, False),
        ]
        assert await world.storage.run(child.id) is None
        assert await world.storage.by_key("child", "k") is None
        assert await holder.ready() == [other.id]

    async def test_one_that_was_started_in_time_answers_so_again(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, options='{"parent_close":"abandon"}')
        await world.storage.start([child])
        await holder.commit(run, COMPLETED)
        [reply] = await world.storage.start([child])
        assert (reply.id, reply.created, reply.refused) == (child.id, True, False)

    async def test_parent_and_child_may_come_in_one_call(self, world: World) -> None:
        new = a_run()
        child = a_run("child", parent_id=new.id, root_id=new.id, depth=1)
        assert [reply.created for reply in await world.storage.start([new, child])] == [True, True]


class TestDetached:
    async def test_a_run_without_a_parent_in_a_turn_is_a_root_of_its_own(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        apart = an_activity(input='["x"]', priority=1, queue="q", key="k", options='{"timeout":1}')
        assert await holder.commit(run, GOING, rows=(a_row(0),), children=(apart,)) is Verdict.DONE
        claimed = await holder.take(apart)
        assert (claimed.parent_id, claimed.root_id, claimed.depth, claimed.key) == (None, apart.id, 0, "k")
        assert (claimed.input, claimed.priority, claimed.options) == ('["x"]', 1, '{"timeout":1}')

    async def test_its_end_tells_nobody(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        apart = an_activity()
        await holder.commit(run, Park(children=None), children=(apart,))
        await holder.commit(await holder.take(apart), COMPLETED)
        record = await look(world.storage, run.id)
        assert record.status is Status.WAITING
        assert (await holder.inbox(run)).seen == 0

    async def test_it_outlives_the_run_that_started_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        apart = an_activity()
        await holder.commit(run, GOING, children=(apart,))
        await world.storage.terminate([run.id])
        assert await swept(world) == 0
        assert await holder.ready() == [apart.id]

    @pytest.mark.parametrize("end", [COMPLETED, End(status="dead_letter", error="{}", reason="attempts")])
    async def test_the_turn_that_ends_a_run_may_start_one(self, world: World, end: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        turn = a_turn(run, end, children=(an_activity(),))
        for _ in range(2):
            assert await world.storage.commit([turn]) == [Verdict.DONE]
        assert await holder.ready() == [turn.children[0].id]
        assert (await look(world.storage, turn.children[0].id)).parent_id is None

    async def test_beside_a_child_each_is_what_it_is(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child, apart = a_child(run), an_activity()
        await holder.commit(run, GOING, children=(apart, child))
        assert [(await look(world.storage, each.id)).parent_id for each in (child, apart)] == [run.id, None]

    async def test_a_key_that_another_run_holds_ends_it_and_its_starter_is_not_told(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await world.storage.start([an_activity(key="k")])
        run = await holder.start(a_run())
        apart = an_activity(key="k")
        assert await holder.commit(run, Park(signals=("go",)), children=(apart,)) is Verdict.DONE
        record = await look(world.storage, apart.id)
        assert (record.status, record.parent_id) == (Status.FAILED, None)
        assert record.error is not None
        assert "KeyTaken" in record.error
        assert (await look(world.storage, run.id)).status is Status.WAITING

    async def test_a_delayed_one_waits_for_its_time(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        apart = an_activity(due_in=60.0)
        await holder.commit(run, COMPLETED, children=(apart,))
        assert await holder.ready() == []
        await world.advance(61)
        await world.storage.wake_due(10)
        assert await holder.ready() == [apart.id]


async def _ended(world: World, status: Ended) -> str:
    """A run with the key that has ended like this."""
    holder = await a_holder(world.storage)
    run = await holder.start(a_run(key="k"))
    await holder.commit(run, End(status=status, result="1" if status == "completed" else None))
    return run.id
