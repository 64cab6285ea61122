"""Stands between clients and the server, on sockets of its own, and loses what it is told to lose.

Rules
- Each client process has a door of its own, so that a fault can befall one of them.
- A rule is asked once for every group of messages (see wire.py) that goes to the server, before it goes.
- Without a rule everything passes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum, auto
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from tests.faults.wire import LISTEN, Answering, Asking

CHUNK = 1 << 16


class Fate(Enum):
    """What becomes of a group of messages and of its answer."""

    PASS = auto()
    HELD = auto()
    """It waits here until the proxy is told to let go."""
    CUT = auto()
    """The server does it; its answer is thrown away, and then the connection is cut."""
    UNANSWERED = auto()
    """The server does it; its answer is thrown away, and so is all that follows, while the connection looks alive."""


Rule = Callable[["Link", str], Fate]


def pass_all(_link: Link, _name: str) -> Fate:
    return Fate.PASS


class Link:
    """One connection of a client, and the one to the server that stands for it."""

    def __init__(self, door: Door, to_client: asyncio.StreamWriter, to_server: asyncio.StreamWriter) -> None:
        self.door = door
        self.listens = False
        self.silent = False
        self._to_client = to_client
        self._to_server = to_server
        self._answering = Answering()

    async def carry_asking(self, reader: asyncio.StreamReader) -> None:
        asking = Asking()
        while data := await reader.read(CHUNK):
            for name, group in asking.feed(data):
                if name is not None:
                    self.listens = self.listens or name == LISTEN
                    fate = await self._fate(name)
                    self._answering.out.append((name, fate))
                if not self.silent:
                    self._to_server.write(group)
            await self._to_server.drain()

    async def _fate(self, name: str) -> Fate:
        while (fate := self.door.proxy.rule(self, name)) is Fate.HELD:
            await self.door.proxy.changed.wait()
        if fate is not Fate.PASS:
            self.door.proxy.lost[name] = self.door.proxy.lost.get(name, 0) + 1
        return fate

    async def carry_answers(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            for group, message, last in self._answering.feed(data):
                name, fate = group if isinstance(group, tuple) else ("", Fate.PASS)
                if fate is Fate.PASS and not self.silent:
                    self._to_client.write(message)
                    if last:
                        self.door.proxy.answered[name] = self.door.proxy.answered.get(name, 0) + 1
                elif last and fate is Fate.CUT:
                    return
                elif last and fate is Fate.UNANSWERED:
                    self.silent = True
            await self._to_client.drain()

    def cut(self) -> None:
        self._to_client.close()
        self._to_server.close()

    def leave_server(self) -> None:
        """The client is gone; the server does not hear of it."""
        self._to_client.close()


class Door:
    """A socket of the proxy for one client process. ``keeps``: the server does not hear when that process is gone."""

    def __init__(self, proxy: Proxy, name: str, folder: Path, dsn: str) -> None:
        self.proxy = proxy
        self.name = name
        self.keeps = False
        self.links: set[Link] = set()
        parts = urlsplit(dsn)
        query = parse_qs(parts.query)
        self._port = query["port"][0]
        self._behind = f"{query['host'][0]}/.s.PGSQL.{self._port}"
        self._folder = folder / name
        self._server: asyncio.Server | None = None
        self._kept: list[Link] = []
        self._tasks: set[asyncio.Task[None]] = set()
        where = quote(str(self._folder), safe="")
        self.dsn = parts._replace(query=f"host={where}&port={self._port}").geturl()

    async def open(self) -> None:
        self._folder.mkdir()
        self._server = await asyncio.start_unix_server(self._accept, self._folder / f".s.PGSQL.{self._port}")

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        # Some may be on their way to the server: nothing of them is to outlive the proxy.
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in [*self.links, *self._kept]:
            link.cut()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._own(self._serve(reader, writer))

    def _own(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_unix_connection(self._behind)
        except OSError:
            writer.close()
            return
        except asyncio.CancelledError:
            writer.close()
            raise
        link = Link(self, writer, to_server)
        self.links.add(link)
        answers = self._own(_carried(link.carry_answers, from_server))
        asking = self._own(_carried(link.carry_asking, reader))
        done, _ = await asyncio.wait({answers, asking}, return_when=asyncio.FIRST_COMPLETED)
        self.links.discard(link)
        if self.keeps and asking in done and answers not in done:
            self._kept.append(link)
            link.leave_server()
            return
        link.cut()
        for task in (answers, asking):
            task.cancel()


class Proxy:
    """The doors, and the rule that holds for all of them. ``lost`` and ``answered`` count groups by name."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self._folder = folder
        self._dsn = dsn
        self._doors: list[Door] = []
        self.rule: Rule = pass_all
        self.changed = asyncio.Event()
        self.lost: dict[str, int] = {}
        self.answered: dict[str, int] = {}

    async def door(self, name: str) -> Door:
        door = Door(self, name, self._folder, self._dsn)
        await door.open()
        self._doors.append(door)
        return door

    def set(self, rule: Rule) -> None:
        """From now on this rule holds; what was held is judged anew."""
        self.rule = rule
        self.changed.set()
        self.changed = asyncio.Event()

    async def close(self) -> None:
        self.set(pass_all)
        for door in self._doors:
            await door.close()


async def _carried(carry: Callable[[asyncio.StreamReader], Awaitable[None]], reader: asyncio.StreamReader) -> None:
    # A side that breaks off in the middle of something is what a proxy is for.
    with contextlib.suppress(ConnectionError, OSError):
        await carry(reader)
