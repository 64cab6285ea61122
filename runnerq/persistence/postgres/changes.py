"""Wake-ups: who is told what has changed.

Rules
- A wake is a hint. Everything moves without one, a little later.
- Subscribers of this storage object are called directly, after the statement that changed something; other processes
  hear by NOTIFY, after the commit and never inside of it, where it would slow down every writer. The first of a burst
  goes out at once (where Python can, before whoever tells goes on), the others are gathered for a moment and go as one.
- What is written in a transaction of the caller's is told within it, under nobody's name: it comes back to us, too.
- LISTEN has a connection of its own. It tells itself something now and then; when that does not come back, the
  connection is dead, and it is made anew. Through a pooler, with no other way to the server, nobody listens.
- Whatever waits here can be cancelled at any time: by ``asyncio.timeout``, as before Python 3.12 ``wait_for`` loses a
  cancel that comes together with the answer.
- What is told is names only, in the payload's 8,000 bytes; more changed runs than fit are told as ``many_runs``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from runnerq.errors import StorageError
from runnerq.persistence.postgres.connections import Connections
from runnerq.persistence.postgres.faults import translating
from runnerq.persistence.postgres.lending import Connection
from runnerq.persistence.postgres.statements import Statements
from runnerq.persistence.records import Wake

GATHER = 0.005
"""Seconds between two notifications of one process."""

NOBODY = ""
"""The origin of a note that everybody is to hear, us included."""

PAYLOAD_LIMIT = 7_900
"""Bytes; Postgres refuses 8,000."""

PROBE_INTERVAL = 10.0
PROBE_PATIENCE = 5.0
FIRST_PATIENCE = 1.0
_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_LAST_WORDS = 1.0
"""Seconds that a close waits for what is untold to be told."""

_NOTHING = Wake()
_log = logging.getLogger("runnerq.postgres")


class _Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """A payload. ``origin`` tells a storage object its own notes, which its subscribers have heard already."""

    origin: str
    queues: tuple[str, ...] = ()
    workers: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()
    many_runs: bool = False
    schedules: bool = False
    probe: int = 0


_decode = msgspec.json.Decoder(_Note).decode


def merged(one: Wake, other: Wake) -> Wake:
    """One wake that says what both say."""
    return Wake(
        queues=one.queues | other.queues,
        workers=one.workers | other.workers,
        runs=one.runs | other.runs,
        many_runs=one.many_runs or other.many_runs,
        schedules=one.schedules or other.schedules,
    )


def payloads(origin: str, wake: Wake) -> list[str]:
    """The notes that tell of this wake, each short enough."""
    note = _Note(
        origin=origin,
        queues=tuple(sorted(wake.queues)),
        workers=tuple(sorted(wake.workers)),
        runs=tuple(sorted(wake.runs)),
        many_runs=wake.many_runs,
        schedules=wake.schedules,
    )
    text = msgspec.json.encode(note)
    if len(text) <= PAYLOAD_LIMIT:
        return [text.decode()]
    if wake.runs:
        return payloads(
            origin, Wake(queues=wake.queues, workers=wake.workers, many_runs=True, schedules=wake.schedules)
        )
    names = [*note.queues, *note.workers]
    if len(names) == 1:
        # A queue whose name does not fit: its workers find their runs by polling.
        return []
    halves = (names[: len(names) // 2], names[len(names) // 2 :])
    return [
        payload
        for half in halves
        for payload in payloads(
            origin,
            Wake(
                queues=frozenset(name for name in half if isinstance(name, str)),
                workers=frozenset(name for name in half if isinstance(name, int)),
                many_runs=wake.many_runs,
                schedules=wake.schedules,
            ),
        )
    ]


def probe_of(origin: str) -> str:
    """A note that tells nobody anything, by which somebody called ``origin`` finds out whether notes are heard."""
    return msgspec.json.encode(_Note(origin=origin, probe=1)).decode()


class Changes:
    """The wake-ups of one storage object, on one event loop. ``open`` and ``close`` own what listens."""

    def __init__(self, connections: Connections, statements: Statements, schema: str) -> None:
        self._connections = connections
        self._notify = statements["notify"]
        self._channel = f"runnerq_{schema}"
        self._origin = secrets.token_hex(6)
        self._subscribers: dict[object, Callable[[Wake], None]] = {}
        self._untold = _NOTHING
        self._telling: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._returned = asyncio.Event()
        self._probes = 0
        self._listener: Connection | None = None
        self._listens: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to listen; that has begun on return unless it takes long, or cannot be."""
        if not self._connections.has_sessions:
            return
        self._listens = asyncio.create_task(self._listen())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_PATIENCE):
                await self._listening.wait()

    async def close(self) -> None:
        """Tell what is untold, and end: who sends and leaves at once must be heard before the next poll."""
        tasks = [task for task in (self._listens, self._telling) if task is not None]
        self._listens = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self._tell_untold()

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        ticket = object()
        self._subscribers[ticket] = hear
        return lambda: _forget(self._subscribers, ticket)

    def tell(self, wake: Wake) -> None:
        """Tell of what a committed statement has changed."""
        if wake == _NOTHING:
            return
        self._call(wake)
        self._untold = merged(self._untold, wake)
        if self._telling is None or self._telling.done():
            self._telling = _begun(self._tell_others())

    def notes(self, wake: Wake) -> tuple[str, list[str]]:
        """The channel, and what is to be told there by a transaction that changes this when it commits."""
        return self._channel, payloads(NOBODY, wake) if wake != _NOTHING else []

    def _call(self, wake: Wake) -> None:
        for hear in tuple(self._subscribers.values()):
            hear(wake)

    async def _tell_others(self) -> None:
        while self._untold != _NOTHING:
            await self._tell_untold()
            await asyncio.sleep(GATHER)

    async def _tell_untold(self) -> None:
        wake, self._untold = self._untold, _NOTHING
        try:
            for payload in payloads(self._origin, wake) if wake != _NOTHING else ():
                await self._connections.fetch_quick(self._notify, self._channel, payload)
        except StorageError as error:
            _log.debug("a wake-up could not be sent, polling will do: %s", error)
        except asyncio.CancelledError:
            # It may have gone out or not; twice does no harm.
            self._untold = merged(wake, self._untold)
            raise

    async def _listen(self) -> None:
        pause = _PAUSE
        while True:
            try:
                await self._listen_once()
            except StorageError as error:
                _log.debug("listening failed, polling will do meanwhile: %s", error)
            # Where it never worked, it is tried less and less often: whatever is between may never carry it.
            pause = _PAUSE if self._listening.is_set() else min(pause * 2, _LONGEST_PAUSE)
            self._listening.clear()
            await asyncio.sleep(pause)

    async def _listen_once(self) -> None:
        """Listen for as long as what we tell ourselves comes back."""
        connection = self._listener = await self._connections.session(command_timeout=PROBE_PATIENCE)
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            with translating():
                await connection.add_listener(self._channel, self._heard)
                while await self._comes_back(connection):
                    if not self._listening.is_set():
                        self._listening.set()
                        # Whatever was told while nobody listened here is lost: look at everything once.
                        self._call(Wake(many_runs=True))
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(PROBE_INTERVAL):
                            await lost.wait()
        finally:
            self._listener = None
            connection.terminate()

    async def _comes_back(self, connection: Connection) -> bool:
        self._probes += 1
        self._returned.clear()
        note = msgspec.json.encode(_Note(origin=self._origin, probe=self._probes)).decode()
        await connection.fetch(self._notify, self._channel, note)
        try:
            async with asyncio.timeout(PROBE_PATIENCE):
                await self._returned.wait()
        except TimeoutError:
            return False
        return True

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        try:
            note = _decode(payload)
        except (msgspec.DecodeError, UnicodeError):
            # Another version's words: something has changed, that much is understood.
            self._call(Wake(many_runs=True))
            return
        if note.origin == self._origin:
            if note.probe == self._probes:
                self._returned.set()
            return
        if note.probe:
            return
        self._call(
            Wake(
                queues=frozenset(note.queues),
                workers=frozenset(note.workers),
                runs=frozenset(note.runs),
                many_runs=note.many_runs,
                schedules=note.schedules,
            )
        )


def _begun(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task of it; where Python can, it has run already as far as it comes without waiting."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
    return asyncio.get_running_loop().create_task(work)


def _forget(subscribers: dict[object, Callable[[Wake], None]], ticket: object) -> None:
    subscribers.pop(ticket, None)
