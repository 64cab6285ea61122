"""The claimer, against a storage whose claims a test answers one by one, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from runnerq.errors import SchemaError, StorageUnavailable
from runnerq.persistence.records import Claim, Claimed, ClaimRequest, Wake
from runnerq.runtime.claimer import DUE_BATCH, LARGEST_CLAIM, PATIENCE, Claimer
from runnerq.runtime.reading import SLACK
from tests.runtime.virtual_time import in_virtual_time, settle

NOW = datetime(2025, 1, 1, tzinfo=UTC)


class Out:
    """A claim that is out."""

    def __init__(self, request: ClaimRequest) -> None:
        self.limit = request.limit
        self.token = request.token
        self.sent_at = asyncio.get_running_loop().time()
        self.reply: asyncio.Future[Claim] = asyncio.get_running_loop().create_future()

    def answer(self, runs: int = 0, next_due_in: float | None = None, *, more: bool = False) -> None:
        due = None if next_due_in is None else NOW + timedelta(seconds=next_due_in)
        taken = tuple(a_run(self.token) for _ in range(runs))
        self.reply.set_result(Claim(runs=taken, now=NOW, next_due=due, more=more))

    def crash(self, error: Exception) -> None:
        self.reply.set_exception(error)


class Counter:
    """The claiming side of a storage."""

    def __init__(self) -> None:
        self._claims: asyncio.Queue[Out] = asyncio.Queue()
        self._hear: Callable[[Wake], None] | None = None
        self.releases: list[tuple[float, list[int]]] = []
        self.release_error: Exception | None = None
        self.due_looks: list[float] = []
        self.due = 0
        self.claimed: Callable[[], object] = lambda: None

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        self._hear = hear

        def unsubscribe() -> None:
            self._hear = None

        return unsubscribe

    def wake(self, *queues: str) -> None:
        assert self._hear is not None
        self._hear(Wake(queues=frozenset(queues)))

    async def claim(self, request: ClaimRequest) -> Claim:
        self.claimed()
        out = Out(request)
        self._claims.put_nowait(out)
        return await out.reply

    async def release(self, worker_id: int, held: Sequence[int]) -> int:
        assert worker_id == 7
        self.releases.append((asyncio.get_running_loop().time(), list(held)))
        if self.release_error is not None:
            raise self.release_error
        return 0

    async def wake_due(self, limit: int) -> int:
        self.due_looks.append(asyncio.get_running_loop().time())
        woken = min(limit, self.due)
        self.due -= woken
        return woken

    async def next(self) -> Out:
        return await self._claims.get()

    @property
    def waiting(self) -> int:
        return self._claims.qsize()


class Shop:
    """A claimer with slots, and what it took."""

    def __init__(self, slots: int, poll_interval: float) -> None:
        self.counter = Counter()
        self.free = slots
        self.held: list[int] = []
        self.taken: list[int] = []
        self.begun: list[int] = []
        self.failures: list[BaseException] = []
        self.claimer = Claimer(
            self.counter,
            worker_id=7,
            slots=slots,
            queues=["default", "mail"],
            request=lambda limit, token: ClaimRequest(worker_id=7, token=token, pairs=(), limit=limit),
            free=lambda: self.free,
            held=lambda: self.held,
            take=self._take,
            fail=self.failures.append,
            timers=asyncio.get_running_loop(),
            poll_interval=poll_interval,
        )

    def _take(self, claim: Claim) -> Callable[[], None]:
        self.free -= len(claim.runs)
        tokens = [run.token for run in claim.runs]
        self.taken.extend(tokens)
        return lambda: self.begun.extend(tokens)

    def end(self, runs: int) -> None:
        for _ in range(runs):
            self.free += 1
            self.claimer.freed()

    async def rest(self) -> None:
        """Answer claims with nothing until the next one is a poll away."""
        while (out := await self.counter.next()).sent_at < 12:
            out.answer()
        out.answer()
        await settle()


def a_run(token: int) -> Claimed:
    return Claimed(
        id="r",
        token=token,
        kind="activity",
        name="a",
        version=1,
        queue="default",
        priority=2,
        input="{}",
        created_at=NOW,
        root_id="r",
    )


@asynccontextmanager
async def a_shop(slots: int = 10, poll_interval: float = 5.0) -> AsyncIterator[Shop]:
    shop = Shop(slots, poll_interval)
    running = asyncio.create_task(shop.claimer.run())
    yield shop
    running.cancel()
    await asyncio.wait([running])


def now() -> float:
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_it_claims_at_once_for_all_its_free_slots() -> None:
    async with a_shop(slots=10) as shop:
        out = await shop.counter.next()
        assert (out.limit, out.sent_at) == (10, 0.0)
        out.answer(runs=3)
        await settle()
        assert shop.taken == [out.token] * 3


@in_virtual_time
async def test_every_claim_has_a_token_of_its_own() -> None:
    async with a_shop() as shop:
        tokens = set()
        for _ in range(5):
            out = await shop.counter.next()
            assert 0 < out.token < 2**63
            tokens.add(out.token)
            out.answer()
        assert len(tokens) == 5


@in_virtual_time
async def test_no_claim_is_larger_than_its_limit() -> None:
    async with a_shop(slots=2000) as shop:
        assert (await shop.counter.next()).limit == LARGEST_CLAIM


@in_virtual_time
async def test_a_claim_that_was_full_is_followed_by_another_as_soon_as_slots_are_free() -> None:
    async with a_shop(slots=2) as shop:
        (await shop.counter.next()).answer(runs=2)
        await asyncio.sleep(0.5)
        assert shop.counter.waiting == 0
        shop.end(1)
        out = await shop.counter.next()
        assert (out.limit, out.sent_at) == (1, 0.5)


@in_virtual_time
async def test_with_many_slots_it_waits_until_a_quarter_is_free() -> None:
    async with a_shop(slots=40) as shop:
        (await shop.counter.next()).answer(runs=40)
        await settle()
        shop.end(9)
        await settle()
        assert shop.counter.waiting == 0
        shop.end(1)
        assert (await shop.counter.next()).limit == 10
        assert now() == 0.0


@in_virtual_time
async def test_but_it_does_not_wait_for_long_runs_to_end() -> None:
    async with a_shop(slots=40) as shop:
        (await shop.counter.next()).answer(runs=40)
        await settle()
        shop.end(1)
        out = await shop.counter.next()
        assert out.limit == 1
        assert out.sent_at == pytest.approx(0.01)


@in_virtual_time
async def test_a_wake_that_names_one_of_its_queues_makes_it_claim_at_once() -> None:
    async with a_shop() as shop:
        await shop.rest()
        at = now()
        shop.counter.wake("other")
        await settle()
        assert shop.counter.waiting == 0
        shop.counter.wake("other", "mail")
        assert (await shop.counter.next()).sent_at == at


@in_virtual_time
async def test_a_wake_while_a_claim_is_out_leads_to_another_claim() -> None:
    async with a_shop() as shop:
        first = await shop.counter.next()
        shop.counter.wake("default")
        await settle()
        assert shop.counter.waiting == 0
        first.answer()
        assert (await shop.counter.next()).sent_at == 0.0


@in_virtual_time
async def test_told_to_look_while_a_claim_is_out_it_claims_again_at_once() -> None:
    async with a_shop() as shop:
        first = await shop.counter.next()
        shop.claimer.look()
        await settle()
        assert shop.counter.waiting == 0
        first.answer()
        assert (await shop.counter.next()).sent_at == 0.0


@in_virtual_time
async def test_told_to_look_it_does_so_however_few_slots_are_free() -> None:
    async with a_shop(slots=40) as shop:
        shop.free = 3
        await shop.rest()
        at = now()
        shop.claimer.look()
        assert (await shop.counter.next()).sent_at == pytest.approx(at + PATIENCE)


@in_virtual_time
async def test_without_news_it_polls_ever_less_often_up_to_the_poll_interval() -> None:
    async with a_shop(poll_interval=5) as shop:
        sent = []
        for _ in range(14):
            out = await shop.counter.next()
            sent.append(out.sent_at)
            out.answer()
        gaps = [later - earlier for earlier, later in pairwise(sent)]
        assert gaps[0] < 0.1
        assert all(4 <= gap <= 6.001 for gap in gaps[-3:])
        assert len(set(gaps[-3:])) == 3


@in_virtual_time
async def test_it_looks_again_soon_after_a_claim_that_found_less_than_it_had_room_for() -> None:
    async with a_shop() as shop:
        (await shop.counter.next()).answer(runs=1)
        assert (await shop.counter.next()).sent_at < 0.05


@in_virtual_time
async def test_at_the_next_due_time_it_wakes_what_is_due_and_claims() -> None:
    async with a_shop() as shop:
        await shop.rest()
        shop.counter.wake("default")
        out = await shop.counter.next()
        at = now()
        shop.counter.due = 1
        out.answer(next_due_in=0.1)
        while not shop.counter.due_looks:
            (out := await shop.counter.next()).answer(next_due_in=0.1 - (now() - at))
        # A claim by chance within the last millisecond names it once more, as due now.
        assert shop.counter.due_looks == [pytest.approx(at + 0.101, abs=1.001 * SLACK)]
        assert out.sent_at == shop.counter.due_looks[0]


@in_virtual_time
async def test_a_due_time_that_it_is_told_of_is_kept_even_if_a_claims_reply_does_not_name_it() -> None:
    async with a_shop() as shop:
        out = await shop.counter.next()
        shop.claimer.expect(3)
        shop.counter.due = 1
        out.answer()
        while not shop.counter.due_looks:
            (await shop.counter.next()).answer(next_due_in=3 - now())
        assert shop.counter.due_looks == [pytest.approx(3.001, abs=1.001 * SLACK)]


@in_virtual_time
async def test_it_wakes_batch_after_batch_of_what_is_due() -> None:
    async with a_shop() as shop:
        shop.counter.due = 2 * DUE_BATCH + 1
        (await shop.counter.next()).answer(next_due_in=0)
        while shop.counter.due:
            (await shop.counter.next()).answer(next_due_in=0)
        assert len(shop.counter.due_looks) == 3
        assert now() < 0.01


@in_virtual_time
async def test_what_is_due_but_held_by_somebody_is_not_looked_at_in_a_tight_loop() -> None:
    async with a_shop() as shop:
        while now() < 60:
            (await shop.counter.next()).answer(next_due_in=-1)
        assert 10 < len(shop.counter.due_looks) < 40


@in_virtual_time
async def test_a_time_at_which_others_were_faster_puts_off_none_that_comes_later() -> None:
    """As where a rate lets a run in each tenth of a second, and another worker takes it."""
    async with a_shop(poll_interval=60) as shop:
        while now() < 10:
            (await shop.counter.next()).answer(next_due_in=0.1)
        gaps = [later - earlier for earlier, later in pairwise(shop.counter.due_looks)]
        assert max(gaps) < 0.5


@in_virtual_time
async def test_where_something_was_left_because_others_were_at_it_it_looks_again_soon() -> None:
    async with a_shop(poll_interval=60) as shop:
        (await shop.counter.next()).answer(runs=1, more=True)
        out = await shop.counter.next()
        assert out.sent_at == 0.0
        for _ in range(20):
            out.answer(more=True)
            at, out = out.sent_at, await shop.counter.next()
            assert 0 < out.sent_at - at < 0.05


@in_virtual_time
async def test_it_is_not_dry_while_something_was_left_because_others_were_at_it() -> None:
    async with a_shop() as shop:
        (await shop.counter.next()).answer()
        dry = asyncio.create_task(shop.claimer.dry())
        (await shop.counter.next()).answer(more=True)
        last = await shop.counter.next()
        assert not dry.done()
        last.answer()
        await dry


@in_virtual_time
async def test_about_once_a_second_it_gives_back_what_it_does_not_hold() -> None:
    async with a_shop() as shop:
        shop.held = [1, 2]
        await shop.rest()
        times = [at for at, _ in shop.counter.releases]
        assert 8 <= len(times) <= 20
        assert all(held == [1, 2] for _, held in shop.counter.releases)


@in_virtual_time
async def test_nothing_is_given_back_while_a_claim_is_out() -> None:
    async with a_shop() as shop:
        out = await shop.counter.next()
        await asyncio.sleep(30)
        assert shop.counter.releases == []
        out.answer()
        await settle()
        assert len(shop.counter.releases) == 1


@in_virtual_time
async def test_a_full_worker_still_gives_back_what_it_does_not_hold() -> None:
    async with a_shop(slots=1) as shop:
        (await shop.counter.next()).answer(runs=1)
        await asyncio.sleep(10)
        assert len(shop.counter.releases) >= 8
        assert shop.counter.waiting == 0


@in_virtual_time
async def test_a_claim_without_an_answer_is_made_again_under_another_token() -> None:
    async with a_shop() as shop:
        sent: list[float] = []
        tokens = set()
        for _ in range(4):
            out = await shop.counter.next()
            sent.append(out.sent_at)
            tokens.add(out.token)
            out.crash(StorageUnavailable("no answer"))
        assert len(tokens) == 4
        assert 0.03 < sent[1] - sent[0] < sent[2] - sent[1] < sent[3] - sent[2]


@in_virtual_time
async def test_claims_without_an_answer_become_small_and_grow_again_with_those_that_have_one() -> None:
    async with a_shop(slots=40) as shop:
        limits = []
        for _ in range(4):
            out = await shop.counter.next()
            limits.append(out.limit)
            out.crash(StorageUnavailable("what all of them have on record takes too long to read"))
        for _ in range(4):
            out = await shop.counter.next()
            limits.append(out.limit)
            out.answer(runs=out.limit)
        assert limits == [40, 10, 2, 1, 1, 2, 4, 8]


@in_virtual_time
async def test_it_does_not_hammer_a_storage_that_is_away() -> None:
    async with a_shop() as shop:
        shop.counter.release_error = StorageUnavailable("no answer")
        tries = 0
        while now() < 120:
            (await shop.counter.next()).crash(StorageUnavailable("no answer"))
            tries += 1
        assert tries < 40
        assert len(shop.counter.releases) == 0


@in_virtual_time
async def test_claims_go_on_where_giving_back_always_fails() -> None:
    async with a_shop() as shop:
        shop.counter.release_error = TypeError("a bug")
        while now() < 60:
            (await shop.counter.next()).answer(runs=1)
            await settle()
            shop.end(1)
        assert len(shop.taken) > 100
        assert 3 < len(shop.counter.releases) < 10


@in_virtual_time
async def test_a_fault_in_a_claim_is_logged_and_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async with a_shop() as shop:
        (await shop.counter.next()).crash(TypeError("a bug"))
        (await shop.counter.next()).answer(runs=1)
        await settle()
        assert len(shop.taken) == 1
        assert "a bug" in caplog.text


@in_virtual_time
async def test_a_run_that_nothing_can_be_made_of_is_claimed_ever_more_seldom_though_others_claims_are_empty() -> None:
    async with a_shop() as shop:
        faults = 0
        while now() < 120:
            (await shop.counter.next()).crash(TypeError("a bug"))
            faults += 1
            # It is given back, and somebody tells of it.
            (await shop.counter.next()).answer()
            await settle()
            shop.counter.wake("default")
        assert faults < 40


@in_virtual_time
async def test_a_schema_that_has_gone_ends_the_claimer() -> None:
    shop = Shop(1, 5)
    running = asyncio.create_task(shop.claimer.run())
    (await shop.counter.next()).crash(SchemaError("no such table"))
    with pytest.raises(SchemaError):
        await running


@in_virtual_time
async def test_a_take_that_raises_is_reported_and_it_goes_on() -> None:
    shop = Shop(1, 5)

    def broken(claim: Claim | None = None) -> Callable[[], None]:
        if claim is None or len(shop.failures) == 0:
            raise ValueError("a bug")
        return broken

    shop.claimer._take = broken
    running = asyncio.create_task(shop.claimer.run())
    (await shop.counter.next()).answer(runs=1)
    (await shop.counter.next()).answer(runs=1)
    await shop.counter.next()
    assert [type(failure) for failure in shop.failures] == [ValueError] * 2, "one taking them, one beginning them"
    running.cancel()
    await asyncio.wait([running])


@in_virtual_time
async def test_stopping_waits_for_the_claim_that_is_out_and_takes_what_it_brings() -> None:
    async with a_shop() as shop:
        out = await shop.counter.next()
        stopping = asyncio.create_task(shop.claimer.stop())
        await settle()
        assert not stopping.done()
        out.answer(runs=2)
        await stopping
        assert shop.taken == [out.token] * 2
        assert shop.counter._hear is None
        await asyncio.sleep(60)
        assert shop.counter.waiting == 0


@in_virtual_time
async def test_stopping_an_idle_or_failing_claimer_returns_at_once() -> None:
    await Shop(1, 5).claimer.stop()
    async with a_shop() as shop:
        for _ in range(10):
            (await shop.counter.next()).crash(StorageUnavailable("no answer"))
        await settle()
        at = now()
        await shop.claimer.stop()
        assert now() == at


@in_virtual_time
async def test_dry_returns_when_a_claim_that_began_after_it_came_back_empty() -> None:
    async with a_shop() as shop:
        first = await shop.counter.next()
        drying = asyncio.create_task(shop.claimer.dry())
        await settle()
        first.answer()
        second = await shop.counter.next()
        assert not drying.done()
        second.answer(runs=1)
        third = await shop.counter.next()
        assert not drying.done()
        third.answer()
        await drying
        assert now() == 0.0


@in_virtual_time
async def test_dry_returns_when_claiming_has_ended() -> None:
    async with a_shop(slots=1) as shop:
        (await shop.counter.next()).answer(runs=1)
        drying = asyncio.create_task(shop.claimer.dry())
        await settle()
        assert not drying.done()
        await shop.claimer.stop()
        await drying
        await shop.claimer.dry()


@in_virtual_time
async def test_while_there_is_more_the_next_claim_is_out_before_the_last_ones_runs_are_begun() -> None:
    async with a_shop(slots=8) as shop:
        first = await shop.counter.next()
        shop.free += 4  # become free while it is out
        begun_by_then: list[int] = []
        shop.counter.claimed = lambda: begun_by_then.append(len(shop.begun))
        first.answer(runs=8)
        second = await shop.counter.next()
        assert begun_by_then == [0]
        assert shop.begun == [first.token] * 8
        assert second.limit == 4
        second.answer(runs=0)
        await settle()


@in_virtual_time
async def test_nothing_is_given_back_while_the_next_claim_is_out() -> None:
    async with a_shop(slots=8) as shop:
        out = await shop.counter.next()
        await asyncio.sleep(5)  # a giving back is long due
        shop.free += 4
        out.answer(runs=8)
        ahead = await shop.counter.next()
        await settle()
        assert shop.counter.releases == [], "what the claim that is out brings is not held yet"
        ahead.answer(runs=0)
        await settle()
        assert len(shop.counter.releases) == 1


@in_virtual_time
async def test_a_claimer_that_ends_begins_what_it_had_taken() -> None:
    shop = Shop(8, 5)
    running = asyncio.create_task(shop.claimer.run())
    first = await shop.counter.next()
    shop.free += 4
    first.answer(runs=8)
    await shop.counter.next()
    running.cancel()
    await asyncio.wait([running])
    assert shop.begun == shop.taken
