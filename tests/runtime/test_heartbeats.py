"""What attempts say of themselves: kept on its own, written with the beat, and there for the next start of the step."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from runnerq.errors import RunFailed, StorageUnavailable
from runnerq.persistence.records import Details, Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.runtime.heartbeats import AT_ONCE, Heartbeats
from runnerq.serialization.codec import Codec
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon

GO: Signal[str] = Signal("go", str)
AT_ONCE_AGAIN = RetryPolicy(max_attempts=3, base=0)


def words(text: str, run_id: str = "r", position: str = "1") -> Details:
    return Details(run_id=run_id, token=1, position=position, text=text)


# --- on their own -----------------------------------------------------------------------------------------------------


def test_the_last_words_of_each_place_are_taken_once() -> None:
    beats = Heartbeats(Codec())
    for number in range(1000):
        beats.say(words(str(number)))
        beats.say(words(str(-number), position="2"))
    assert sorted(each.text for each in beats.take()) == ["-999", "999"]
    assert beats.waiting, "nobody has said yet that they are written"
    beats.written([], ())
    assert not beats.waiting
    assert beats.take() == []


def test_what_is_over_is_not_written_any_more_and_it_is_known_that_something_was_said() -> None:
    beats = Heartbeats(Codec())
    assert not beats.forget("r", "1")
    beats.say(words("1"))
    assert not beats.forget("r", "2")
    assert beats.forget("r", "1")
    assert beats.take() == []
    assert not beats.forget("r", "1")


def test_what_was_lost_on_the_way_does_not_come_again_once_it_is_over() -> None:
    beats = Heartbeats(Codec())
    beats.say(words("1"))
    beats.say(words("1", position="2"))
    taken = beats.take()
    beats.forget("r", "1")
    beats.lost(taken)
    assert [each.position for each in beats.take()] == ["2"]


def test_a_beat_carries_so_much_and_the_rest_goes_with_the_next() -> None:
    beats = Heartbeats(Codec())
    large = "x" * (AT_ONCE // 2)
    for number in range(5):
        beats.say(words(large, position=str(number)))
    carried = []
    while taken := beats.take():
        carried.append(len(taken))
        beats.written(taken, ())
    assert carried == [2, 2, 1]


def test_words_that_are_longer_than_a_beat_carries_go_by_themselves() -> None:
    beats = Heartbeats(Codec())
    beats.say(words("x" * (AT_ONCE + 1)))
    beats.say(words("short", position="2"))
    assert [len(beats.take()), len(beats.take())] == [1, 1]


def test_at_no_moment_is_what_was_said_neither_new_nor_on_its_way() -> None:
    """Whoever waits for the last words of a worker asks without the lock."""
    beats = Heartbeats(Codec())
    seen: list[bool] = []

    class Watched(dict[Any, Any]):
        def __delitem__(self, key: Any) -> None:
            super().__delitem__(key)
            seen.append(beats.waiting)

    beats._new = Watched()
    beats.say(words("1"))
    assert [each.text for each in beats.take()] == ["1"]
    assert seen == [True]


# --- through a worker -------------------------------------------------------------------------------------------------


async def test_the_next_attempt_has_what_the_failed_one_said_last(stage: Stage) -> None:
    seen: list[Any] = []

    @activity(retry=AT_ONCE_AGAIN)
    async def load() -> str:
        now = current()
        seen.append(now.heartbeat_details)
        now.heartbeat({"row": now.attempt})
        if now.attempt == 1:
            now.heartbeat({"row": 10})
        if now.attempt < 3:
            raise ValueError
        return "done"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(load))

    async with stage.serving(order) as client:
        run = await client.start(order)
        assert await run.result(timeout=SOON) == "done"
    assert seen == [None, {"row": 10}, {"row": 2}]
    assert await kept(stage, run.id) == []


async def test_an_attempt_that_says_nothing_leaves_what_was_said_before(stage: Stage) -> None:
    seen: list[Any] = []

    @activity(retry=AT_ONCE_AGAIN)
    def load() -> None:
        now = current()
        seen.append(now.heartbeat_details)
        if now.attempt == 1:
            now.heartbeat("row 10")
        raise ValueError

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.step(load)

    async with stage.serving(order) as client:
        with pytest.raises(RunFailed):
            await (await client.start(order)).result(timeout=SOON)
    assert seen == [None, "row 10", "row 10"]


async def test_a_queued_activity_goes_on_where_its_last_attempt_was(plain_stage: Stage) -> None:
    seen: list[Any] = []

    @activity(retry=AT_ONCE_AGAIN)
    def load() -> str:
        now = current()
        seen.append(now.heartbeat_details)
        now.heartbeat([now.attempt])
        if now.attempt < 3:
            raise ValueError
        return "done"

    async with plain_stage.serving(load) as client:
        run = await client.start(load)
        assert await run.result(timeout=SOON) == "done"
    assert seen == [None, [1], [2]]


async def test_what_was_said_before_a_timeout_is_there_after_it(stage: Stage) -> None:
    seen: list[Any] = []
    said: list[int] = []
    late = threading.Event()

    @activity(retry=RetryPolicy(max_attempts=0, base=0), timeout=0.5)
    def stuck() -> str:
        now = current()
        seen.append(now.heartbeat_details)
        if not said:
            # Where its time is over by now, as on a machine that stood still, this raises: the next attempt says it.
            now.heartbeat("in time")
            said.append(now.attempt)
            late.wait(SOON)
            with pytest.raises(BaseException):  # noqa: B017, PT011 - Cancelled, which is no Exception
                now.heartbeat("too late")
        return "done"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(stuck))

    async with stage.serving(order) as client:
        run = await client.start(order)
        assert await run.result(timeout=SOON) == "done"
        late.set()
    assert (seen[0], seen[-1]) == (None, "in time")


async def test_an_undo_has_what_its_last_attempt_said(stage: Stage) -> None:
    seen: list[Any] = []

    @activity(retry=AT_ONCE_AGAIN)
    async def refund() -> None:
        now = current()
        seen.append(now.heartbeat_details)
        now.heartbeat(now.entry)
        if now.attempt == 1:
            raise ValueError

    async def decline() -> None:
        raise ValueError

    @workflow
    def order(ctx: Context) -> Flow[None]:
        ctx.compensate(refund)
        yield from ctx.options(retry=1).step(decline)

    async with stage.serving(order) as client:
        with pytest.raises(RunFailed):
            await (await client.start(order)).result(timeout=SOON)
    assert seen == [None, "u1"]


async def test_however_often_a_step_speaks_its_last_words_are_written_once_a_beat(plain_stage: Stage) -> None:
    tapped = Tapped(plain_stage.storage)
    stage = plain_stage.on(tapped)
    spoken = Gate()

    @activity
    async def load() -> None:
        for number in range(20_000):
            current().heartbeat({"row": number})
        await spoken.pass_through()

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.step(load)

    async with stage.serving(order, beat=0.05) as client:
        run = await client.start(order)
        await spoken.somebody()
        await soon(lambda: tapped.details and tapped.details[-1].text == '{"row":19999}')
        written = len(tapped.details)
        assert written <= tapped.beats
        commits = tapped.commits
        assert await kept(stage, run.id) == ['{"row":19999}']
        beats = tapped.beats
        await soon(lambda: tapped.beats >= beats + 3)
        # What has not changed is not written again.
        assert (len(tapped.details), tapped.commits) == (written, commits)
        spoken.open()
        await run.result(timeout=SOON)
        assert await kept(stage, run.id) == []


async def test_a_thread_of_a_step_may_speak_for_it(plain_stage: Stage) -> None:
    tapped = Tapped(plain_stage.storage)
    stage = plain_stage.on(tapped)
    release = threading.Event()

    @activity
    async def load() -> None:
        now = current()
        await asyncio.to_thread(now.heartbeat, "from a thread")
        await asyncio.to_thread(lambda: current().heartbeat("from its own context"))
        await asyncio.to_thread(release.wait, SOON)

    async with stage.serving(load, beat=0.05) as client:
        run = await client.start(load)
        await soon(lambda: [each.text for each in tapped.details][-1:] == ['"from its own context"'])
        release.set()
        await run.result(timeout=SOON)


async def test_what_was_said_is_there_in_another_worker_when_the_first_is_gone(plain_stage: Stage) -> None:
    """A worker that is fenced: it hears nothing more, and another one takes its runs."""

    class Mute(Tapped):
        """After its first words have been written, no beat succeeds."""

        def __init__(self, storage: Any) -> None:
            super().__init__(storage)
            self.mute = False
            self.beaten = self._refuse

        def _refuse(self) -> None:
            if self.mute:
                raise StorageUnavailable("no answer")

    mute = Mute(plain_stage.storage)
    first, starts, seen = Gate(), [0], []

    @activity
    async def load() -> str:
        starts[0] += 1
        now = current()
        seen.append((now.attempt, now.heartbeat_details))
        if starts[0] == 1:
            now.heartbeat("half way")
            await first.pass_through()
            await asyncio.sleep(SOON)
        return "done"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(load))

    async with plain_stage.on(mute).worker(order, lease=1, beat=0.05):
        run = await plain_stage.client.start(order)
        await first.somebody()
        await soon(lambda: [each.text for each in mute.details] == ['"half way"'])
        await wait_until(lambda: kept(plain_stage, run.id), ['"half way"'])
        # Said, and never written: it is fenced before its next beat.
        mute.mute = True
        async with plain_stage.serving(order, beat=0.05, reaper_interval=0.05):
            assert await run.result(timeout=SOON) == "done"
    # No attempt is burnt, and the last words that were written are there.
    assert seen == [(1, None), (1, "half way")]
    assert await kept(plain_stage, run.id) == []


async def test_in_good_order_the_last_words_reach_the_next_worker(plain_stage: Stage) -> None:
    starts, seen, first = [0], [], Gate()

    @activity
    async def load() -> str:
        starts[0] += 1
        seen.append(current().heartbeat_details)
        if starts[0] == 1:
            current().heartbeat("a moment before the stop")
            await first.pass_through()
        return "done"

    async with plain_stage.serving(load, beat=60, shutdown_grace=0) as client:
        run = await client.start(load)
        await first.somebody()
    assert await run.status() is Status.PENDING
    async with plain_stage.serving(load):
        assert await run.result(timeout=SOON) == "done"
    assert seen == [None, "a moment before the stop"]


async def test_what_is_said_for_a_run_that_was_lost_is_not_written(plain_stage: Stage) -> None:
    tapped = Tapped(plain_stage.storage)
    stage = plain_stage.on(tapped)
    begun, go_on, over = Gate(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @activity
    def load() -> None:
        loop.call_soon_threadsafe(begun.come.set)
        go_on.wait(SOON)
        try:
            current().heartbeat("for nobody")
        finally:
            over.set()

    async with stage.serving(load, beat=0.05, poll_interval=0.2) as client:
        run = await client.start(load)
        await begun.somebody()
        await client.terminate(run.id)
        await soon(lambda: tapped.loads and tapped.loads[-1].held == 0)
        go_on.set()
        await soon(over.is_set)
        beats = tapped.beats
        await soon(lambda: tapped.beats > beats + 2)
    assert tapped.details == []


async def kept(stage: Stage, run_id: str) -> list[str | None]:
    """The details that are on record of the run's open steps."""
    journal = await stage.storage.journal(run_id)
    assert journal is not None
    return [attempt.details for attempt in journal.attempts]


async def wait_until(look: Any, wanted: Any) -> None:
    async with asyncio.timeout(SOON):
        while await look() != wanted:
            await asyncio.sleep(0.005)


async def test_what_the_loser_of_a_race_says_until_it_is_cancelled_is_kept_nowhere(memory: Stage) -> None:
    @activity
    async def speaks() -> None:
        while True:
            current().heartbeat("still here")
            await asyncio.sleep(0)

    @activity
    async def wins() -> str:
        return "won"

    @workflow
    def order(ctx: Context) -> Flow[int]:
        winner = yield from ctx.race(ctx.step(speaks), ctx.step(wins))
        yield from ctx.signal(GO)
        return winner.index

    tapped = Tapped(memory.storage)

    async def a_while(_: Any) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    tapped.before = a_while
    stage = memory.on(tapped)
    async with stage.worker(order) as worker:
        run = await stage.client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        assert worker._shift is not None
        assert worker._shift.beats._spoken == set()
        await run.send(GO, "on")
        assert await run.result(timeout=SOON) == 1
