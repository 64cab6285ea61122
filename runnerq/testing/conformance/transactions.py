"""Transactions that do a user's work: what they write, whose they are, and what is left of one that came to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runnerq.errors import StorageRefused
from runnerq.ids import new_run_id
from runnerq.persistence.records import GOING, Attempt, Claimed, Turn, Verdict
from runnerq.testing.conformance.world import (
    AT,
    Beating,
    World,
    a_holder,
    a_row,
    a_run,
    a_turn,
    details_of,
    look,
    rows_of,
)


class Doing:
    """Work that does this, and answers with this turn."""

    patience = 60.0
    position = "1"

    def __init__(
        self, turn: Turn, do: Callable[[Any], Awaitable[object]] | None = None, *, is_again: bool = False
    ) -> None:
        self.run_id = turn.run_id
        self.is_again = is_again
        self._turn = turn
        self._do = do
        self.heard: list[str] = []

    async def carry_out(self, connection: Any) -> Turn:
        self.heard.append("carry out")
        if self._do is not None:
            await self._do(connection)
        return self._turn

    def committing(self) -> None:
        self.heard.append("committing")


class TestTransactions:
    async def test_what_it_does_and_its_entry_are_one_commit(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        new = a_run()

        async def start(connection: object) -> None:
            await world.storage.joined(connection).start([new])
            assert await world.storage.run(new.id) is None
            assert await rows_of(world.storage, run.id) == []

        work = Doing(an_entry(run, value='"\\u0000 \\ud800"'), start)
        assert await world.storage.transact(work) is Verdict.DONE
        assert work.heard == ["carry out", "committing"]
        assert await rows_of(world.storage, run.id) == [a_row(0, value='"\\u0000 \\ud800"')]
        assert (await look(world.storage, new.id)).id == new.id
        # The run goes on under its token, at the next place.
        assert await holder.commit(run, GOING, rows=(a_row(1, kind="mark"),)) is Verdict.DONE

    async def test_what_its_work_raises_is_raised_and_nothing_is_written(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        new = a_run()

        async def start(connection: object) -> None:
            await world.storage.joined(connection).start([new])
            raise ValueError("no")

        work = Doing(an_entry(run), start)
        with pytest.raises(ValueError, match="no"):
            await world.storage.transact(work)
        assert work.heard == ["carry out"]
        assert await nothing_of(world, run, new.id)
        # The next one has all that it needs.
        assert await world.storage.transact(Doing(an_entry(run))) is Verdict.DONE

    async def test_one_that_is_cancelled_writes_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        new = a_run()
        started = asyncio.Event()

        async def start(connection: object) -> None:
            await world.storage.joined(connection).start([new])
            started.set()
            await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(world.storage.transact(Doing(an_entry(run), start)))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await nothing_of(world, run, new.id)

    async def test_one_that_is_called_off_right_before_its_commit_writes_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        new = a_run()

        class CalledOff(Doing):
            def committing(self) -> None:
                raise asyncio.CancelledError

        async def start(connection: object) -> None:
            await world.storage.joined(connection).start([new])

        with pytest.raises(asyncio.CancelledError):
            await world.storage.transact(CalledOff(an_entry(run), start))
        assert await nothing_of(world, run, new.id)
        assert await world.storage.transact(Doing(an_entry(run))) is Verdict.DONE

    async def test_a_run_that_was_lost_meanwhile_rolls_all_of_it_back(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        new = a_run()
        taken: list[Claimed] = []

        async def lose(connection: object) -> None:
            await world.storage.joined(connection).start([new])
            await world.storage.release(holder.id, [])
            taken.append(await (await a_holder(world.storage)).take_again(run))

        assert await world.storage.transact(Doing(an_entry(run), lose)) is Verdict.LOST
        assert await nothing_of(world, run, new.id)
        assert await world.storage.transact(Doing(an_entry(taken[0]))) is Verdict.DONE

    async def test_a_run_that_has_ended_or_never_was_rolls_it_back(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.terminate([run.id])
        assert await world.storage.transact(Doing(an_entry(run))) is Verdict.LOST
        unknown = Turn(run_id=new_run_id(), token=run.token, seen=0, rows=(a_row(0),))
        assert await world.storage.transact(Doing(unknown)) is Verdict.LOST
        assert await world.storage.look_up(unknown) is Verdict.LOST

    async def test_a_turn_of_another_generation_rolls_it_back(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.transact(Doing(an_entry(run, generation=2))) is Verdict.LOST
        assert await rows_of(world.storage, run.id) == []

    async def test_looking_up_says_what_became_of_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.look_up(an_entry(run)) is Verdict.AGAIN
        assert await world.storage.transact(Doing(an_entry(run))) is Verdict.DONE
        assert await world.storage.look_up(an_entry(run)) is Verdict.DONE
        await world.storage.release(holder.id, [])
        assert await world.storage.look_up(an_entry(run)) is Verdict.DONE
        assert await world.storage.look_up(a_turn(run, GOING, rows=(a_row(1),))) is Verdict.LOST

    async def test_its_answer_drops_failed_attempts_and_keeps_late_details_out(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        failed = Attempt(position="1", number=1, error="{}", at=AT, next_at=AT, details='"said"')
        await holder.commit(run, GOING, attempts=(failed,))
        assert await world.storage.transact(Doing(an_entry(run, settled=("1",)))) is Verdict.DONE
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, '"late"'))
        await world.storage.release(holder.id, [])
        assert (await holder.take_again(run)).attempts == ()

    async def test_an_answer_ends_the_count_of_crashes(self, world: World) -> None:
        holder = await a_holder(world.storage, lease=1.0)
        run = await holder.start(a_run())
        await world.advance(5)
        other = await a_holder(world.storage)
        await world.storage.reap(other.id, 1, 100)
        again = await other.take_again(run)
        assert again.crashes == 1
        assert await world.storage.transact(Doing(an_entry(again, recovered=True))) is Verdict.DONE
        await world.storage.release(other.id, [])
        assert (await other.take_again(run)).crashes == 0

    async def test_data_that_cannot_be_stored_is_refused(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        with pytest.raises(StorageRefused):
            await world.storage.transact(Doing(an_entry(run, value="no JSON")))
        assert await rows_of(world.storage, run.id) == []


def an_entry(run: Claimed, value: str = "1", **given: Any) -> Turn:
    """The turn of a transaction that is the run's first entry."""
    return a_turn(run, GOING, rows=(a_row(0, value=value),), **given)


async def nothing_of(world: World, run: Claimed, started: str) -> bool:
    """Whether neither its entry nor the run that it started is there."""
    return await rows_of(world.storage, run.id) == [] and await world.storage.run(started) is None
