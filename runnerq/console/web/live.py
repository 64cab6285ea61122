"""The live channel: what changes, told to every page that is open.

Rules
- One tail for any number of streams: it begins with the first and ends soon after the last. A stream is told ``hello``
  once the tail has begun, and its page looks again then: what changed before is in what it sees, what changes later is
  told.
- What is told are names, never payloads: a run's id, what happened to it, its workflow.
- The tail tells what began and ended; that a run has moved in between (parked, published) is heard as a wake, and told
  as ``changed``. Without wakes, as through a pooler, pages look again by themselves.
- Pages are told every quarter of a second at most; more changes than fit are one ``many``. Who watches some runs is
  told of these alone. A program that follows everything gets each event.
- Nobody waits for a slow reader: one whose queue is full loses it, and gets ``resync``, which says: look again.
- A stream ends after five minutes, so that the asker is looked at again, when they sign out, and when the server is
  about to stop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection

import msgspec

from runnerq.client.values import Event
from runnerq.console.web.opening import Opening
from runnerq.console.web.stopping import LOOK_EVERY, stopping
from runnerq.errors import RunnerQError, StorageUnavailable
from runnerq.persistence.records import Wake

MOST_STREAMS = 64
MOST_OF_ONE = MOST_STREAMS // 2
"""Streams of one asker: nobody keeps all others from theirs."""
QUEUE = 500
KEPT = 1_000
"""Events that a stream which comes back can still be told of."""
GATHER = 0.25
MANY = 50
"""Changes at once that are still told one by one."""
HEARTBEAT = 15.0
LINGER = 5.0
"""Seconds that the tail goes on without a stream: who opens the next page closes the last one first."""
LIFE = 300.0
UNREAD = 5.0
"""Seconds that a place is kept for a stream which nobody begins to read: the asker has left meanwhile."""

RESYNC = b"event: resync\ndata: {}\n\n"
BEAT = b": beat\n\n"

_STATUSES = {
    "started": "ready",
    "completed": "completed",
    "failed": "failed",
    "dead_letter": "dead_letter",
    "cancelled": "cancelled",
    "terminated": "cancelled",
    "blocked": "blocked",
}
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("runnerq.console")


class TooManyStreams(RunnerQError):
    """As many streams as there may be are open, or as one asker may have. ``retry_in`` is seconds."""

    retry_in = 10

    def __init__(self, most: int, whose: str) -> None:
        super().__init__(f"{most} live streams {whose} are open, as many as there may be: look again at intervals")


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a stream is told of a run or a queue. ``status`` is left out where the event does not say it."""

    type: str
    seq: int
    id: str | None = None
    workflow: str | None = None
    queue: str | None = None
    status: str | None = None


class Listener:
    """One stream: what it has not been sent yet. ``begun``: somebody reads it. ``asker`` is whose it is."""

    def __init__(self, watch: frozenset[str], *, whole: bool, asker: str) -> None:
        self.watch = watch
        self.whole = whole
        self.asker = asker
        self.closed = False
        self.begun = False
        self._frames: deque[bytes] = deque()
        self._stirred = asyncio.Event()

    def tell(self, frame: bytes) -> None:
        """Have it sent, or have the reader look again if too much is unsent."""
        if len(self._frames) >= QUEUE:
            self._frames.clear()
            frame = RESYNC
        self._frames.append(frame)
        self._stirred.set()

    def close(self) -> None:
        """Nothing more will come."""
        self.closed = True
        self._stirred.set()

    async def next(self, within: float) -> bytes:
        """What is to be sent, all at once; empty if nothing came."""
        try:
            async with asyncio.timeout(within):
                await self._stirred.wait()
        except TimeoutError:
            return b""
        self._stirred.clear()
        told = b"".join(self._frames)
        self._frames.clear()
        return told


class Live:
    """The hub of one console."""

    def __init__(self, opening: Opening, changed: Callable[[], None]) -> None:
        """``changed`` is called whenever something has happened: what is kept of answers is not true any more."""
        self._opening = opening
        self._changed = changed
        self._listeners: set[Listener] = set()
        self._places: set[Listener] = set()
        self._running: asyncio.Task[None] | None = None
        self._tails: set[asyncio.Task[None]] = set()
        self._begun: asyncio.Future[None] | None = None
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._boot = secrets.token_hex(4)
        self._seq = 0
        self._changes: dict[str, Change] = {}
        self._moved: set[str] = set()
        self._everything_moved = False
        self._stirred = asyncio.Event()

    @property
    def streams(self) -> int:
        """How many are open, or about to be."""
        return len(self._places)

    async def begin(self, *, asker: str, watch: Collection[str] = (), whole: bool = False) -> Listener:
        """A place for a stream, once whatever happens from now on will be told. ``watch``: only of these runs;
        ``whole``: each event. It is given back where ``frames`` does not begin soon. ``asker`` is their session, or who
        they are and where they come from.

        Raises:
            TooManyStreams: as many as there may be are open, or as one asker may have.
            StorageUnavailable: there is nobody to hear it from.
        """
        if len(self._places) >= MOST_STREAMS:
            raise TooManyStreams(MOST_STREAMS, "in all")
        if sum(place.asker == asker for place in self._places) >= MOST_OF_ONE:
            raise TooManyStreams(MOST_OF_ONE, "of yours")
        # Taken before anything is waited for: many may ask at once.
        place = Listener(frozenset(watch), whole=whole, asker=asker)
        self._places.add(place)
        try:
            await self._hearing()
        except BaseException:
            self._places.discard(place)
            raise
        asyncio.get_running_loop().call_later(UNREAD, self._give_back_unread, place)
        return place

    def end(self, asker: str) -> None:
        """End the streams of one asker."""
        for place in self._places:
            if place.asker == asker:
                place.close()

    def _give_back_unread(self, place: Listener) -> None:
        if not place.begun:
            place.close()
            self._places.discard(place)

    async def _hearing(self) -> None:
        """Return when the tail has begun."""
        if self._running is None or self._running.done():
            self._begun = asyncio.get_running_loop().create_future()
            # What happened while nobody listened is not known: who comes back has to look again.
            self._boot = secrets.token_hex(4)
            self._recent.clear()
            self._running = asyncio.create_task(self._run(self._begun), name="runnerq-console-live")
            self._tails.add(self._running)
            self._running.add_done_callback(self._tails.discard)
        begun = self._begun
        assert begun is not None  # noqa: S101 - made with the task
        # Many may wait for it; one that gives up must not take it from the others.
        await asyncio.shield(begun)

    async def frames(self, listener: Listener, last: str | None = None) -> AsyncGenerator[bytes, None]:
        """One stream, as it is sent. ``last``: the id of the last event that the reader has seen."""
        listener.begun = True
        self._listeners.add(listener)
        try:
            yield b"retry: 2000\nevent: hello\ndata: {}\n\n" + self._missed(last, listener)
            until = asyncio.get_running_loop().time() + LIFE
            while not listener.closed and asyncio.get_running_loop().time() < until:
                yield await listener.next(HEARTBEAT) or BEAT
        finally:
            self._listeners.discard(listener)
            self._places.discard(listener)

    async def close(self) -> None:
        """End all streams."""
        self._end_streams()
        self._running = None
        tails = set(self._tails)
        for tail in tails:
            tail.cancel()
        if tails:
            await asyncio.wait(tails)

    def _end_streams(self) -> None:
        for listener in self._listeners:
            listener.close()

    def _missed(self, last: str | None, listener: Listener) -> bytes:
        """What came after the event that a reader has seen last, while nobody read; ``resync`` if that is not known."""
        if not last:
            return b""
        boot, _, number = last.partition("-")
        oldest = self._recent[0][0] if self._recent else self._seq + 1
        if boot != self._boot or not number.isdigit() or int(number) + 1 < oldest or listener.watch:
            return RESYNC
        return b"".join(frame for seq, frame in self._recent if seq > int(number))

    # --- hearing ------------------------------------------------------------------------------------------------------

    async def _run(self, begun: asyncio.Future[None]) -> None:
        try:
            client = await self._opening.ready()
            unsubscribe = client.storage.subscribe(self._hear)
            try:
                # Where it begins is asked for first: once that is known, nothing is missed.
                cursor = (await client.storage.events(None, 1)).cursor
                begun.set_result(None)
                await self._follow(client.events(after=cursor))
            finally:
                unsubscribe()
        except Exception as error:  # noqa: BLE001 - told to who waits for it, else logged
            if begun.done():
                _log.warning("the live channel has ended, and its streams with it: %r", error)
            else:
                begun.set_exception(error)
        finally:
            if not begun.done():
                begun.set_exception(StorageUnavailable("the live channel was closed while it was waited for"))
            if begun.exception() is None and self._running is asyncio.current_task():
                # The client was closed: nobody tells us anything any more.
                self._end_streams()

    async def _follow(self, events: AsyncIterator[Event]) -> None:
        """Tell what happens until the client is closed, nobody listens any more, or the server stops."""
        parts = [
            asyncio.create_task(part) for part in (self._take_all(events), self._tell_in_turn(), self._until_unneeded())
        ]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        for part in done:
            # What one of them raised is raised here.
            part.result()

    async def _until_unneeded(self) -> None:
        clock = asyncio.get_running_loop().time
        listened = clock()
        while not stopping():
            if self._places:
                listened = clock()
            elif clock() - listened > LINGER:
                # From now on a new stream begins a tail of its own, also before this one is over.
                self._running = None
                return
            await asyncio.sleep(LOOK_EVERY)
        self._end_streams()

    async def _take_all(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        self._seq += 1
        change = Change(
            type=event.kind,
            seq=self._seq,
            id=event.run_id,
            workflow=event.workflow,
            queue=event.queue,
            status=_STATUSES.get(event.kind),
        )
        frame = self._frame(change)
        self._recent.append((self._seq, frame))
        for listener in self._listeners:
            if listener.whole and (not listener.watch or event.run_id in listener.watch):
                listener.tell(frame)
        self._changed()
        # The last word about a run is what its pages need.
        self._changes[event.run_id or f"queue {event.queue}"] = change
        self._stirred.set()

    def _hear(self, wake: Wake) -> None:
        self._moved |= wake.runs
        self._everything_moved |= wake.many_runs
        if wake.runs or wake.many_runs:
            self._stirred.set()

    async def _tell_in_turn(self) -> None:
        while True:
            await self._stirred.wait()
            await asyncio.sleep(GATHER)
            self._stirred.clear()
            self._tell_pages()

    def _tell_pages(self) -> None:
        changes, self._changes = self._changes, {}
        moved, self._moved = self._moved, set()
        everything, self._everything_moved = self._everything_moved, False
        for run_id in moved - changes.keys():
            self._seq += 1
            changes[run_id] = Change(type="changed", seq=self._seq, id=run_id)
        frames = {key: self._frame(change) for key, change in changes.items()}
        if everything or len(frames) > MANY:
            self._seq += 1
            told = b"data: " + _encode({"type": "many", "seq": self._seq, "count": len(frames)}) + b"\n\n"
        else:
            told = b"".join(frames.values())
        for listener in self._listeners:
            if listener.whole:
                continue
            if not listener.watch:
                listener.tell(told)
            elif everything:
                listener.tell(RESYNC)
            elif concerned := listener.watch & frames.keys():
                listener.tell(b"".join(frames[run_id] for run_id in concerned))

    def _frame(self, change: Change) -> bytes:
        return b"id: %s-%d\ndata: %b\n\n" % (self._boot.encode(), change.seq, _encode(change))
