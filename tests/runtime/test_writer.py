"""The writer, against a storage whose commits a test answers one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from runnerq.errors import SchemaError, StorageError, StorageRefused, StorageUnavailable
from runnerq.persistence.records import Turn, Verdict
from runnerq.runtime.writer import Answer, Writer
from tests.runtime.virtual_time import in_virtual_time, settle


class Flight:
    """A commit that is out."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.runs = [turn.run_id for turn in turns]
        self.sent_at = asyncio.get_running_loop().time()
        self.reply: asyncio.Future[list[Verdict]] = asyncio.get_running_loop().create_future()

    def land(self, **verdicts: Verdict) -> None:
        self.reply.set_result([verdicts.get(run, Verdict.DONE) for run in self.runs])

    def crash(self, error: Exception) -> None:
        self.reply.set_exception(error)


class Airport:
    """The commit side of a storage."""

    def __init__(self) -> None:
        self._flights: asyncio.Queue[Flight] = asyncio.Queue()

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        flight = Flight(turns)
        self._flights.put_nowait(flight)
        return await flight.reply

    async def next(self) -> Flight:
        return await self._flights.get()

    @property
    def waiting(self) -> int:
        return self._flights.qsize()


class Judge:
    """The commit side of a storage that decides by itself: ``judge`` answers for a batch, or raises."""

    def __init__(self, judge: Callable[[list[str]], list[Verdict]]) -> None:
        self._judge = judge
        self.batches: list[list[str]] = []

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        runs = [turn.run_id for turn in turns]
        self.batches.append(runs)
        await asyncio.sleep(0.001)
        return self._judge(runs)


class Told:
    """What the writer told."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.answers: dict[str, Answer] = {}

    def submit(self, *runs: str) -> None:
        for run in runs:
            self._writer.submit(a_turn(run), lambda answer, run=run: self.hear(run, answer))

    def hear(self, run: str, answer: Answer) -> None:
        assert run not in self.answers
        self.answers[run] = answer


def a_turn(run: str) -> Turn:
    return Turn(run_id=run, token=1, seen=0)


def never(error: BaseException) -> None:
    raise AssertionError("the writer failed") from error


@asynccontextmanager
async def flying(writer: Writer) -> AsyncIterator[Told]:
    running = asyncio.create_task(writer.run())
    await settle()
    yield Told(writer)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@in_virtual_time
async def test_an_idle_writer_sends_a_turn_at_once() -> None:
    airport = Airport()
    async with flying(Writer(airport, 100, never)) as told:
        told.submit("a")
        flight = await airport.next()
        assert (flight.runs, flight.sent_at) == (["a"], 0.0)
        flight.land(a=Verdict.LOST)
        await settle()
        assert told.answers == {"a": Verdict.LOST}


@in_virtual_time
async def test_turns_that_come_while_a_flush_is_out_are_sent_together() -> None:
    airport = Airport()
    async with flying(Writer(airport, 100, never)) as told:
        told.submit("a")
        first = await airport.next()
        told.submit("b")
        told.submit("c", "d")
        await settle()
        assert airport.waiting == 0
        first.land()
        assert (await airport.next()).runs == ["b", "c", "d"]


@pytest.mark.parametrize(("slots", "most"), [(1, 50), (200, 100), (5000, 500)])
@in_virtual_time
async def test_a_batch_is_at_most_half_of_the_slots(slots: int, most: int) -> None:
    airport = Airport()
    async with flying(Writer(airport, slots, never)) as told:
        told.submit(*(f"r{n}" for n in range(most + 3)))
        flight = await airport.next()
        assert len(flight.runs) == most
        flight.land()
        assert len((await airport.next()).runs) == 3


@in_virtual_time
async def test_the_next_batch_is_sent_before_the_verdicts_of_the_last_are_told() -> None:
    airport = Airport()
    writer = Writer(airport, 100, never)
    async with flying(writer):
        in_the_air_when_told = []
        writer.submit(a_turn("a"), lambda _: in_the_air_when_told.append(airport.waiting))
        first = await airport.next()
        writer.submit(a_turn("b"), lambda _: None)
        first.land()
        await settle()
        assert in_the_air_when_told == [1]


@in_virtual_time
async def test_what_is_submitted_while_verdicts_are_told_is_written() -> None:
    airport = Airport()
    writer = Writer(airport, 100, never)
    async with flying(writer) as told:
        writer.submit(a_turn("a"), lambda _: told.submit("b"))
        (await airport.next()).land()
        (await airport.next()).land()
        await settle()
        assert told.answers == {"b": Verdict.DONE}


@in_virtual_time
async def test_a_second_flight_takes_off_with_a_full_batch_only() -> None:
    airport = Airport()
    async with flying(Writer(airport, 100, never, flights=2)) as told:
        told.submit("a")
        await airport.next()
        told.submit(*(f"r{n}" for n in range(49)))
        await settle()
        assert airport.waiting == 0
        told.submit("last")
        assert len((await airport.next()).runs) == 50


@in_virtual_time
async def test_a_busy_turn_is_sent_again_and_holds_up_nobody() -> None:
    airport = Airport()
    gave_back: list[str] = []
    writer = Writer(airport, 100, never, busy=lambda turn: gave_back.append(turn.run_id))
    async with flying(writer) as told:
        told.submit("a", "b")
        first = await airport.next()
        first.land(a=Verdict.BUSY)
        await settle()
        assert told.answers == {"b": Verdict.DONE}
        told.submit("c")
        second = await airport.next()
        assert second.runs == ["c"]
        second.land()
        third = await airport.next()
        assert third.runs == ["a"]
        assert 0.0005 < third.sent_at < 0.002
        third.land(a=Verdict.BUSY)
        (await airport.next()).land()
        await settle()
        assert told.answers["a"] is Verdict.DONE
        assert gave_back == ["a"]


@in_virtual_time
async def test_a_turn_that_stays_busy_is_sent_ever_less_often_but_at_least_ten_times_a_second() -> None:
    airport = Airport()
    async with flying(Writer(airport, 100, never)) as told:
        told.submit("a")
        sent = []
        for _ in range(20):
            flight = await airport.next()
            sent.append(flight.sent_at)
            flight.land(a=Verdict.BUSY)
        gaps = [later - earlier for earlier, later in pairwise(sent)]
        assert gaps[0] < 0.002 < gaps[4]
        assert 0.05 < max(gaps) <= 0.12


@in_virtual_time
async def test_turns_of_an_unanswered_commit_are_sent_again_until_there_is_an_answer() -> None:
    airport = Airport()
    async with flying(Writer(airport, 100, never)) as told:
        told.submit("a", "b")
        sent = []
        for _ in range(3):
            flight = await airport.next()
            assert flight.runs == ["a", "b"]
            sent.append(flight.sent_at)
            flight.crash(StorageUnavailable("no answer"))
        flight = await airport.next()
        flight.land()
        await settle()
        assert told.answers == {"a": Verdict.DONE, "b": Verdict.DONE}
        assert 0.03 < sent[1] - sent[0] < sent[2] - sent[1] < 0.2


@in_virtual_time
async def test_the_pause_between_tries_is_never_much_longer_than_five_seconds() -> None:
    airport = Airport()
    async with flying(Writer(airport, 100, never)) as told:
        told.submit("a")
        last = 0.0
        for _ in range(30):
            flight = await airport.next()
            assert flight.sent_at - last <= 6.0
            last = flight.sent_at
            flight.crash(StorageUnavailable("no answer"))
        assert last > 60


@in_virtual_time
async def test_a_turn_that_breaks_every_commit_it_is_in_stops_only_itself() -> None:
    def judge(runs: list[str]) -> list[Verdict]:
        if "poison" in runs:
            raise StorageUnavailable("the connection broke")
        return [Verdict.DONE] * len(runs)

    async with flying(Writer(Judge(judge), 100, never)) as told:
        others = [f"r{n}" for n in range(40)]
        told.submit(*others[:20], "poison", *others[20:])
        while len(told.answers) < 40:
            await asyncio.sleep(0.1)
        assert set(told.answers) == set(others)
        assert asyncio.get_running_loop().time() < 60
        at = asyncio.get_running_loop().time()
        told.submit("later")
        await asyncio.sleep(0.01)
        assert told.answers["later"] is Verdict.DONE
        await asyncio.sleep(60)
        assert "poison" not in told.answers
        assert asyncio.get_running_loop().time() - at < 61


@in_virtual_time
async def test_of_a_refused_batch_only_the_guilty_turn_is_refused() -> None:
    def judge(runs: list[str]) -> list[Verdict]:
        if "bad" in runs:
            raise StorageRefused("invalid")
        return [Verdict.DONE] * len(runs)

    judging = Judge(judge)
    writer = Writer(judging, 100, never)
    async with flying(writer) as told:
        told.submit("a", "bad", "b")
        await writer.drain()
        assert isinstance(told.answers.pop("bad"), StorageRefused)
        assert told.answers == {"a": Verdict.DONE, "b": Verdict.DONE}
        assert judging.batches == [["a", "bad", "b"], ["a"], ["bad"], ["b"]]
        assert writer.stats.refused == 1


@in_virtual_time
async def test_turns_written_one_by_one_survive_an_outage_in_between() -> None:
    airport = Airport()
    writer = Writer(airport, 100, never)
    async with flying(writer) as told:
        told.submit("a", "bad", "b")
        (await airport.next()).crash(StorageRefused("invalid"))
        (await airport.next()).land()
        (await airport.next()).crash(StorageUnavailable("no answer"))
        again = await airport.next()
        assert again.runs == ["bad", "b"]
        again.crash(StorageRefused("invalid"))
        (await airport.next()).crash(StorageRefused("invalid"))
        (await airport.next()).land()
        await writer.drain()
        assert isinstance(told.answers["bad"], StorageRefused)
        assert told.answers["b"] is Verdict.DONE


@in_virtual_time
async def test_a_fault_in_the_backends_code_hits_the_run_that_shows_it_and_not_the_worker() -> None:
    def judge(runs: list[str]) -> list[Verdict]:
        if "bad" in runs:
            raise TypeError("a bug")
        return [Verdict.DONE] * len(runs)

    writer = Writer(Judge(judge), 100, never)
    async with flying(writer) as told:
        told.submit("bad", "a")
        await writer.drain()
        refusal = told.answers["bad"]
        assert isinstance(refusal, StorageRefused)
        assert isinstance(refusal.__cause__, TypeError)
        assert told.answers["a"] is Verdict.DONE


@in_virtual_time
async def test_a_schema_that_has_gone_ends_the_writer() -> None:
    def judge(runs: list[str]) -> list[Verdict]:
        raise SchemaError("no such table")

    writer = Writer(Judge(judge), 100, never)
    writer.submit(a_turn("a"), lambda _: None)
    with pytest.raises(ExceptionGroup) as raised:
        await writer.run()
    assert raised.group_contains(SchemaError)


@in_virtual_time
async def test_draining_waits_for_queued_flying_and_busy_turns() -> None:
    airport = Airport()
    writer = Writer(airport, 100, never)
    async with flying(writer) as told:
        told.submit("a")
        first = await airport.next()
        told.submit("b")
        draining = asyncio.create_task(writer.drain())
        first.land(a=Verdict.BUSY)
        (await airport.next()).land()
        await settle()
        assert not draining.done()
        assert writer.stats.waiting == 1
        (await airport.next()).land()
        await draining
        assert writer.stats.waiting == 0


@in_virtual_time
async def test_draining_an_empty_writer_returns_at_once() -> None:
    await Writer(Airport(), 100, never).drain()


@in_virtual_time
async def test_abandoned_turns_are_told_nothing_and_later_ones_are_written() -> None:
    airport = Airport()
    writer = Writer(airport, 100, never)
    async with flying(writer) as told:
        told.submit("busy")
        (await airport.next()).land(busy=Verdict.BUSY)
        told.submit("out")
        out = await airport.next()
        told.submit("queued")
        writer.abandon()
        await writer.drain()
        told.submit("new")
        out.land()
        after = await airport.next()
        assert after.runs == ["new"]
        after.land()
        await asyncio.sleep(10)
        assert told.answers == {"new": Verdict.DONE}
        assert airport.waiting == 0


@in_virtual_time
async def test_abandoning_while_verdicts_are_told_tells_no_more() -> None:
    airport = Airport()
    writer = Writer(airport, 100, never)
    async with flying(writer) as told:
        writer.submit(a_turn("a"), lambda _: writer.abandon())
        told.submit("b")
        (await airport.next()).land()
        await writer.drain()
        assert told.answers == {}
        assert writer.stats.waiting == 0


@in_virtual_time
async def test_a_callback_that_raises_is_reported_and_the_others_are_told() -> None:
    failures: list[BaseException] = []
    airport = Airport()
    writer = Writer(airport, 100, failures.append)

    def broken(_: Answer) -> None:
        raise ValueError("a bug")

    async with flying(writer) as told:
        writer.submit(a_turn("a"), broken)
        told.submit("b")
        (await airport.next()).land()
        await writer.drain()
        assert told.answers == {"b": Verdict.DONE}
        assert [type(failure) for failure in failures] == [ValueError]


@in_virtual_time
async def test_a_single_turn_that_is_refused_is_not_sent_again() -> None:
    airport = Airport()
    writer = Writer(airport, 100, never)
    async with flying(writer) as told:
        told.submit("bad")
        (await airport.next()).crash(StorageRefused("invalid"))
        await writer.drain()
        assert isinstance(told.answers["bad"], StorageRefused)
        assert airport.waiting == 0


@in_virtual_time
async def test_abandoning_ends_a_batch_that_is_written_one_by_one_and_one_that_is_sent_again() -> None:
    airport = Airport()
    writer = Writer(airport, 100, never)
    async with flying(writer) as told:
        told.submit("bad", "a", "b")
        (await airport.next()).crash(StorageRefused("invalid"))
        one = await airport.next()
        writer.abandon()
        one.land()
        await settle()
        told.submit("c")
        again = await airport.next()
        writer.abandon()
        again.crash(StorageUnavailable("no answer"))
        await asyncio.sleep(10)
        assert airport.waiting == 0
        assert told.answers == {}


@in_virtual_time
async def test_a_backend_that_answers_for_too_few_turns_ends_the_writer() -> None:
    writer = Writer(Judge(lambda runs: []), 100, never)
    writer.submit(a_turn("a"), lambda _: None)
    with pytest.raises(ExceptionGroup) as raised:
        await writer.run()
    assert raised.group_contains(StorageError, match="1 turns were committed and 0 verdicts came back")


@in_virtual_time
async def test_a_busy_callback_that_raises_is_reported_and_the_turn_is_still_written() -> None:
    def broken(_: Turn) -> None:
        raise ValueError("a bug")

    failures: list[BaseException] = []
    airport = Airport()
    writer = Writer(airport, 100, failures.append, busy=broken)
    async with flying(writer) as told:
        told.submit("a")
        (await airport.next()).land(a=Verdict.BUSY)
        (await airport.next()).land()
        await writer.drain()
        assert told.answers == {"a": Verdict.DONE}
        assert [type(failure) for failure in failures] == [ValueError]


@in_virtual_time
async def test_the_counts_say_what_was_done() -> None:
    airport = Airport()
    writer = Writer(airport, 100, never)
    async with flying(writer) as told:
        told.submit("a", "b")
        flight = await airport.next()
        await asyncio.sleep(2)
        assert writer.stats.waiting == 2
        flight.land(b=Verdict.BUSY)
        (await airport.next()).crash(StorageUnavailable("no answer"))
        (await airport.next()).land()
        await writer.drain()
        stats = writer.stats
        assert (stats.flushes, stats.turns, stats.busy, stats.unavailable, stats.waiting) == (3, 2, 1, 1, 0)
        assert stats.seconds == pytest.approx(2)
