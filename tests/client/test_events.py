"""``client.events()``: what happens, as it happens, in one order and without a gap."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.client.values import Event
from runnerq.errors import StorageUnavailable, UsageError
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Priority, Tail, Wake
from runnerq.testing import Environment
from tests.client.shop import ORDER, Player, checkout, mail


class Following:
    """Somebody who follows the events from now on."""

    def __init__(self, client: Client, after: str | None = None) -> None:
        self._events = client.events(after)
        self._next: asyncio.Task[Event] | None = None

    async def began(self) -> None:
        """Return once it has looked: what happens from here on is told. A storage in memory lets nobody wait."""
        self._next = asyncio.ensure_future(anext(self._events))
        await asyncio.sleep(0)

    async def take(self, count: int) -> list[Event]:
        found = []
        for _ in range(count):
            upcoming = self._next or asyncio.ensure_future(anext(self._events))
            self._next = None
            found.append(await asyncio.wait_for(upcoming, 20))
        return found


async def following(client: Client) -> Following:
    follower = Following(client)
    await follower.began()
    return follower


async def test_what_happens_from_now_on_is_told_in_order(client: Client, player: Player) -> None:
    await client.start(mail, "before")
    follower = await following(client)
    run = await client.start(checkout, ORDER)
    await player.complete(run.id, None)
    started, completed = await follower.take(2)
    assert [(event.kind, event.run_id) for event in (started, completed)] == [
        ("started", run.id), ("completed", run.id),
    ]  # fmt: skip
    assert started.workflow == "checkout"
    assert started.at <= completed.at


async def test_whoever_comes_back_goes_on_behind_the_last_event_that_he_saw(client: Client) -> None:
    follower = await following(client)
    await client.start_many(mail, [("a",), ("b",), ("c",)])
    first, second, third = await follower.take(3)
    assert await Following(client, first.cursor).take(2) == [second, third]
    assert len({first.cursor, second.cursor, third.cursor}) == 3


async def test_what_a_person_does_is_told_with_what_there_is_to_say(client: Client) -> None:
    run = await client.options(delay=3600).start(mail, "me")
    follower = await following(client)
    await client.set_priority(run.id, Priority.HIGH)
    await client.run_now(run.id)
    await client.queues.pause("slow")
    prioritized, run_now, paused = await follower.take(3)
    assert (prioritized.kind, prioritized.run_id, prioritized.data) == ("prioritized", run.id, {"priority": 1})
    assert (run_now.kind, paused.kind, paused.queue, paused.run_id) == ("run_now", "paused", "slow", None)


async def test_more_than_a_page_is_told_whole(client: Client) -> None:
    follower = await following(client)
    await client.start_many(mail, [(str(number),) for number in range(1201)])
    assert len({event.run_id for event in await follower.take(1201)}) == 1201


async def test_it_ends_when_the_client_closes() -> None:
    client = Client(MemoryStorage())
    await client.open()
    follower = await following(client)
    ending = asyncio.ensure_future(follower.take(1))
    await client.close()
    with pytest.raises(StopAsyncIteration):
        await ending


async def test_a_cursor_that_is_none_is_a_value_error(client: Client) -> None:
    with pytest.raises(ValueError, match="cursor"):
        await anext(client.events("yesterday"))


async def test_a_client_that_is_not_open_follows_nothing() -> None:
    with pytest.raises(UsageError, match="not open"):
        await anext(connect("postgresql://nowhere").events())


class Away(MemoryStorage):
    """A storage that does not answer now and then, and tells no wakes."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    async def events(self, after: str | None, limit: int) -> Tail:
        self.looks += 1
        if self.looks in (2, 3):
            raise StorageUnavailable("away")
        return await super().events(after, limit)


class Sparing(MemoryStorage):
    """A storage whose pages are short though there is more, and which tells no wakes."""

    async def events(self, after: str | None, limit: int) -> Tail:
        return await super().events(after, min(limit, 1))

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        return lambda: None


async def test_a_short_page_is_not_taken_for_the_end() -> None:
    storage = Sparing()
    async with Client(storage) as client:
        cursor = (await storage.events(None, 1)).cursor
        await client.start_many(mail, [(str(number),) for number in range(40)])
        async with asyncio.timeout(20):  # far less than a look at each interval would take
            assert len(await Following(client, cursor).take(40)) == 40


async def test_a_storage_that_does_not_answer_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async with Client(Away()) as client:
        follower = await following(client)
        run = await client.start(mail, "me")
        [event] = await follower.take(1)
        assert event.run_id == run.id
    assert "asking again" in caplog.text


async def test_in_a_test_following_does_not_move_the_time() -> None:
    async with Environment([checkout], [mail]) as env:
        follower = await following(env)
        run = await env.start(mail, "me")
        began = env.now()
        assert [event.kind for event in await follower.take(1)] == ["started"]
        await run.result()
        assert [event.kind for event in await follower.take(1)] == ["completed"]
        assert env.now() == began
