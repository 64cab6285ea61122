"""Starts and sends, in transactions of the storage's own or in somebody else's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from runnerq.persistence.postgres import rows
from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.postgres.run_documents import (
    Parameters,
    alike_parameters,
    start_parameters,
    whole_start_parameters,
)
from runnerq.persistence.postgres.statements import Statements
from runnerq.persistence.postgres.texts import plain
from runnerq.persistence.records import NewRun, NewSignal, Sent, StartReply, Wake

T = TypeVar("T")


class Fetches(Protocol):
    """Runs a statement."""

    async def fetch(self, query: str, /, *args: object) -> Sequence[Record]: ...


class Within(Protocol):
    """Where the statements of starts and sends are run: ``Connections``, or a transaction of the caller's."""

    async def fetch(self, statement: str, *args: object) -> Sequence[Record]: ...
    async def fetch_patient(self, statement: str, *args: object) -> Sequence[Record]: ...
    async def in_transaction(self, work: Callable[[Fetches], Awaitable[T]]) -> T: ...


class Told(Protocol):
    """Who hears of what was started."""

    def tell(self, wake: Wake) -> None: ...


class Starts:
    """Whoever is concerned is told after each statement."""

    def __init__(self, within: Within, statements: Statements, told: Told) -> None:
        self._within = within
        self._statements = statements
        self._told = told

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        unique = {run.id: run for run in runs}
        if not unique:
            return []
        alike = alike_parameters(list(unique.values()))
        if alike is not None:
            await self._within.fetch(self._statements["start_alike"], *alike)
            self._told.tell(Wake(queues=frozenset({runs[0].queue})))
            return [StartReply(id=run.id, created=True) for run in runs]
        # A parent's row and a key may be held by somebody's transaction, for as long as that likes.
        waits = any(run.parent_id is not None or run.key is not None for run in unique.values())
        fetch = self._within.fetch_patient if waits else self._within.fetch
        records = await fetch(*self.starting(list(unique.values())))
        replies = {given: rows.start_reply(record) for given, record in zip(unique, records, strict=True)}
        self._told.tell(Wake(queues=frozenset(run.queue for run in unique.values() if replies[run.id].created)))
        return [replies[run.id] for run in runs]

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        async def both(connection: Fetches) -> tuple[StartReply, Sequence[Record]]:
            # Apart: the holder of the key may have been created by whom the first statement has waited for.
            [started] = await connection.fetch(*self.starting([run]))
            reply = rows.start_reply(started)
            if reply.refused or not signals:
                return reply, ()
            return reply, await connection.fetch(*self._sending(signals, [reply.id] * len(signals)))

        reply, records = await self._within.in_transaction(both)
        born = (run.queue,) if reply.created else ()
        self._told.tell(wake_of(records, ("ready_queue",), ("worker_id",), more_queues=born))
        return reply, [Sent(record["sent"]) for record in records]

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        if not signals:
            return []
        records = await self._within.fetch_patient(*self._sending(signals, [signal.run_id for signal in signals]))
        self._told.tell(wake_of(records, ("ready_queue",), ("worker_id",)))
        return [Sent(record["sent"]) for record in records]

    def starting(self, runs: Sequence[NewRun]) -> Parameters:
        """The statement that creates these runs, and its parameters."""
        if any(run.rows or run.parent_id is not None for run in runs):
            return [self._statements["start_runs"], *whole_start_parameters(runs)]
        return [self._statements["start_runs_plain"], *start_parameters(runs)]

    def _sending(self, signals: Sequence[NewSignal], run_ids: Sequence[str]) -> Parameters:
        """The statement that sends these signals to these runs, by place, and its parameters."""
        return [
            self._statements["send_signals"],
            run_ids,
            [plain(signal.channel, "the channel") for signal in signals],
            [signal.value for signal in signals],
            [None if signal.dedup is None else plain(signal.dedup, "the dedup id") for signal in signals],
            [None if signal.trace is None else plain(signal.trace, "the trace") for signal in signals],
        ]


def wake_of(
    records: Sequence[Record],
    queues: tuple[str, ...],
    workers: tuple[str, ...],
    runs: Iterable[str] = (),
    more_queues: Iterable[str] = (),
) -> Wake:
    """The wake of what a statement answered: the columns that name queues and workers, and runs that changed."""
    return Wake(
        queues=frozenset(record[name] for name in queues for record in records if record[name] is not None).union(
            more_queues
        ),
        workers=frozenset(record[name] for name in workers for record in records if record[name] is not None),
        runs=frozenset(runs),
    )
