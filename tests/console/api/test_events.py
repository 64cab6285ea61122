"""Server-sent events of the API, asked for as ASGI: a client that waits for the end of a stream sees nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from runnerq.client.client import Client
from runnerq.console.console import Console


class Reader:
    """The reading end of a stream."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._sent: asyncio.Queue[bytes] = asyncio.Queue()
        self._left = b""

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self._sent.put_nowait(message.get("body", b""))

    async def next(self) -> dict[str, Any]:
        """The next message: its event, its id and its data."""
        while True:
            message, ends, self._left = self._left.partition(b"\n\n")
            if not ends:
                self._left = message + await self._sent.get()
                continue
            lines = [line.partition(": ") for line in message.decode().split("\n")]
            fields = {name: value for name, _, value in lines if name}
            if fields:
                return {**fields, "data": msgspec.json.decode(fields["data"])}

    async def until(self, **wanted: str) -> dict[str, Any]:
        """The data of the next message that has these."""
        while True:
            data = (await self.next())["data"]
            if wanted.items() <= data.items():
                return data


@asynccontextmanager
async def following(client: Client, query: str = "", headers: dict[str, str] | None = None) -> AsyncIterator[Reader]:
    """A stream of ``GET /api/v1/events``, as a program on this machine reads it."""
    console, reader, asked, left = Console(client, api_only=True), Reader(), asyncio.Event(), asyncio.Event()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/api/v1/events", "raw_path": b"/api/v1/events", "query_string": query.encode(), "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8787"), *((n.encode(), v.encode()) for n, v in (headers or {}).items())],
        "client": ("127.0.0.1", 50000), "server": ("127.0.0.1", 8787),
    }  # fmt: skip

    async def receive() -> Any:
        if not asked.is_set():
            asked.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    async with console.lifespan():
        app: Any = console.app()
        serving = asyncio.create_task(app(scope, receive, reader.send))
        yield reader
        left.set()
        await serving


async def test_each_event_is_told_once_with_names_and_without_payloads(client: Client) -> None:
    async with following(client) as reader:
        hello = await reader.next()
        run = await client.start("shop", {"password": "hunter2"})
        started = await reader.until(id=run.id)
        await client.cancel(run.id, "hunter2")
        cancelled = await reader.until(id=run.id)

    assert hello["event"] == "hello"
    assert reader.headers["content-type"].startswith("text/event-stream")
    assert reader.headers["cache-control"] == "no-store"
    assert (started["type"], started["workflow"]) == ("started", "shop")
    assert (cancelled["type"], cancelled["status"]) == ("cancelled", "cancelled")
    assert "hunter2" not in str([started, cancelled])


async def test_only_changes_of_the_watched_runs_are_told(client: Client) -> None:
    run = await client.start("shop", 1)
    async with following(client, f"watch={run.id}") as reader:
        await reader.next()
        await client.start("other", 1)
        await client.cancel(run.id)
        told = await reader.next()

    assert (told["data"]["id"], told["data"]["type"]) == (run.id, "cancelled")
