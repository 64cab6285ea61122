"""The live channel: what its streams are told, and when they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.console.console import Console
from runnerq.console.web import live as channel
from runnerq.console.web.auth import token_auth
from runnerq.console.web.live import Live, TooManyStreams
from runnerq.console.web.opening import Opening
from runnerq.console.web.stopping import stopping
from runnerq.errors import StorageUnavailable
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.postgres import PostgresStorage
from tests.client.shop import Player, checkout
from tests.console.browsing import browsing, console_of

SOON = 20.0
TOKEN = "a-token-of-forty-letters-that-nobody-knows"  # noqa: S105 - of these tests alone


class Reader:
    """Reads a stream as a browser does."""

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        self.frames = frames
        self.unread: list[dict[str, Any]] = []
        self.last: str | None = None

    async def next(self) -> dict[str, Any]:
        """The next thing told: a message's data, with ``event`` where it has a name. Beats are passed over."""
        async with asyncio.timeout(SOON):
            while not self.unread:
                told = await anext(self.frames)
                self.unread += [self._parsed(block) for block in told.decode().split("\n\n") if "data:" in block]
        return self.unread.pop(0)

    def _parsed(self, block: str) -> dict[str, Any]:
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        self.last = lines.get("id", self.last)
        return {**json.loads(lines["data"]), **({"event": lines["event"]} if "event" in lines else {})}

    async def leave(self) -> None:
        await self.frames.aclose()

    async def until(self, **wanted: Any) -> dict[str, Any]:
        while True:
            told = await self.next()
            if wanted.items() <= told.items():
                return told


@pytest.fixture
async def live(client: Client) -> AsyncIterator[Live]:
    live = Live(Opening(client), changed=lambda: None)
    yield live
    await live.close()


async def reading(live: Live, *, last: str | None = None, **options: Any) -> Reader:
    """A stream that has said hello."""
    reader = Reader(live.frames(await live.begin(**{"asker": "ada", **options}), last))
    assert await reader.next() == {"event": "hello"}
    return reader


async def start(client: Client, key: str = "o-1") -> str:
    return (await client.options(key=key).start(checkout, {"item": "cup"})).id


async def test_what_happens_after_the_hello_is_told_by_name_and_without_payloads(client: Client, live: Live) -> None:
    reader = await reading(live)
    run = await start(client)
    told = await reader.until(type="started", id=run)
    assert told.keys() == {"type", "seq", "id", "workflow", "queue", "status"}
    assert "cup" not in json.dumps(told)


async def test_a_run_that_moves_without_an_event_is_told_as_changed(client: Client, live: Live) -> None:
    run = await start(client)
    player = await Player.of(client.storage)
    reader = await reading(live)
    await player.park(run, "approval")
    assert await reader.until(type="changed", id=run)


async def test_who_watches_a_run_is_told_of_it_alone(client: Client, live: Live) -> None:
    watched = await start(client, "o-1")
    reader = await reading(live, watch=[watched])
    await start(client, "o-2")
    await client.cancel(watched)
    assert (await reader.next())["id"] == watched


async def test_more_than_a_page_can_use_is_told_as_many_and_each_to_a_program(client: Client, live: Live) -> None:
    page, program = await reading(live), await reading(live, whole=True)
    await asyncio.gather(*(start(client, f"o-{nth}") for nth in range(channel.MANY + 1)))
    assert (await page.until(type="many"))["count"] >= 1
    told = {(await program.next())["id"] for _ in range(channel.MANY + 1)}
    assert len(told) == channel.MANY + 1


async def test_a_slow_reader_loses_its_own_events_and_is_told_to_look_again(
    client: Client, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "QUEUE", 2)
    slow, quick = await reading(live, whole=True), await reading(live, whole=True)
    runs = []
    for nth in range(3):
        runs.append(await start(client, f"o-{nth}"))
        assert (await quick.next())["id"] == runs[-1]
    assert await slow.next() == {"event": "resync"}
    assert live.streams == 2


async def test_a_stream_that_comes_back_is_told_what_it_has_missed(client: Client, live: Live) -> None:
    keeps = await reading(live, whole=True)
    left = await reading(live, whole=True)
    await start(client, "o-1")
    await left.next()
    await left.leave()
    missed = await start(client, "o-2")
    await keeps.until(id=missed)
    back = await reading(live, whole=True, last=left.last)
    assert (await back.next())["id"] == missed
    stranger = await reading(live, whole=True, last="0badcafe-7")
    assert await stranger.next() == {"event": "resync"}


def tails() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "runnerq-console-live"]


async def test_one_tail_serves_all_and_ends_with_the_last(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "LINGER", 0.01)
    one, other = await reading(live), await reading(live)
    [tail] = tails()
    await one.leave()
    await other.leave()
    async with asyncio.timeout(SOON):
        await asyncio.wait({tail})
    await reading(live)
    [another] = tails()
    assert another is not tail


async def test_a_page_that_is_opened_as_another_closes_finds_the_same_tail(
    client: Client, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "LINGER", 3600.0)
    one = await reading(live)
    [tail] = tails()
    await one.leave()
    after = await reading(live)
    assert await after.until(id=await start(client))
    assert tails() == [tail]


async def test_so_many_streams_and_no_more(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MOST_STREAMS", 2)
    one, _ = await reading(live), await reading(live)
    with pytest.raises(TooManyStreams):
        await live.begin(asker="ada")
    await one.leave()
    await live.begin(asker="ada")


async def test_of_those_who_come_at_once_no_more_than_so_many_have_a_place(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MOST_STREAMS", 2)
    came = await asyncio.gather(*(live.begin(asker=f"{n}") for n in range(5)), return_exceptions=True)
    assert [type(each) for each in came].count(TooManyStreams) == 3
    assert live.streams == 2


async def test_one_asker_has_half_of_the_streams_and_leaves_the_others_theirs(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MOST_OF_ONE", 2)
    for _ in range(2):
        await live.begin(asker="ada")
    with pytest.raises(TooManyStreams, match="2 live streams of yours"):
        await live.begin(asker="ada")
    await live.begin(asker="bob")


async def test_streams_are_counted_by_session_and_end_when_it_is_signed_out(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MOST_OF_ONE", 1)
    console = Console(client, auth=token_auth(TOKEN))
    live, app = console._setup.live, console.app()
    # Behind one proxy all of a team have one address.
    async with console.lifespan(), browsing(app) as ada, browsing(app) as bob:
        streams = []
        for nth, browser in enumerate((ada, bob), 1):
            await browser.get("/login")
            await browser.post("/login", data={"csrf": browser.token, "token": TOKEN})
            await browser.get("/settings")
            streams.append(asyncio.create_task(browser.get("/stream")))
            async with asyncio.timeout(SOON):
                while live.streams < nth:
                    await asyncio.sleep(0)
        assert (await ada.get("/stream")).status_code == 503
        await ada.send_form("/logout")
        async with asyncio.timeout(SOON):
            assert "event: hello" in (await streams[0]).text
        assert (live.streams, streams[1].done()) == (1, False)
    assert "event: hello" in (await streams[1]).text


async def test_a_place_that_nobody_begins_to_use_is_given_back(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MOST_STREAMS", 2)
    used = await reading(live)
    monkeypatch.setattr(channel, "UNREAD", 0.0)
    await live.begin(asker="ada")
    async with asyncio.timeout(SOON):
        while live.streams == 2:
            await asyncio.sleep(0)
    await used.leave()
    assert live.streams == 0


async def test_who_asks_for_the_headers_alone_takes_no_place(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MOST_STREAMS", 0)
    async with console_of(client) as browser:
        assert (await browser.head("/stream")).status_code == 200


async def test_who_comes_too_many_is_told_when_to_come_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MOST_STREAMS", 0)
    async with console_of(client) as browser:
        refused = await browser.get("/stream")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")


async def test_it_ends_when_it_is_as_old_as_it_may_be_and_beats_until_then(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "HEARTBEAT", 0.01)
    monkeypatch.setattr(channel, "LIFE", 0.05)
    place = await live.begin(asker="ada")
    async with asyncio.timeout(SOON):
        told = [frame async for frame in live.frames(place)]
    assert told[1:] == [channel.BEAT] * len(told[1:])
    assert len(told) > 1


async def test_streams_end_with_their_client() -> None:
    client = Client(MemoryStorage())
    await client.open()
    hub = Live(Opening(client), changed=lambda: None)
    reader = await reading(hub)
    await client.close()
    async with asyncio.timeout(SOON):
        assert [frame async for frame in reader.frames if frame != channel.BEAT] == []
    await hub.close()


async def test_without_a_database_there_is_no_stream_and_the_next_one_tries_again() -> None:
    hub = Live(
        Opening(Client(PostgresStorage("postgresql://127.0.0.1:1/x", connect_timeout=0.1))), changed=lambda: None
    )
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await hub.begin(asker="ada")
    await hub.close()


async def test_whatever_happens_makes_what_is_kept_of_answers_old(client: Client) -> None:
    happened = asyncio.Event()
    hub = Live(Opening(client), changed=happened.set)
    reader = await reading(hub)
    await start(client)
    await reader.next()
    assert happened.is_set()
    await hub.close()


def test_a_process_that_no_server_runs_in_does_not_stop() -> None:
    assert not stopping()
