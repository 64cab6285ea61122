"""Starts and sends in a transaction of the caller's: seen by all once that commits, and never if it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from runnerq.errors import UsageError
from runnerq.persistence.protocol import Joined
from runnerq.persistence.records import Claimed, NewRun, Park, Sent, StartReply, Status, Wake
from runnerq.testing.conformance.changes import PATIENCE, Ears
from runnerq.testing.conformance.world import (
    COMPLETED,
    QUEUE,
    Holder,
    World,
    a_child,
    a_holder,
    a_run,
    a_signal,
    look,
)


class RollBack(Exception):
    """Raised in a transaction that is not to be committed."""


class TestJoined:
    async def test_a_run_is_there_for_all_once_the_transaction_has_committed(self, world: World) -> None:
        holder = await a_holder(world.storage)
        new, delayed = a_run(input='["\\u0000"]', metadata='{"by":"me"}', key="k"), a_run(due_in=60.0)
        async with world.transaction() as connection:
            replies = await world.storage.joined(connection).start([new, delayed])
            assert await world.storage.run(new.id) is None
            assert await holder.ready() == []
        assert [(reply.id, reply.created) for reply in replies] == [(new.id, True), (delayed.id, True)]
        run = await holder.take(new)
        assert (run.input, run.metadata, run.key) == (new.input, new.metadata, "k")
        assert (await look(world.storage, delayed.id)).status is Status.SCHEDULED

    async def test_nothing_is_left_of_one_that_is_rolled_back(self, world: World) -> None:
        holder = await a_holder(world.storage)
        parked = await _parked(holder)
        new, other = a_run(key="k"), a_run(key="o")
        with suppress(RollBack):
            async with world.transaction() as connection:
                joined = world.storage.joined(connection)
                assert (await joined.start([new]))[0].created
                assert (await joined.start_or_send(other, [a_signal(other.id)]))[1] == [Sent.SENT]
                assert await joined.send([a_signal(parked.id)]) == [Sent.SENT]
                raise RollBack
        assert [await world.storage.run(run_id) for run_id in (new.id, other.id)] == [None, None]
        assert [await world.storage.by_key("order", key) for key in ("k", "o")] == [None, None]
        assert (await look(world.storage, parked.id)).status is Status.WAITING
        assert (await world.storage.mailbox(parked.id), await holder.ready()) == ([], [])

    async def test_a_signal_wakes_its_run_when_the_transaction_commits(self, world: World) -> None:
        holder = await a_holder(world.storage)
        parked = await _parked(holder)
        async with world.transaction() as connection:
            assert await world.storage.joined(connection).send([a_signal(parked.id, value='"x"')]) == [Sent.SENT]
            assert (await look(world.storage, parked.id)).status is Status.WAITING
            assert await world.storage.mailbox(parked.id) == []
        assert [mail.value for mail in (await holder.take_again(parked)).signals] == ['"x"']

    async def test_its_commit_is_heard_also_by_this_very_storage_and_what_is_rolled_back_is_not(
        self, world: World
    ) -> None:
        async def start(joined: Joined) -> None:
            await joined.start([a_run()])

        for storage in (world.storage, await world.another()):
            ears = Ears(storage)
            with suppress(RollBack):
                async with world.transaction() as connection:
                    await world.storage.joined(connection).start([a_run(queue="never")])
                    raise RollBack
            await _heard(world, ears, start, lambda wake: QUEUE in wake.queues)
            assert not any("never" in wake.queues for wake in ears.wakes)

    async def test_what_is_sent_is_heard_by_whom_it_concerns(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())

        async def send(joined: Joined) -> None:
            await joined.send([a_signal(run.id)])

        async def start_or_send(joined: Joined) -> None:
            await joined.start_or_send(a_run(queue="both"), [a_signal(run.id)])

        await _heard(world, Ears(world.storage), send, lambda wake: holder.id in wake.workers)
        await _heard(world, Ears(world.storage), start_or_send, lambda wake: "both" in wake.queues)

    async def test_a_transaction_sees_what_it_has_written(self, world: World) -> None:
        new = a_run(key="k")
        async with world.transaction() as connection:
            joined = world.storage.joined(connection)
            await joined.start([new])
            [again] = await joined.start([a_run(key="k")])
            assert await joined.send([a_signal(new.id)]) == [Sent.SENT]
            reply, sent = await joined.start_or_send(a_run(key="k"), [a_signal(new.id, value="2")])
        assert (again, reply, sent) == (_found(new), _found(new), [Sent.SENT])
        run = await (await a_holder(world.storage)).take(new)
        assert [(mail.value, mail.number) for mail in run.signals] == [("1", 1), ("2", 2)]

    async def test_answers_are_those_that_a_commit_of_its_own_would_get(self, world: World) -> None:
        holder = await a_holder(world.storage)
        held = await holder.start(a_run(key="held"))
        ended = await holder.start(a_run(key="ended"))
        await holder.commit(ended, COMPLETED)
        async with world.transaction() as connection:
            joined = world.storage.joined(connection)
            news = [
                a_run(key="held"), a_run(key="held", on_duplicate="no_reuse"), a_run(key="new"), a_run(key="new"),
            ]  # fmt: skip
            replies = [(reply.id, reply.created, reply.refused) for reply in await joined.start(news)]
            assert await joined.start([]) == []
            _, to_ended = await joined.start_or_send(a_run(key="ended"), [a_signal(held.id)])
            refused, nothing = await joined.start_or_send(news[1], [a_signal(held.id)])
            signals = [a_signal(run_id, dedup="d") for run_id in (held.id, held.id, ended.id, a_run().id)]
            sent = await joined.send(signals)
        assert replies == [
            (held.id, False, False), (held.id, False, True), (news[2].id, True, False), (news[2].id, False, False),
        ]  # fmt: skip
        assert (to_ended, refused.refused, nothing) == ([Sent.FINISHED], True, [])
        assert sent == [Sent.SENT, Sent.DUPLICATE, Sent.FINISHED, Sent.UNKNOWN]

    async def test_a_child_comes_under_its_parent_if_that_is_open(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        ended = await holder.start(a_run())
        await holder.commit(ended, COMPLETED)
        child, late = a_child(run, key="c"), a_child(ended, key="l")
        async with world.transaction() as connection:
            replies = await world.storage.joined(connection).start([child, late])
        assert [(reply.id, reply.created, reply.refused) for reply in replies] == [
            (child.id, True, False), (late.id, False, True),
        ]  # fmt: skip
        assert (await holder.take(child)).parent_id == run.id

    async def test_what_is_no_connection_is_refused(self, world: World) -> None:
        with pytest.raises(UsageError):
            world.storage.joined(object())


async def _heard(
    world: World, ears: Ears, write: Callable[[Joined], Awaitable[None]], wanted: Callable[[Wake], bool]
) -> None:
    """Write it in transactions until one is heard of: a storage that was just opened may not listen yet."""
    async with asyncio.timeout(PATIENCE):
        while not any(wanted(wake) for wake in ears.wakes):
            async with world.transaction() as connection:
                await write(world.storage.joined(connection))
            with suppress(TimeoutError):
                await ears.until(wanted, within=0.2)
    ears.close()


async def _parked(holder: Holder) -> Claimed:
    """A run that waits for the signal ``go``."""
    run = await holder.start(a_run())
    await holder.commit(run, Park(signals=("go",)))
    return run


def _found(new: NewRun) -> StartReply:
    return StartReply(id=new.id, created=False)
