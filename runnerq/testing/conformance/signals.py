"""Signals: kept in a mailbox whatever the run does, counted, and waking only a wait that wants them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from runnerq.ids import new_run_id
from runnerq.persistence.records import GOING, Ask, Park, Sent, Stuck, Verdict
from runnerq.testing.conformance.world import COMPLETED, World, a_holder, a_row, a_run, a_signal, look

CHANNELS = ("approval", "a b:c", "ключ-🔑", "c" * 500, "it's \"\\ %_{},")


class TestSignals:
    async def test_a_signal_may_come_before_the_run_starts(self, world: World) -> None:
        new = a_run()
        await world.storage.start([new])
        assert await world.storage.send([a_signal(new.id, "go", '{"ok":true}')]) == [Sent.SENT]
        run = await (await a_holder(world.storage)).take(new)
        assert [(mail.channel, mail.value, mail.number) for mail in run.signals] == [("go", '{"ok":true}', 1)]
        assert run.seen == 1

    async def test_what_nothing_has_taken_is_read_in_order_also_after_the_end(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.mailbox(run.id) == []
        await world.storage.send([a_signal(run.id, "a", "1"), a_signal(run.id, "b", "2"), a_signal(run.id, "a", "3")])
        box = await holder.inbox(run)
        await holder.commit(run, GOING, seen=box.seen, consumed=(box.signals[0].id,))
        await holder.commit(run, COMPLETED, seen=box.seen)
        left = await world.storage.mailbox(run.id)
        assert [(mail.channel, mail.value) for mail in left] == [("b", "2"), ("a", "3")]
        assert left == list(box.signals[1:])
        assert await world.storage.mailbox(new_run_id()) == []

    async def test_a_signal_comes_with_the_trace_that_it_was_sent_in(self, world: World) -> None:
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        new = a_run()
        await world.storage.start([new])
        traced = [msgspec.structs.replace(a_signal(new.id), trace=trace), a_signal(new.id)]
        await world.storage.send(traced)
        holder = await a_holder(world.storage)
        run = await holder.take(new)
        box = await holder.inbox(run)
        assert [mail.trace for mail in run.signals] == [trace, None]
        assert [mail.trace for mail in box.signals] == [trace, None]

    async def test_a_signal_may_come_while_the_run_is_held(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        before = await world.storage.now()
        await world.storage.send([a_signal(run.id)])
        box = await holder.inbox(run)
        assert (box.seen, box.cancel) == (1, None)
        assert [mail.number for mail in box.signals] == [1]
        assert before <= box.signals[0].at <= box.now <= await world.storage.now()

    async def test_a_signal_wakes_the_wait_that_wants_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("stop", "go")))
        assert await holder.ready() == []
        await world.storage.send([a_signal(run.id, "go")])
        again = await holder.take_again(run)
        assert [mail.channel for mail in again.signals] == ["go"]

    async def test_a_signal_that_nobody_waits_for_wakes_nobody_and_is_kept(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",)))
        await world.storage.send([a_signal(run.id, "else")])
        assert await holder.ready() == []
        assert (await look(world.storage, run.id)).status == "waiting"
        await world.storage.send([a_signal(run.id, "go")])
        again = await holder.take_again(run)
        assert [mail.channel for mail in again.signals] == ["else", "go"]
        assert again.seen == 2

    async def test_a_signal_does_not_wake_what_waits_for_a_child_only(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(children=(new_run_id(),)))
        await world.storage.send([a_signal(run.id)])
        assert await holder.ready() == []

    async def test_a_wanted_signal_wakes_although_children_are_needed(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(children=None, needs=500, signals=("go",)))
        await world.storage.send([a_signal(run.id)])
        assert await holder.ready() == [run.id]

    async def test_a_park_is_too_late_for_any_signal_that_was_not_seen(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id, "else")])
        assert await holder.commit(run, Park(signals=("go",)), rows=(a_row(0),)) is Verdict.AGAIN
        assert await holder.commit(run, Park(signals=("go",)), seen=1) is Verdict.DONE

    async def test_a_wait_may_begin_with_what_it_waits_for_already_read(self, world: World) -> None:
        # Two waits of one channel: the first took the only signal, the second parks.
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id)])
        box = await holder.inbox(run)
        taken = (box.signals[0].id,)
        assert await holder.commit(run, Park(signals=("go",)), seen=1, consumed=taken) is Verdict.DONE
        assert await holder.ready() == []
        assert await world.storage.sweep(100) == 0

    @pytest.mark.parametrize("channel", CHANNELS, ids=("plain", "spaces", "unicode", "long", "quotes"))
    async def test_a_channel_may_have_any_name(self, world: World, channel: str) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("first", channel)))
        await world.storage.send([a_signal(run.id, channel)])
        assert [mail.channel for mail in (await holder.take_again(run)).signals] == [channel]

    async def test_signals_of_one_call_arrive_in_order(self, world: World) -> None:
        holder = await a_holder(world.storage)
        first, second = await holder.start(a_run()), await holder.start(a_run())
        sent = [a_signal((first, second)[number % 2].id, "c", str(number)) for number in range(10)]
        assert await world.storage.send(sent) == [Sent.SENT] * 10
        for run, values in ((first, "02468"), (second, "13579")):
            box = await holder.inbox(run)
            assert [mail.value for mail in box.signals] == list(values)
            assert [mail.number for mail in box.signals] == [1, 2, 3, 4, 5]

    async def test_senders_side_by_side_lose_nothing(self, world: World) -> None:
        storages = (world.storage, await world.another())
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        calls = [storages[number % 2].send([a_signal(run.id, "c", str(number))]) for number in range(60)]
        assert await asyncio.gather(*calls) == [[Sent.SENT]] * 60
        box = await holder.inbox(run)
        assert sorted(int(mail.value or "") for mail in box.signals) == list(range(60))
        assert [mail.number for mail in box.signals] == list(range(1, 61))
        assert box.seen == 60

    async def test_a_blocked_run_keeps_its_signals(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Stuck(message="m", build="b1"))
        assert await world.storage.send([a_signal(run.id)]) == [Sent.SENT]
        assert (await look(world.storage, run.id)).status == "blocked"
        await world.storage.unblock("b2", ["order@1"], 10)
        assert len((await holder.take_again(run)).signals) == 1

    async def test_a_finished_run_refuses_and_an_unknown_one_is_unknown(self, world: World) -> None:
        holder = await a_holder(world.storage)
        ended, held = await holder.start(a_run()), await holder.start(a_run())
        await holder.commit(ended, COMPLETED)
        answers = await world.storage.send([a_signal(ended.id), a_signal(new_run_id()), a_signal(held.id)])
        assert answers == [Sent.FINISHED, Sent.UNKNOWN, Sent.SENT]

    async def test_sending_nothing_answers_nothing(self, world: World) -> None:
        assert await world.storage.send([]) == []

    async def test_mailboxes_are_read_for_many_and_only_open_ones(self, world: World) -> None:
        holder = await a_holder(world.storage)
        ended, held, pending = await holder.start(a_run()), await holder.start(a_run()), a_run()
        await holder.commit(ended, COMPLETED)
        await world.storage.start([pending])
        await world.storage.send([a_signal(held.id)])
        asks = [Ask(run_id=run_id) for run_id in (new_run_id(), held.id, ended.id, pending.id)]
        boxes = await world.storage.inbox(asks)
        assert {box.run_id: box.seen for box in boxes} == {held.id: 1, pending.id: 0}
        assert await world.storage.inbox([]) == []


class TestDedup:
    async def test_one_dedup_id_counts_once(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.send([a_signal(run.id, value="1", dedup="d")]) == [Sent.SENT]
        assert await world.storage.send([a_signal(run.id, value="2", dedup="d")]) == [Sent.DUPLICATE]
        box = await holder.inbox(run)
        assert [mail.value for mail in box.signals] == ["1"]
        assert box.seen == 1

    async def test_it_counts_once_within_a_call(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        twice = [a_signal(run.id, value="1", dedup="d"), a_signal(run.id, value="2", dedup="d")]
        assert await world.storage.send(twice) == [Sent.SENT, Sent.DUPLICATE]
        assert [mail.value for mail in (await holder.inbox(run)).signals] == ["1"]

    async def test_it_counts_once_among_many_at_once(self, world: World) -> None:
        storages = (world.storage, await world.another())
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        calls = [storages[number % 2].send([a_signal(run.id, dedup="d")]) for number in range(20)]
        answers = [answer for [answer] in await asyncio.gather(*calls)]
        assert sorted(answers) == [Sent.DUPLICATE] * 19 + [Sent.SENT]
        assert (await holder.inbox(run)).seen == 1

    async def test_it_counts_for_each_run_and_channel_apart(self, world: World) -> None:
        holder = await a_holder(world.storage)
        first, second = await holder.start(a_run()), await holder.start(a_run())
        sent = [
            a_signal(first.id, "a", dedup="d"),
            a_signal(first.id, "b", dedup="d"),
            a_signal(second.id, "a", dedup="d"),
        ]
        assert await world.storage.send(sent) == [Sent.SENT] * 3

    async def test_signals_without_one_all_count(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.send([a_signal(run.id)] * 3) == [Sent.SENT] * 3

    async def test_it_is_remembered_after_the_signal_was_consumed(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        signal = a_signal(run.id, dedup="d")
        await world.storage.send([signal])
        box = await holder.inbox(run)
        await holder.commit(run, GOING, seen=1, consumed=(box.signals[0].id,))
        assert (await holder.inbox(run)).signals == ()
        assert await world.storage.send([signal]) == [Sent.DUPLICATE]
        assert (await holder.inbox(run)).signals == ()
        assert await holder.commit(run, Park(signals=("go",)), seen=1) is Verdict.DONE
        assert await world.storage.sweep(100) == 0

    async def test_a_send_that_counted_is_recognised_after_the_runs_end(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id, dedup="d")])
        await holder.commit(run, COMPLETED)
        answers = await world.storage.send([a_signal(run.id, dedup="d"), a_signal(run.id, dedup="e")])
        assert answers == [Sent.DUPLICATE, Sent.FINISHED]
