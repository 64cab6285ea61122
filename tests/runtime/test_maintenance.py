"""The maintenance loops, in virtual time, against a storage that counts their looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from runnerq.errors import ConfigurationError, StorageUnavailable
from runnerq.persistence.records import Definition, Reaped, Relieved, Retained
from runnerq.runtime.maintenance import GOOD_BEATS, Reaper, every
from runnerq.runtime.retention import Retention
from runnerq.runtime.timers import Timers
from runnerq.runtime.upkeep import Look, adopt, purge, relieve, retain, sweep, unblock, wake_due
from tests.runtime.virtual_time import in_virtual_time


class Yard:
    """The upkeep side of a storage. ``work`` is how much there is to do; ``error`` is raised instead."""

    def __init__(self, work: int = 0) -> None:
        self.work = work
        self.marked: int | None = None
        self.error: Exception | None = None
        self.looks: list[float] = []
        self.calls: list[tuple[Any, ...]] = []
        self.crash_loops: list[Reaped] = []
        self.places: list[str] = []

    def _do(self, limit: int, *call: Any) -> int:
        self.looks.append(asyncio.get_running_loop().time())
        self.calls.append((*call, limit))
        if self.error is not None:
            raise self.error
        done = min(limit, self.work)
        self.work -= done
        return done

    async def wake_due(self, limit: int) -> int:
        return self._do(limit)

    async def sweep(self, limit: int) -> int:
        return self._do(limit)

    async def unblock(self, build: str, served: Sequence[str], limit: int) -> int:
        return self._do(limit, build, served)

    async def adopt(self, definitions: Sequence[Definition], limit: int) -> int:
        return self._do(limit, tuple(each.name for each in definitions))

    async def purge(self, limit: int) -> int:
        if self.marked:
            deleted = min(limit, self.marked)
            self.marked -= deleted
            return deleted
        return self._do(limit) if self.marked is None else 0

    async def retain(self, completed: float | None, failed: float | None, limit: int) -> Retained:
        self.marked = self._do(limit, completed, failed) // 10
        return Retained(trees=self.marked, more=self.work > 0)

    async def relieve(self, after: str | None, limit: int) -> Relieved:
        return Relieved(mended=self._do(limit, after), next=self.places.pop(0) if self.places else None)

    async def reap(self, worker_id: int, token: int, limit: int) -> list[Reaped]:
        await asyncio.sleep(0)
        done = self._do(limit, worker_id, token)
        capped = [Reaped(run_id=each.run_id, name="order", crashes=5, token=token) for each in self.crash_loops]
        self.crash_loops = []
        return [Reaped(run_id=f"r{number}", name="order", crashes=1) for number in range(done)] + capped


@asynccontextmanager
async def turning(loop: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    running = asyncio.create_task(loop)
    yield
    running.cancel()
    await asyncio.wait([running])


def _loop() -> Timers:
    return asyncio.get_running_loop()


def looking(look: Look, interval: float = 1.0) -> Coroutine[Any, Any, None]:
    return every(interval, "looking", look, _loop())


def a_reaper(yard: Yard, beats: list[int], ended: list[Reaped], failures: list[BaseException]) -> Reaper:
    async def end(capped: Sequence[Reaped]) -> None:
        ended.extend(capped)

    return Reaper(
        yard,
        worker_id=7,
        good_beats=lambda: beats[0],
        capped=end,
        fail=failures.append,
        timers=_loop(),
        interval=1.0,
        batch=10,
    )


@in_virtual_time
async def test_each_loop_looks_at_its_interval_with_jitter() -> None:
    for make in (
        lambda yard: looking(wake_due(yard)),
        lambda yard: looking(sweep(yard)),
        lambda yard: looking(unblock(yard, "b", ["w@1"])),
        lambda yard: looking(adopt(yard, [])),
        lambda yard: looking(relieve(yard)),
        lambda yard: looking(purge(yard, 100)),
        lambda yard: looking(retain(yard, Retention(completed=9, interval=1))),
        lambda yard: a_reaper(yard, [GOOD_BEATS], [], []).run(),
    ):
        yard = Yard()
        async with turning(make(yard)):
            await asyncio.sleep(30)
        gaps = [later - earlier for earlier, later in pairwise(yard.looks)]
        assert 24 <= len(yard.looks) <= 38
        assert all(0.79 < gap < 1.21 for gap in gaps)
        assert max(gaps) > min(gaps)


@in_virtual_time
async def test_a_full_batch_is_followed_by_another_look_at_once() -> None:
    for make in (
        lambda yard: looking(wake_due(yard, batch=10), 100),
        lambda yard: looking(unblock(yard, "b", ["w@1"], batch=10), 100),
        lambda yard: looking(adopt(yard, [], batch=10), 100),
        lambda yard: looking(retain(yard, Retention(failed=9), batch=10), 100),
        lambda yard: a_reaper(yard, [GOOD_BEATS], [], []).run(),
    ):
        yard = Yard(work=25)
        async with turning(make(yard)):
            await asyncio.sleep(0.5)
        assert len(yard.looks) == 3
        assert yard.work == 0


@in_virtual_time
async def test_the_sweep_is_one_look_an_interval_whatever_it_finds(caplog: pytest.LogCaptureFixture) -> None:
    yard = Yard(work=5000)
    async with turning(looking(sweep(yard), 5)):
        await asyncio.sleep(3)
    assert yard.calls == [(1000,)]
    assert "the sweep mended 1000 runs" in caplog.text


@pytest.mark.parametrize("error", [StorageUnavailable("no answer"), TypeError("a bug")])
@in_virtual_time
async def test_an_error_is_logged_and_the_loop_goes_on(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    yard = Yard(work=1)
    yard.error = error
    async with turning(looking(wake_due(yard))):
        await asyncio.sleep(3)
        assert str(error) in caplog.text
        yard.error = None
        await asyncio.sleep(3)
    assert yard.work == 0


@in_virtual_time
async def test_it_takes_up_blocked_runs_of_what_it_serves_for_its_build() -> None:
    yard = Yard()
    async with turning(looking(unblock(yard, "b2", ["w@1", "a"]), 5)):
        await asyncio.sleep(1)
    assert yard.calls == [("b2", ("w@1", "a"), 100)]


@in_virtual_time
async def test_it_judges_nobody_before_several_good_beats_of_its_own() -> None:
    yard, beats = Yard(work=3), [GOOD_BEATS - 1]
    async with turning(a_reaper(yard, beats, [], []).run()):
        await asyncio.sleep(10)
        assert yard.looks == []
        beats[0] = GOOD_BEATS
        await asyncio.sleep(2)
        assert yard.work == 0
        beats[0] = 0
        looks = len(yard.looks)
        await asyncio.sleep(10)
        assert len(yard.looks) == looks


@in_virtual_time
async def test_every_reaping_has_a_token_of_its_own_that_is_known_while_it_is_out() -> None:
    class Watched(Yard):
        async def reap(self, worker_id: int, token: int, limit: int) -> list[Reaped]:
            assert reaper.under_way == token
            return await super().reap(worker_id, token, limit)

    yard = Watched()
    reaper = a_reaper(yard, [GOOD_BEATS], [], [])
    async with turning(reaper.run()):
        await asyncio.sleep(10)
    tokens = {token for _, token, _ in yard.calls}
    assert len(tokens) == len(yard.calls) > 5
    assert reaper.under_way is None


@in_virtual_time
async def test_runs_that_crash_again_and_again_are_handed_over_while_their_token_is_still_known() -> None:
    known: list[bool] = []
    yard = Yard(work=2)
    yard.crash_loops = [Reaped(run_id="c", name="order", crashes=5)]

    async def end(capped: Sequence[Reaped]) -> None:
        known.extend(run.run_id == "c" and run.token == reaper.under_way for run in capped)

    reaper = Reaper(yard, worker_id=7, good_beats=lambda: GOOD_BEATS, capped=end, fail=lambda _: None, timers=_loop())
    async with turning(reaper.run()):
        await asyncio.sleep(3)
    assert known == [True]
    assert reaper.reaped == 3


@in_virtual_time
async def test_a_reaper_whose_callback_raises_says_so_and_goes_on() -> None:
    yard, failures = Yard(), []
    yard.crash_loops = [Reaped(run_id="c", name="order", crashes=5)]

    async def broken(_: Sequence[Reaped]) -> None:
        raise ValueError("a bug")

    good = GOOD_BEATS
    reaper = Reaper(yard, worker_id=7, good_beats=lambda: good, capped=broken, fail=failures.append, timers=_loop())
    async with turning(reaper.run()):
        await asyncio.sleep(5)
    assert [type(failure) for failure in failures] == [ValueError]
    assert len(yard.looks) > 3


@in_virtual_time
async def test_each_look_for_free_places_goes_on_where_the_last_one_ended() -> None:
    yard = Yard()
    yard.places = ["a", "b"]
    async with turning(looking(relieve(yard, batch=10))):
        await asyncio.sleep(3.9)
    assert [after for after, _ in yard.calls[:4]] == [None, "a", "b", None]


@in_virtual_time
async def test_one_that_has_let_somebody_in_goes_on_at_once() -> None:
    yard = Yard(work=15)
    yard.places = ["a", "b", "c"]
    async with turning(looking(relieve(yard, batch=10), 100)):
        await asyncio.sleep(1)
    assert [after for after, _ in yard.calls] == [None, "a", "b"]


@in_virtual_time
async def test_what_is_marked_is_deleted_until_nothing_is_left() -> None:
    """Not until a batch is short: a batch ends at what somebody holds."""
    yard = Yard(work=25)
    async with turning(looking(purge(yard, 10), 100)):
        await asyncio.sleep(0.5)
    assert len(yard.looks) == 4


@in_virtual_time
async def test_a_retention_goes_once_round_all_runs_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="runnerq")
    yard = Yard(work=2500)
    kept = Retention(completed=60, failed=timedelta(days=1), interval=600)
    async with turning(looking(retain(yard, kept), kept.interval)):
        await asyncio.sleep(1)
        assert yard.calls == [(60.0, 86400.0, 1000)] * 3
        assert yard.marked == 0, "what it marks is deleted before it looks on"
        await asyncio.sleep(400)
        assert len(yard.calls) == 3
        await asyncio.sleep(400)
        assert len(yard.calls) == 4
    assert "100 trees of runs have been kept long enough" in caplog.text


@in_virtual_time
async def test_what_a_worker_registers_is_what_it_adopts_runs_for() -> None:
    yard = Yard()
    definition = Definition(kind="workflow", name="order", version=2, queue="q", build="b")
    async with turning(looking(adopt(yard, [definition]), 5)):
        await asyncio.sleep(1)
    assert yard.calls == [(("order",), 100)]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "keeps everything"),
        ({"completed": -1}, "Retention.completed is -1"),
        ({"failed": float("nan")}, "Retention.failed"),
        ({"completed": 1, "interval": 0}, "Retention.interval is 0: expected more than nothing"),
        ({"completed": 1, "batch": 0}, "Retention.batch is 0"),
        ({"completed": 1, "batch": True}, "Retention.batch is True"),
    ],
)
def test_a_retention_that_makes_no_sense_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Retention(**given)


def test_a_retention_of_nothing_deletes_at_once_what_has_ended() -> None:
    assert Retention(completed=0).completed == 0.0
    assert Retention(failed=timedelta(days=30)).failed == 30 * 86400
    assert Retention(failed=1).completed is None
