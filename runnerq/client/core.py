"""What a client and its handles share: the storage, the codec, and every verb about one run by its id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

import msgspec

from runnerq.client.history import Entry, entries_of
from runnerq.client.hub import Hub, Stirs
from runnerq.client.info import RunInfo, info_of
from runnerq.client.options import checked_channel
from runnerq.client.readable import block_of, check_outcome, check_text, journal_of
from runnerq.client.reported import reported_send
from runnerq.errors import (
    DecodingError,
    ResultTimeout,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunNotFound,
    StorageUnavailable,
    UsageError,
    WrongState,
)
from runnerq.persistence.coded import coded
from runnerq.persistence.protocol import Joined, Storage
from runnerq.persistence.records import Ended, NewRun, NewSignal, Outcome, RunRecord, Sent, StartReply, Status
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import CannotRebuild, Failure, modules_snapshot, read, rebuild
from runnerq.serialization.sealing import Chain
from runnerq.telemetry.carrying import PARENT, trace_in
from runnerq.telemetry.listeners import Telemetry
from runnerq.workflow.commands import Signal, channel_type

T = TypeVar("T")

START_TRIES = 3
START_AGAIN = 0.2
"""Seconds before a start whose reply was lost is sent again; twice that the next time."""


class Source(Protocol):
    """Where the storage comes from, and what must end with it. ``place`` says it to people, without a password."""

    @property
    def place(self) -> str: ...

    async def open(self) -> Storage: ...

    async def close(self) -> None: ...


class Given:
    """A storage that the caller made."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def place(self) -> str:
        return type(self._storage).__name__

    async def open(self) -> Storage:
        await self._storage.open()
        return self._storage

    async def close(self) -> None:
        await self._storage.close()


class Core:
    """The verbs about one run. ``storage`` is there from the start if it was given, else while the client is open.

    ``chain`` is what is around every stored payload; ``storage`` is the one that a client and its workers see, with it.
    ``lasting`` says that what was started is there to stay; before a transaction of the caller's commits it is not.
    ``telemetry`` is told of starts and signals; None, where nobody listens.
    """

    lasting = True

    def __init__(
        self,
        source: Source,
        storage: Storage | None,
        codec: Codec,
        chain: Chain | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.codec = codec
        self.telemetry = telemetry
        self.chain = chain
        self._source = source
        self._given = None if storage is None else coded(storage, chain)
        self._storage = self._given
        self._hub: Hub | None = None
        self._open = False
        self._ready = False
        self.loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        if self._open:
            raise UsageError("this client is open already: open it once, and close it before it is opened again")
        self._open = True
        self.loop = asyncio.get_running_loop()
        try:
            self._storage = coded(await self._source.open(), self.chain)
        except BaseException:
            self.forget()
            raise
        self._ready = True

    @property
    def place(self) -> str:
        """Where the storage is, for people: never with a password."""
        return self._source.place

    @property
    def opened_on(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that it is open on; None before it is, and after."""
        return self.loop if self._ready else None

    def forget(self) -> None:
        """Be as before it was opened, whatever is open: a process made by fork leaves what is the parent's alone."""
        self._hub = self.loop = None
        self._open = self._ready = False
        self._storage = self._given

    async def close(self) -> None:
        hub = self._hub
        self.forget()
        try:
            if hub is not None:
                await hub.close()
        finally:
            await self._source.close()

    @property
    def storage(self) -> Storage:
        if self._storage is None:
            raise UsageError("this client is not open: use `async with connect(...) as client`, or await client.open()")
        return self._storage

    @property
    def outside(self) -> Core:
        """What sees all that is committed: this very one, unless its writes are part of a transaction."""
        return self

    @property
    def writes(self) -> Joined:
        """What starts and sends."""
        return self.storage

    @property
    def hub(self) -> Hub:
        # Made when first waited for: it listens on the event loop of its waiters.
        if self._hub is None:
            self._hub = Hub(self.storage)
        return self._hub

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        """Create these; sent again where the storage did not answer, which their ids make harmless."""
        if self._hub is not None and len(runs) == 1:
            self._hub.expect(runs[0].id)
        return await self._sent_again(lambda: self.writes.start(runs))

    async def start_or_send(self, run: NewRun, signals: Sequence[tuple[Signal[Any] | str, Any]]) -> StartReply:
        """Create this and send it the signals, or send them to the run that holds its key. Sent again as ``start`` is.

        Raises RunFinished if the run found has ended: nothing is sent then.
        """
        what = f"to a run of {run.name}"
        trace = trace_in(run.options) if self.telemetry is not None else None
        news = [
            # Each has a dedup id: what is sent again counts once.
            NewSignal(
                run_id=run.id, channel=checked_channel(channel), value=self.payload(channel, value, what),
                dedup=f"{run.id}:{nth}", trace=None if trace is None else trace.get(PARENT),
            )
            for nth, (channel, value) in enumerate(signals)
        ]  # fmt: skip
        reply, sent = await self._sent_again(lambda: self.writes.start_or_send(run, news))
        # Of a run that this made, the signals came with it: it may have ended by the time that they are sent again.
        if Sent.FINISHED in sent and not reply.created and not reply.refused:
            raise RunFinished(reply.id, (await self.outside.record(reply.id)).status)
        return reply

    async def trigger(self, schedule: str, run: NewRun) -> StartReply | None:
        """Start this as a run of a schedule; None if there is none. Sent again as ``start`` is."""
        return await self._sent_again(lambda: self.storage.trigger(schedule, run))

    async def _sent_again(self, send: Callable[[], Awaitable[T]]) -> T:
        for nth in range(1, START_TRIES):
            try:
                return await send()
            except StorageUnavailable:
                await asyncio.sleep(START_AGAIN * nth)
        return await send()

    async def record(self, run_id: str) -> RunRecord:
        record = await self.storage.run(run_id)
        if record is None:
            raise RunNotFound(run_id)
        return record

    async def info(self, run_id: str) -> RunInfo:
        return info_of(await self.record(run_id))

    async def state(self, run_id: str) -> dict[str, Any]:
        text = await self.storage.state(run_id)
        if text is not None:
            check_text(text, run_id, "the published state")
            return msgspec.json.decode(text, type=dict[str, Any])
        await self.record(run_id)
        return {}

    async def history(self, run_id: str, generation: int | None) -> list[Entry]:
        record = await self.record(run_id)
        journal = await journal_of(self.storage, run_id, generation)
        if journal is None:
            raise RunNotFound(run_id)
        if generation is not None and not 1 <= generation <= record.generation:
            raise ValueError(f"run {run_id} has the generations 1 to {record.generation}, not {generation}")
        return entries_of(journal, record.name)

    async def send(self, run_id: str, channel: Signal[Any] | str, value: Any, dedup: str | None) -> bool:
        name = checked_channel(channel)
        if dedup == "":
            raise ValueError("a dedup id is a non-empty str: leave it out to count each send")
        text = self.payload(channel, value, f"to run {run_id}")
        signal = NewSignal(run_id=run_id, channel=name, value=text, dedup=dedup)
        if self.telemetry is None:
            [sent] = await self.writes.send([signal])
        else:
            sent = await reported_send(self.telemetry, signal, self.writes.send)
        match sent:
            case Sent.UNKNOWN:
                raise RunNotFound(run_id)
            case Sent.FINISHED:
                raise RunFinished(run_id, (await self.outside.record(run_id)).status)
            case Sent.SENT | Sent.DUPLICATE:
                return sent is Sent.SENT

    def payload(self, channel: Signal[Any] | str, value: Any, whither: str) -> str:
        """What is sent. EncodingError or TypeError, naming channel and type, for a value that it cannot be."""
        what = f"the signal {checked_channel(channel)!r} {whither}"
        text = self.codec.encode(value, what)
        type_ = channel_type(channel)
        if type_ is not Any:
            try:
                self.codec.decode(text, type_, what)
            except DecodingError as error:
                raise TypeError(str(error)) from error
        return text

    async def cancel(self, run_id: str, reason: str | None) -> bool:
        [sent] = await self.storage.cancel([run_id], reason)
        if sent is Sent.UNKNOWN:
            raise RunNotFound(run_id)
        return sent is Sent.SENT

    async def terminate(self, run_id: str) -> bool:
        [sent] = await self.storage.terminate([run_id])
        if sent is Sent.UNKNOWN:
            raise RunNotFound(run_id)
        return sent is Sent.SENT

    async def result(self, run_id: str, returns: Any, timeout: float | None, known: bool) -> Any:
        """The run's result, decoded. One that may not exist is looked up first, which finds one that has ended too."""
        outcome = None if known else ended(await self.record(run_id))
        if outcome is None:
            outcome = await self.hub.ended(run_id, timeout)
        if outcome is None:
            raise await self._late(run_id, timeout, "its result")
        return await self._answer(outcome, returns)

    async def reached(self, run_id: str, statuses: frozenset[Status], timeout: float | None) -> Status:
        """The status, once it is one of these. WrongState if the run ended as something else."""
        names = ", ".join(sorted(statuses))

        async def look() -> Status | None:
            status = (await self.record(run_id)).status
            if status in statuses:
                return status
            if status.ended:
                raise WrongState(run_id, status, f"waiting until it is {names}")
            return None

        return await self._watch(run_id, look, timeout, f"it to be {names}")

    async def wait(self, run_id: str, holds: Callable[[dict[str, Any]], Any], timeout: float | None) -> dict[str, Any]:
        """The published state, once ``holds`` is true of it. WrongState if the run ended before."""

        async def look() -> dict[str, Any] | None:
            # The status first: a state that is read after the end is the last one.
            status = (await self.record(run_id)).status
            state = await self.state(run_id)
            if holds(state):
                return state
            if status.ended:
                raise WrongState(run_id, status, "waiting for its published state")
            return None

        return await self._watch(run_id, look, timeout, "its published state")

    async def _watch(self, run_id: str, look: Callable[[], Awaitable[T | None]], timeout: float | None, what: str) -> T:
        clock = asyncio.get_running_loop().time
        until = None if timeout is None else clock() + timeout
        with self.hub.changes(run_id) as changes:
            while True:
                found = await look()
                if found is not None:
                    return found
                if not await changes.next(None if until is None else until - clock()):
                    raise await self._late(run_id, timeout, what)

    async def stirred(self, stirs: Stirs) -> None:
        """Return when there may be something new for who follows everything."""
        await stirs.next()

    async def _late(self, run_id: str, waited: float | None, what: str) -> ResultTimeout:
        status = (await self.record(run_id)).status
        blocked = await block_of(self.storage, run_id) if status is Status.BLOCKED else None
        return ResultTimeout(run_id, status, waited or 0.0, blocked, what)

    async def _answer(self, outcome: Outcome, returns: Any) -> Any:
        match check_outcome(outcome).status:
            case "completed":
                return self.codec.decode(outcome.result or "null", returns, f"the result of run {outcome.run_id}")
            case "cancelled":
                raise RunCancelled(outcome.run_id, outcome.reason)
            case "failed" | "dead_letter":
                failure = None if outcome.error is None else read(outcome.error)
                workflow = (await self.record(outcome.run_id)).name
                failed = RunFailed(outcome.run_id, workflow, outcome.status, outcome.reason, failure)
                raise failed from (None if failure is None else _rebuilt(failure))


def _rebuilt(failure: Failure) -> Exception | None:
    """The recorded exception, if its class is loaded here; the record says the same in any case."""
    try:
        return rebuild(failure, modules_snapshot())
    except CannotRebuild:
        return None


def ended(record: RunRecord) -> Outcome | None:
    """The record's outcome, if it has ended."""
    if record.ended_at is None or not record.status.ended:
        return None
    return Outcome(
        run_id=record.id,
        status=cast("Ended", record.status.value),
        ended_at=record.ended_at,
        result=record.result,
        error=record.error,
        reason=record.reason,
        cancel_requested=record.cancel_requested,
    )
