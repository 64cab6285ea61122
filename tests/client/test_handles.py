"""Handles and waiting: results, timeouts, wakes, and what becomes of failures."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.errors import (
    ResultTimeout,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunNotFound,
    StorageError,
    StorageUnavailable,
    UsageError,
    WrongState,
)
from runnerq.ids import new_run_id
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import GOING, End, Outcome, Park, Status, Stuck
from runnerq.serialization.failures import modules_snapshot, record
from tests.client.shop import APPROVAL, ORDER, Player, Shipment, checkout, resize

SOON = 60.0
"""Seconds after which what a test waits for is taken to be lost."""


@pytest.fixture(autouse=True)
def _no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks again by himself: what comes in time was looked for because of a wake."""
    monkeypatch.setattr("runnerq.client.hub.FIRST_POLL", 3600.0)


@pytest.fixture
def _all_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes, a run was started a moment ago."""
    monkeypatch.setattr("runnerq.client.hub.FRESH", 3600.0)


def failure_text(error: Exception) -> str:
    return record(error, modules_snapshot(), retryable=False)


class Counting(MemoryStorage):
    """Counts the looks for outcomes, and can hold one back to let something happen in its middle."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[int] = []
        self.hold: asyncio.Event | None = None
        self.looking = asyncio.Event()

    async def outcomes(self, run_ids: Any) -> list[Outcome]:
        self.looks.append(len(run_ids))
        found = await super().outcomes(run_ids)
        self.looking.set()
        if self.hold is not None:
            await self.hold.wait()
        return found


async def one_before(client: Client, player: Player) -> None:
    """A run that was waited for: from now on the client hears of those that it starts."""
    run = await client.start(resize, 0)
    await player.complete(run.id, [0])
    assert await run.result() == [0]


async def test_a_result_is_decoded_into_the_return_type(client: Client, player: Player) -> None:
    run = await client.start(checkout, ORDER)
    await player.complete(run.id, {"tracking": "T1"})
    assert await run.result() == Shipment("T1")


async def test_a_result_comes_as_soon_as_the_run_ends(client: Client, player: Player) -> None:
    run = await client.start(checkout, ORDER)
    waiting = asyncio.create_task(run.result(timeout=60))
    await player.take(run.id)
    await player.complete(run.id, {"tracking": "T2"})
    async with asyncio.timeout(SOON):
        assert await waiting == Shipment("T2")


async def test_without_a_type_a_result_is_json_builtins(client: Client, player: Player) -> None:
    run = await client.start(checkout, ORDER)
    await player.complete(run.id, {"tracking": "T3"})
    assert await client.handle(run.id).result() == {"tracking": "T3"}
    assert await client.handle(run.id, Shipment).result() == Shipment("T3")


async def test_a_result_of_none_is_none(client: Client, player: Player) -> None:
    run = await client.start("anything")
    handle = client.handle(run.id)
    await client.cancel(run.id)
    with pytest.raises(RunCancelled):
        await handle.result()
    other = await client.start(resize, 1)
    await player.complete(other.id, None)
    assert await client.handle(other.id).result() is None


async def test_a_failed_run_raises_its_recorded_error_rebuilt(client: Client, player: Player) -> None:
    run = await client.start(checkout, ORDER)
    error = failure_text(ValueError("no such card"))
    await player.write(run.id, End(status="failed", error=error, reason="uncaught"))
    with pytest.raises(RunFailed, match="no such card") as raised:
        await run.result()
    failed = raised.value
    assert (failed.run_id, failed.workflow, failed.status, failed.reason) == (run.id, "checkout", "failed", "uncaught")
    assert (failed.error.type, failed.error.message) == ("ValueError", "no such card")
    assert isinstance(failed.__cause__, ValueError)


async def test_a_failure_of_a_class_that_is_not_here_raises_all_the_same(client: Client, player: Player) -> None:
    run = await client.start(checkout, ORDER)
    failure = msgspec.json.decode(failure_text(ValueError("gone")))
    failure.update(type="Gone", module="nowhere.to.be.found")
    await player.write(run.id, End(status="dead_letter", error=msgspec.json.encode(failure).decode()))
    with pytest.raises(RunFailed, match="dead_letter: Gone: gone"):
        await run.result()


async def test_a_cancelled_run_raises_with_its_reason(client: Client) -> None:
    run = await client.start(checkout, ORDER)
    assert await run.cancel("changed my mind")
    with pytest.raises(RunCancelled, match="changed my mind") as raised:
        await run.result()
    assert (raised.value.run_id, raised.value.reason) == (run.id, "changed my mind")


async def test_an_unknown_run_is_not_found_at_once(client: Client) -> None:
    nobody = client.handle(new_run_id())
    for verb in (nobody.result(), nobody.status(), nobody.state(), nobody.history(), nobody.cancel(), nobody.info()):
        with pytest.raises(RunNotFound):
            await verb
    with pytest.raises(RunNotFound):
        await nobody.send(APPROVAL, True)
    with pytest.raises(RunNotFound):
        await nobody.reached(Status.WAITING)
    with pytest.raises(RunNotFound):
        await client.handle_by_key(checkout, "no such key").result()


@pytest.mark.parametrize("bad", ["", "7", "0190", "not-a-run"])
async def test_an_id_that_can_be_none_is_a_value_error(client: Client, bad: str) -> None:
    with pytest.raises(ValueError, match="not a run id"):
        client.handle(bad)
    with pytest.raises(ValueError, match="not a run id"):
        await client.cancel(bad)


class TestTimeouts:
    async def test_the_timeout_says_what_the_run_does_and_it_goes_on(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        await player.park(run.id)
        with pytest.raises(ResultTimeout, match=r"is waiting after 0\.01 s") as raised:
            await run.result(timeout=0.01)
        assert isinstance(raised.value, TimeoutError)
        assert (raised.value.run_id, raised.value.status, raised.value.blocked) == (run.id, Status.WAITING, None)
        assert await run.status() is Status.WAITING

    async def test_a_timeout_of_zero_looks_once(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        with pytest.raises(ResultTimeout):
            await run.result(0)
        await player.complete(run.id, {"tracking": "T"})
        assert await run.result(0) == Shipment("T")

    async def test_the_timeout_of_a_blocked_run_says_where_and_why(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        stuck = Stuck(message="asks for another step", build="b1", position="4", recorded="step 'a'", asked="step 'b'")
        await player.write(run.id, stuck)
        with pytest.raises(ResultTimeout, match="it is blocked: asks for another step") as raised:
            await run.result(timeout=0)
        assert raised.value.status == Status.BLOCKED
        assert (raised.value.blocked.position, raised.value.blocked.asked) == ("4", "step 'b'")


class TestLooking:
    async def test_a_wake_between_look_and_wait_is_not_lost(self) -> None:
        storage = Counting()
        async with Client(storage) as client:
            player = await Player.of(storage)
            run = await client.start(checkout, ORDER)
            await player.take(run.id)
            storage.hold = asyncio.Event()
            waiting = asyncio.create_task(run.result())
            await storage.looking.wait()
            # The look has its answer, nothing yet, and has not brought it: now the run ends.
            await player.complete(run.id, {"tracking": "late"})
            storage.hold.set()
            async with asyncio.timeout(SOON):
                assert await waiting == Shipment("late")

    async def test_many_results_are_looked_for_together(self) -> None:
        storage = Counting()
        async with Client(storage) as client:
            handles = await client.start_many(resize, [(n,) for n in range(200)])
            player = await Player.of(storage)
            for n, handle in enumerate(handles):
                await player.complete(handle.id, [n])
            results = await asyncio.gather(*(handle.result() for handle in handles))
            assert results == [[n] for n in range(200)]
            assert storage.looks == [200]

    async def test_a_finished_run_is_answered_with_one_read(self) -> None:
        storage = Counting()
        async with Client(storage) as client:
            run = await client.start(resize, 1)
            await (await Player.of(storage)).complete(run.id, [1])
            assert await run.result() == [1]
            assert storage.looks == [1]
            assert await client.handle(run.id).result() == [1]
            assert storage.looks == [1]

    @pytest.mark.usefixtures("_all_fresh")
    async def test_a_run_of_a_moment_ago_is_looked_for_when_something_is_heard_of_it(self) -> None:
        storage = Counting()
        async with Client(storage) as client:
            player = await Player.of(storage)
            await one_before(client, player)
            run = await client.start(resize, 1)
            waiting = asyncio.create_task(run.result())
            await player.take(run.id)
            assert storage.looks == [1]
            await player.complete(run.id, [1])
            async with asyncio.timeout(SOON):
                assert await waiting == [1]
            assert storage.looks == [1, 1]

    @pytest.mark.usefixtures("_all_fresh")
    async def test_what_was_heard_of_it_before_anybody_waited_is_not_waited_for(self) -> None:
        storage = Counting()
        async with Client(storage) as client:
            player = await Player.of(storage)
            await one_before(client, player)
            run = await client.start(resize, 1)
            await player.complete(run.id, [1])
            async with asyncio.timeout(SOON):
                assert await run.result() == [1]

    @pytest.mark.usefixtures("_all_fresh")
    async def test_with_little_time_a_run_of_a_moment_ago_is_looked_for_at_once(self) -> None:
        storage = Counting()
        async with Client(storage) as client:
            await one_before(client, await Player.of(storage))
            run = await client.start(resize, 1)
            with pytest.raises(ResultTimeout):
                await run.result(timeout=0)
            assert storage.looks == [1, 1]

    async def test_one_that_was_started_earlier_is_looked_for_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("runnerq.client.hub.FRESH", 0.0)
        storage = Counting()
        async with Client(storage) as client:
            player = await Player.of(storage)
            await one_before(client, player)
            run = await client.start(resize, 1)
            waiting = asyncio.create_task(run.result())
            storage.looking.clear()
            async with asyncio.timeout(SOON):
                await storage.looking.wait()
            await player.complete(run.id, [1])
            assert await waiting == [1]

    @pytest.mark.usefixtures("_all_fresh")
    async def test_a_second_one_who_waits_for_it_has_it_looked_for(self) -> None:
        storage = Counting()
        async with Client(storage) as client:
            player = await Player.of(storage)
            await one_before(client, player)
            run = await client.start(resize, 1)
            waiting = asyncio.create_task(run.result())
            await asyncio.sleep(0)
            with pytest.raises(ResultTimeout):
                await run.result(timeout=0)
            await player.complete(run.id, [1])
            assert await waiting == [1]

    async def test_two_who_wait_for_one_run_both_get_it_and_one_may_leave(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        first, second = asyncio.create_task(run.result()), asyncio.create_task(run.result())
        third = asyncio.create_task(run.result())
        await player.take(run.id)
        third.cancel()
        await player.complete(run.id, {"tracking": "both"})
        assert await first == await second == Shipment("both")

    async def test_without_any_wake_polling_finds_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Deaf(MemoryStorage):
            def subscribe(self, hear: Any) -> Any:
                return lambda: None

        monkeypatch.setattr("runnerq.client.hub.FIRST_POLL", 0.01)
        async with Client(Deaf()) as client:
            player = await Player.of(client.storage)
            await one_before(client, player)
            run = await client.start(checkout, ORDER)
            waiting = asyncio.create_task(run.result())
            reaching = asyncio.create_task(run.reached(Status.COMPLETED))
            await player.take(run.id)
            await player.complete(run.id, {"tracking": "polled"})
            async with asyncio.timeout(SOON):
                assert await waiting == Shipment("polled")
                assert await reaching == Status.COMPLETED

    async def test_a_storage_that_is_away_for_a_while_is_asked_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Away(MemoryStorage):
            away = True

            async def outcomes(self, run_ids: Any) -> list[Outcome]:
                if self.away:
                    self.away = False
                    raise StorageUnavailable("restarting")
                return await super().outcomes(run_ids)

        monkeypatch.setattr("runnerq.client.hub.FIRST_POLL", 0.01)
        async with Client(Away()) as client:
            run = await client.start(resize, 1)
            await (await Player.of(client.storage)).complete(run.id, [1])
            async with asyncio.timeout(SOON):
                assert await run.result() == [1]

    async def test_more_results_than_can_be_read_in_time_come_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Slow(Counting):
            async def outcomes(self, run_ids: Any) -> list[Outcome]:
                found = await super().outcomes(run_ids)
                if len(run_ids) > 5:
                    raise StorageUnavailable("no answer in time")
                return found

        monkeypatch.setattr("runnerq.client.hub.FIRST_POLL", 0.01)
        async with Client(Slow()) as client:
            handles = await client.start_many(resize, [(n,) for n in range(12)])
            player = await Player.of(client.storage)
            for n, handle in enumerate(handles):
                await player.complete(handle.id, [n])
            async with asyncio.timeout(SOON):
                results = await asyncio.gather(*(handle.result() for handle in handles))
            assert results == [[n] for n in range(12)]

    async def test_a_result_that_cannot_be_read_fails_those_alone_who_wait_for_it(self) -> None:
        class Damaged(MemoryStorage):
            damaged = ""

            async def outcomes(self, run_ids: Any) -> list[Outcome]:
                if self.damaged in run_ids:
                    raise StorageError("missing chunk number 0 for toast value")
                return await super().outcomes(run_ids)

        storage = Damaged()
        async with Client(storage) as client:
            handles = await client.start_many(resize, [(n,) for n in range(3)])
            player = await Player.of(storage)
            for n, handle in enumerate(handles):
                await player.complete(handle.id, [n])
            storage.damaged = handles[1].id
            async with asyncio.timeout(SOON):
                results = await asyncio.gather(*(handle.result() for handle in handles), return_exceptions=True)
            assert [results[0], type(results[1]), results[2]] == [[0], StorageError, [2]]

    async def test_an_error_of_the_storage_reaches_whoever_waits(self) -> None:
        class Broken(MemoryStorage):
            async def outcomes(self, run_ids: Any) -> list[Outcome]:
                raise ZeroDivisionError

        async with Client(Broken()) as client:
            run = await client.start(resize, 1)
            with pytest.raises(ZeroDivisionError):
                await run.result()

    async def test_closing_the_client_ends_the_waiting(self) -> None:
        async with Client(MemoryStorage()) as client:
            run = await client.start(resize, 1)
            waiting = asyncio.create_task(run.result())
            await run.status()
            await asyncio.sleep(0)
        with pytest.raises(StorageUnavailable, match="closed"):
            await waiting

    async def test_nothing_is_left_when_nobody_waits(self, client: Client) -> None:
        run = await client.start(resize, 1)
        with pytest.raises(ResultTimeout):
            await run.result(0)
        loop = client._core.hub._loop
        assert loop is not None
        await loop
        del loop
        gc.collect()
        assert client._core.hub._awaited == {}


class TestReached:
    async def test_it_answers_the_status_once_it_is_one_of_them(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        waiting = asyncio.create_task(run.reached(Status.WAITING, "completed", timeout=60))
        await player.park(run.id)
        async with asyncio.timeout(SOON):
            assert await waiting is Status.WAITING

    async def test_a_run_that_ended_otherwise_will_never_reach_it(self, client: Client) -> None:
        run = await client.start(checkout, ORDER)
        await run.cancel()
        with pytest.raises(WrongState, match="cancelled"):
            await run.reached(Status.COMPLETED)

    async def test_it_times_out_and_says_what_it_waited_for(self, client: Client) -> None:
        run = await client.start(checkout, ORDER)
        with pytest.raises(ResultTimeout, match="waiting for it to be completed"):
            await run.reached(Status.COMPLETED, timeout=0)

    async def test_no_status_and_an_unknown_one_are_value_errors(self, client: Client) -> None:
        run = await client.start(checkout, ORDER)
        with pytest.raises(ValueError, match="needs a status"):
            await run.reached()
        with pytest.raises(ValueError, match="exploded"):
            await run.reached("exploded")


class TestState:
    async def test_wait_answers_the_state_that_holds(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        waiting = asyncio.create_task(run.wait(lambda state: state.get("stage") == "charged", timeout=60))
        await player.write(run.id, GOING, published='{"stage":"reserved"}')
        await player.write(run.id, GOING, published='{"stage":"charged"}')
        async with asyncio.timeout(SOON):
            assert await waiting == {"stage": "charged"}
        assert await run.state() == {"stage": "charged"}

    async def test_a_run_without_a_state_has_an_empty_one(self, client: Client) -> None:
        assert await (await client.start(checkout, ORDER)).state() == {}

    async def test_the_last_state_is_looked_at_after_the_end(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        await player.complete(run.id, {"tracking": ""})
        assert await run.wait(lambda state: state["done"]) == {"done": True}
        with pytest.raises(WrongState, match="completed"):
            await run.wait(lambda state: "never" in state)

    async def test_an_error_of_the_condition_is_the_callers(self, client: Client) -> None:
        run = await client.start(checkout, ORDER)
        with pytest.raises(KeyError):
            await run.wait(lambda state: state["missing"])


class TestSending:
    async def test_a_signal_wakes_a_run_that_waits_for_it(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        await player.park(run.id)
        await client.send(run.id, APPROVAL, True)
        [mail] = (await player.take(run.id)).signals
        assert (mail.channel, mail.value) == ("approval", "true")

    async def test_signal_is_another_name_of_send_and_the_key_finds_the_run(
        self, client: Client, player: Player
    ) -> None:
        run = await client.options(key="k").start(checkout, ORDER)
        by_key = client.handle_by_key(checkout, "k")
        await by_key.send("notes", {"n": 1})
        assert by_key.id == run.id
        await client.signal(run.id, "notes", None)
        assert [mail.value for mail in (await player.take(run.id)).signals] == ['{"n":1}', "null"]

    async def test_one_dedup_id_counts_once(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        for _ in range(2):
            await run.send(APPROVAL, True, dedup="once")
        assert len((await player.take(run.id)).signals) == 1

    async def test_a_finished_run_refuses_and_says_how_it_ended(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        await player.complete(run.id, {"tracking": ""})
        with pytest.raises(RunFinished, match="completed"):
            await run.send(APPROVAL, True)
        assert await run.cancel() is False

    async def test_a_second_cancel_changes_nothing(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        await player.park(run.id)
        assert await run.cancel("stop") is True
        assert await run.cancel("stop") is False
        assert (await run.info()).cancel_requested

    async def test_a_channel_without_a_name_is_a_value_error(self, client: Client) -> None:
        run = await client.start(checkout, ORDER)
        with pytest.raises(ValueError, match="channel"):
            await run.send("", 1)
        with pytest.raises(ValueError, match="dedup"):
            await run.send("a", 1, dedup="")


async def test_a_handle_by_key_has_no_id_before_it_is_looked_up(client: Client) -> None:
    handle = client.handle_by_key(checkout, "k")
    with pytest.raises(UsageError, match="key='k' of checkout"):
        _ = handle.id
    with pytest.raises(ValueError, match="non-empty"):
        client.handle_by_key(checkout, "")


async def test_a_handle_by_key_waits_with_the_workflows_type(client: Client, player: Player) -> None:
    run = await client.options(key="k").start(checkout, ORDER)
    await player.complete(run.id, {"tracking": "K"})
    assert await client.handle_by_key(checkout, "k").result() == Shipment("K")
    assert await client.handle_by_key("checkout", "k").result() == {"tracking": "K"}


async def test_a_park_that_ends_wakes_again(client: Client, player: Player) -> None:
    run = await client.start(checkout, ORDER)
    await player.write(run.id, Park(signals=("approval",)))
    waiting = asyncio.create_task(run.result())
    await run.send(APPROVAL, True)
    await player.complete(run.id, {"tracking": "woken"})
    async with asyncio.timeout(SOON):
        assert await waiting == Shipment("woken")
