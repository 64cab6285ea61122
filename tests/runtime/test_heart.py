"""The heart: its rules in virtual time, on the test's own loop; that it is a thread, with a real one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from runnerq.errors import StorageUnavailable
from runnerq.persistence.records import Arrival, Details, Load, Pulse
from runnerq.runtime.heart import STALLED, HeartThread
from runnerq.runtime.heartbeats import Heartbeats
from runnerq.serialization.codec import Codec
from tests.runtime.virtual_time import in_virtual_time, settle

NOW = datetime(2025, 1, 1, tzinfo=UTC)
ALIVE = Pulse(alive=True, now=NOW)
REAPED = Pulse(alive=False, now=NOW)


class Line:
    """A storage's hearts: each is a connection, and ``beat`` decides what a beat answers."""

    def __init__(self, beat: Callable[[], Awaitable[Pulse]]) -> None:
        self._beat = beat
        self.opened = 0
        self.closed = 0
        self.beats: list[float] = []
        self.loads: list[Load] = []
        self.details: list[list[Details]] = []
        self.threads: set[int] = set()

    def __call__(self) -> Line:
        return self

    async def open(self) -> None:
        self.opened += 1

    async def beat(self, worker_id: int, load: Load, details: Sequence[Details]) -> Pulse:
        assert worker_id == 7
        self.loads.append(load)
        self.details.append(list(details))
        self.beats.append(asyncio.get_running_loop().time())
        self.threads.add(threading.get_ident())
        return await self._beat()

    async def close(self) -> None:
        self.closed += 1


class Chest:
    """A heart on the test's own loop, and what it told."""

    def __init__(self, beat: Callable[[], Awaitable[Pulse]], **options: Any) -> None:
        self.line = Line(beat)
        self.pulses: list[Pulse] = []
        self.fences: list[tuple[str, float]] = []
        self.failures: list[BaseException] = []
        self.loop = asyncio.get_running_loop()
        self.words = Heartbeats(Codec())
        settings: dict[str, Any] = {"interval": 1, "lease": 60, "clock": self.loop.time, "since": 0.0} | options
        self.heart = HeartThread(
            self.line,
            worker_id=7,
            on_pulse=self.pulses.append,
            on_fence=lambda reason: self.fences.append((reason, self.loop.time())),
            fail=self.failures.append,
            load=lambda: Load(held=3, running=2, stuck=1),
            beats=self.words,
            **settings,
        )

    async def beat_for(self, seconds: float) -> None:
        beating = asyncio.create_task(self.heart._beat_on())
        await asyncio.wait([beating], timeout=seconds)
        await settle()
        if beating.done():
            beating.result()
        beating.cancel()
        await asyncio.wait([beating])


async def alive() -> Pulse:
    return ALIVE


async def away() -> Pulse:
    raise StorageUnavailable("no answer")


async def silent() -> Pulse:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


@in_virtual_time
async def test_it_beats_every_interval_on_one_connection_and_tells_each_reply() -> None:
    chest = Chest(alive)
    await chest.beat_for(9.5)
    assert chest.line.beats == pytest.approx(range(10))
    assert chest.pulses == [ALIVE] * 10
    assert (chest.line.opened, chest.line.closed) == (1, 1)
    assert chest.fences == []


@in_virtual_time
async def test_a_reply_names_the_runs_that_have_mail() -> None:
    mail = Pulse(alive=True, now=NOW, arrivals=(Arrival(run_id="r", inbox=3, cancel=None),))

    async def with_mail() -> Pulse:
        return mail

    chest = Chest(with_mail)
    await chest.beat_for(0.5)
    assert chest.pulses == [mail]


@in_virtual_time
async def test_a_worker_that_was_reaped_is_fenced_at_once_and_beats_no_more() -> None:
    async def reaped() -> Pulse:
        return REAPED if len(chest.line.beats) > 3 else ALIVE

    chest = Chest(reaped)
    await chest.beat_for(100)
    assert chest.fences == [("reaped", pytest.approx(3))]
    assert len(chest.line.beats) == 4
    assert chest.line.closed == 1
    assert chest.heart.good_beats == 0


@in_virtual_time
async def test_a_worker_that_cannot_beat_fences_itself_before_its_lease_runs_out() -> None:
    chest = Chest(away)
    await chest.beat_for(200)
    [(_, at)] = chest.fences
    assert 54 <= at <= 56
    last = chest.line.beats[-1]
    assert last <= at


@in_virtual_time
async def test_a_silent_connection_is_given_up_in_time_for_another() -> None:
    async def silent_once() -> Pulse:
        return await (silent() if len(chest.line.beats) == 2 else alive())

    chest = Chest(silent_once)
    await chest.beat_for(30)
    assert chest.fences == []
    assert chest.line.opened == 2
    assert chest.line.beats[2] - chest.line.beats[1] <= 10.5


@in_virtual_time
async def test_a_worker_whose_connections_stay_silent_fences_itself_in_time() -> None:
    chest = Chest(silent)
    await chest.beat_for(200)
    [(_, at)] = chest.fences
    assert 54 <= at <= 56


@in_virtual_time
async def test_the_lease_is_counted_from_when_the_last_good_beat_was_sent() -> None:
    async def slow_then_away() -> Pulse:
        if len(chest.line.beats) == 1:
            await asyncio.sleep(8)
            return ALIVE
        return await away()

    chest = Chest(slow_then_away)
    await chest.beat_for(200)
    [(_, at)] = chest.fences
    assert 54 <= at <= 56


@in_virtual_time
async def test_after_an_error_it_asks_the_same_heart_again() -> None:
    async def away_for_a_while() -> Pulse:
        return await (away() if 3 <= chest.loop.time() < 20 else alive())

    chest = Chest(away_for_a_while)
    await chest.beat_for(30)
    assert chest.fences == []
    assert len(chest.pulses) > 10
    # Whether its connection can still be used, the storage knows.
    assert chest.line.opened == chest.line.closed == 1


@in_virtual_time
async def test_it_is_sure_of_its_runs_only_while_nobody_can_have_taken_it_for_gone() -> None:
    async def away_from_three_on() -> Pulse:
        return await (away() if 3 <= chest.loop.time() < 9 else alive())

    chest = Chest(away_from_three_on)
    beating = asyncio.create_task(chest.heart._beat_on())
    sure = []
    for half in range(22):
        await asyncio.sleep(half / 2 - chest.loop.time())
        sure.append(chest.heart.surely_holds())
    assert chest.heart.holds(), "its lease is far from its end"
    # The last good beat was sent at 2 s; from 5 s on the others may take it for gone, until it has beaten again.
    assert sure == [at / 2 < 4.5 or at / 2 >= 9.5 for at in range(22)]
    beating.cancel()
    await asyncio.wait([beating])


@in_virtual_time
async def test_a_beat_that_failed_is_tried_again_soon_and_then_less_and_less_soon() -> None:
    async def away_from_three_on() -> Pulse:
        return await (away() if chest.loop.time() >= 3 else alive())

    chest = Chest(away_from_three_on)
    await chest.beat_for(8)
    tries = [round(at - 3, 1) for at in chest.line.beats if at >= 3]
    assert tries == [0.0, 0.1, 0.3, 0.7, 1.5, 2.5, 3.5, 4.5]


@in_virtual_time
async def test_good_beats_are_counted_anew_after_a_failure_and_after_a_gap() -> None:
    counts: list[int] = []

    async def fails_once() -> Pulse:
        counts.append(chest.heart.good_beats)
        if len(counts) == 4:
            raise StorageUnavailable("no answer")
        if len(counts) == 7:
            await asyncio.sleep(9)
        return ALIVE

    chest = Chest(fails_once, lease=20)
    await chest.beat_for(20)
    assert counts[:9] == [0, 1, 2, 3, 0, 1, 2, 0, 1]


@in_virtual_time
async def test_a_process_that_stood_still_past_its_lease_fences_itself_without_another_beat() -> None:
    jump = 0.0
    time = asyncio.get_running_loop().time
    chest = Chest(alive, clock=lambda: time() + jump)
    beating = asyncio.create_task(chest.heart._beat_on())
    await asyncio.sleep(2.5)
    jump = 100.0
    await asyncio.wait([beating])
    await settle()
    assert len(chest.fences) == 1
    assert len(chest.line.beats) == 3


@in_virtual_time
async def test_it_does_not_beat_for_an_event_loop_that_does_not_turn() -> None:
    chest = Chest(alive, lease=60)
    chest.heart._turned = lambda: None  # type: ignore[method-assign]  # a loop that never comes to it
    await chest.beat_for(STALLED + 200)
    assert STALLED - 1.5 <= chest.line.beats[-1] <= STALLED
    [(_, at)] = chest.fences
    assert STALLED + 53 <= at <= STALLED + 57


@in_virtual_time
async def test_a_callback_that_raises_is_reported_and_the_heart_beats_on() -> None:
    chest = Chest(alive)

    def broken(_: Pulse) -> None:
        raise ValueError("a bug")

    chest.heart._on_pulse = broken
    await chest.beat_for(1.5)
    assert [type(failure) for failure in chest.failures] == [ValueError, ValueError]


@in_virtual_time
async def test_a_heart_that_was_never_started_stops_at_once() -> None:
    await Chest(alive).heart.stop()


async def test_it_beats_from_a_thread_of_its_own_even_while_the_event_loop_is_blocked() -> None:
    beaten_while_blocked = threading.Event()
    blocked = threading.Event()

    async def beat() -> Pulse:
        if blocked.is_set():
            beaten_while_blocked.set()
        return ALIVE

    chest = Chest(beat, interval=0.001, since=None)
    chest.heart.start()
    blocked.set()
    assert beaten_while_blocked.wait(30)
    await chest.heart.stop()
    assert threading.get_ident() not in chest.line.threads
    assert chest.line.closed == 1
    beats = len(chest.line.beats)
    await settle()
    assert len(chest.line.beats) == beats


async def test_replies_come_on_the_workers_event_loop() -> None:
    heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def hear(_: Pulse) -> None:
        if not heard.done():
            heard.set_result(threading.get_ident())

    chest = Chest(alive, interval=0.001, since=None)
    chest.heart._on_pulse = hear
    chest.heart.start()
    assert await heard == threading.get_ident()
    await chest.heart.stop()


async def test_stopping_cuts_off_a_beat_that_is_out() -> None:
    out = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def beat() -> Pulse:
        loop.call_soon_threadsafe(out.set)
        return await silent()

    chest = Chest(beat, since=None)
    chest.heart.start()
    await out.wait()
    await chest.heart.stop()
    assert chest.line.closed == 1
    assert chest.fences == []


async def test_a_heart_whose_thread_fails_fences_the_worker() -> None:
    mine = threading.get_ident()
    fenced: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def clock() -> float:
        if threading.get_ident() != mine:
            raise OverflowError("a bug")
        return 0.0

    chest = Chest(alive, clock=clock, since=None)
    chest.heart._on_fence = fenced.set_result
    chest.heart.start()
    assert "a bug" in await fenced
    await chest.heart.stop()


async def test_stopping_does_not_wait_for_ever_for_a_connection_that_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("runnerq.runtime.heart.STOPPING", 0.01)
    loop = asyncio.get_running_loop()
    out, let_go = asyncio.Event(), threading.Event()

    async def hangs() -> Pulse:
        loop.call_soon_threadsafe(out.set)
        let_go.wait(30)
        return ALIVE

    chest = Chest(hangs, since=None)
    chest.heart.start()
    await out.wait()
    await chest.heart.stop()
    assert "does not stop" in caplog.text
    let_go.set()
    await chest.heart._over.wait()


async def test_what_a_heart_tells_after_it_was_stopped_is_not_heard() -> None:
    chest = Chest(alive, since=None)
    await chest.heart.stop()
    chest.heart._pulse(ALIVE)
    chest.heart._fence("reaped")
    assert (chest.pulses, chest.fences) == ([], [])


# --- what it carries --------------------------------------------------------------------------------------------------


def words(text: str, run_id: str = "r") -> Details:
    return Details(run_id=run_id, token=1, position="4", text=text)


@in_virtual_time
async def test_a_beat_carries_what_the_worker_has_in_hand() -> None:
    chest = Chest(alive)
    await chest.beat_for(0.5)
    assert chest.line.loads == [Load(held=3, running=2, stuck=1)]


@in_virtual_time
async def test_what_was_said_since_the_last_beat_goes_with_the_next_one_and_once() -> None:
    chest = Chest(alive)
    chest.words.say(words("1"))
    chest.words.say(words("2"))
    await chest.beat_for(2.5)
    assert chest.line.details == [[words("2")], [], []]


@in_virtual_time
async def test_what_a_beat_that_failed_carried_comes_with_the_next_one_unless_more_was_said() -> None:
    chest = Chest(away)
    chest.words.say(words("1"))
    chest.words.say(words("a", "s"))
    await chest.beat_for(0.5)
    chest.words.say(words("2"))
    assert chest.words.waiting
    chest.line._beat = alive
    await chest.beat_for(0.5)
    assert sorted(each.text for each in chest.line.details[-1]) == ["2", "a"]
    assert not chest.words.waiting


@in_virtual_time
async def test_what_somebody_held_up_comes_with_the_next_beat() -> None:
    replies = [Pulse(alive=True, now=NOW, held_back=("r",)), ALIVE]

    async def busy() -> Pulse:
        return replies.pop(0)

    chest = Chest(busy)
    chest.words.say(words("1"))
    chest.words.say(words("a", "s"))
    await chest.beat_for(1.5)
    assert [[each.text for each in beat] for beat in chest.line.details] == [["1", "a"], ["1"]]


async def test_in_good_order_the_last_words_are_written_before_it_stops() -> None:
    chest = Chest(alive, interval=600, since=None)
    chest.heart.start()
    async with asyncio.timeout(20):
        while not chest.pulses:
            await asyncio.sleep(0.001)
        chest.words.say(words("1"))
        await chest.heart.last_words()
    assert chest.line.details[-1] == [words("1")]
    await chest.heart.stop()


@in_virtual_time
async def test_last_words_that_cannot_be_written_are_not_waited_for_for_long() -> None:
    chest = Chest(away)
    chest.heart._began = True
    chest.words.say(words("1"))
    began = chest.loop.time()
    await chest.heart.last_words()
    assert chest.loop.time() - began == pytest.approx(2.0)


@in_virtual_time
async def test_the_lease_holds_until_a_margin_before_its_end_and_anew_with_each_good_beat() -> None:
    chest = Chest(alive, lease=60)
    assert chest.heart.holds()
    await asyncio.sleep(54.9)
    assert chest.heart.holds()
    await asyncio.sleep(0.2)
    assert not chest.heart.holds()
    other = Chest(alive, lease=60, since=None)
    await other.beat_for(30.5)
    await asyncio.sleep(54)
    assert other.heart.holds()


@in_virtual_time
async def test_nothing_holds_any_more_from_the_moment_that_it_learns_of_its_end() -> None:
    """What lies before the fence in a busy event loop must begin nothing."""

    async def reaped() -> Pulse:
        return REAPED

    chest = Chest(reaped, lease=60)
    await chest.heart._beat(0.0)
    assert chest.fences == []
    assert not chest.heart.holds()
    await settle()
    assert [reason for reason, _ in chest.fences] == ["reaped"]
