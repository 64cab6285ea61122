"""Generations: a run that goes on with a journal of its own."""

from __future__ import annotations

from runnerq.ids import new_token
from runnerq.persistence.records import GOING, Attempt, Back, Move, Park, Renew, Status, Verdict
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    World,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    a_turn,
    look,
    rows_of,
    swept,
)

FIRST = (a_row(0, "", '"g1"', "started"), a_row(1))
SECOND = a_row(0, "", '"g2"', "started")
RENEW = Renew(started=SECOND)


class TestRenew:
    async def test_the_run_goes_on_under_its_token_in_a_journal_of_its_own(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, GOING, rows=FIRST[:1])
        assert await holder.commit(run, RENEW, rows=FIRST[1:]) is Verdict.DONE
        record = await look(world.storage, run.id)
        assert (record.status, record.generation, record.started) == (Status.RUNNING, 2, '"g2"')
        assert await rows_of(world.storage, run.id) == [SECOND]
        assert await holder.commit(run, GOING, generation=2, rows=(a_row(1, value="2"),)) is Verdict.DONE
        await holder.commit(run, Back(), generation=2)
        again = await holder.take_again(run)
        assert (again.generation, again.rows) == (2, (SECOND, a_row(1, value="2")))

    async def test_older_generations_are_kept(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, RENEW, rows=FIRST)
        third = a_row(0, "", '"g3"', "started")
        await holder.commit(run, Renew(started=third), generation=2)
        await holder.commit(run, COMPLETED, generation=3)
        assert (await look(world.storage, run.id)).generation == 3
        for generation, rows in ((1, FIRST), (2, (SECOND,)), (3, (third,))):
            journal = await world.storage.journal(run.id, generation)
            assert journal is not None
            assert (journal.generation, journal.rows) == (generation, rows)

    async def test_a_renewal_alone_needs_no_rows(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await holder.commit(run, RENEW) is Verdict.DONE
        assert await rows_of(world.storage, run.id) == [SECOND]

    async def test_attempts_go_with_their_generation(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        attempts = tuple(
            Attempt(position=position, number=1, error="{}", at=AT, next_at=None) for position in ("1", "2")
        )
        await holder.commit(run, GOING, attempts=attempts)
        await holder.commit(run, RENEW, settled=("1",), attempts=attempts[:1])
        journal = await world.storage.journal(run.id)
        assert journal is not None
        assert journal.attempts == ()

    async def test_mailbox_key_children_and_state_stay(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k"))
        child = a_child(run)
        await holder.commit(run, GOING, rows=FIRST, children=(child,), published='{"a":1}')
        await world.storage.send([a_signal(run.id, value=value) for value in ("1", "2")])
        box = await holder.inbox(run)
        await holder.commit(run, RENEW, consumed=(box.signals[0].id,))
        assert await world.storage.by_key("order", "k") == run.id
        assert await swept(world) == 0
        assert await world.storage.state(run.id) == '{"a":1}'
        assert [mail.value for mail in (await holder.inbox(run)).signals] == ["2"]
        assert await holder.commit(run, GOING, generation=2, published='{"a":2}') is Verdict.DONE
        assert await world.storage.state(run.id) == '{"a":2}'
        assert await holder.commit(run, Park(children=(child.id,)), generation=2, seen=box.seen) is Verdict.DONE
        await holder.commit(await holder.take(child), COMPLETED)
        assert [each.run_id for each in (await holder.take_again(run)).outcomes] == [child.id]

    async def test_it_is_written_though_something_has_come_meanwhile(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id)])
        assert await holder.commit(run, RENEW) is Verdict.DONE
        assert await holder.commit(run, Park(signals=("go",)), generation=2) is Verdict.AGAIN

    async def test_sent_again_it_is_done_and_changes_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        for _ in range(2):
            assert await holder.commit(run, RENEW, rows=FIRST) is Verdict.DONE
        await holder.commit(run, GOING, generation=2, rows=(a_row(1, value="2"),))
        for move in (RENEW, GOING, Park(signals=("go",)), COMPLETED):
            assert await holder.commit(run, move, rows=FIRST) is Verdict.DONE
        record = await look(world.storage, run.id)
        assert (record.status, record.generation) == (Status.RUNNING, 2)
        assert await rows_of(world.storage, run.id) == [SECOND, a_row(1, value="2")]

    async def test_sent_again_after_the_run_has_gone_elsewhere_it_is_done_too(self, world: World) -> None:
        gone, holder = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await gone.start(a_run())
        await gone.commit(run, RENEW)
        await world.advance(2)
        await world.storage.reap(holder.id, new_token(), 10)
        again = await holder.take_again(run)
        assert (again.generation, again.rows) == (2, (SECOND,))
        assert await gone.commit(run, RENEW) in {Verdict.DONE, Verdict.LOST}
        assert await gone.commit(run, GOING, generation=2, rows=(a_row(1),)) is Verdict.LOST
        assert await holder.commit(again, COMPLETED, generation=2) is Verdict.DONE

    async def test_another_token_renews_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await holder.commit(run, RENEW, token=new_token()) is Verdict.LOST
        assert (await look(world.storage, run.id)).generation == 1

    async def test_a_turn_of_a_generation_that_is_not_there_yet_is_lost(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await holder.commit(run, GOING, generation=2, rows=(a_row(0),)) is Verdict.LOST
        assert await holder.commit(run, COMPLETED, generation=2) is Verdict.LOST
        assert (await look(world.storage, run.id)).status == "running"

    async def test_renewals_of_many_runs_are_one_batch(self, world: World) -> None:
        holder = await a_holder(world.storage)
        runs = [await holder.start(a_run()) for _ in range(4)]
        moves: tuple[Move, ...] = (RENEW, COMPLETED, RENEW, GOING)
        turns = [a_turn(run, move, rows=FIRST) for run, move in zip(runs, moves, strict=True)]
        assert await world.storage.commit(turns) == [Verdict.DONE] * 4
        assert [(await look(world.storage, run.id)).generation for run in runs] == [2, 1, 2, 1]
        assert [await rows_of(world.storage, run.id) for run in runs[2:]] == [[SECOND], list(FIRST)]
