"""The beat's own way to Postgres: a connection of the beating thread's."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain

import asyncpg

from runnerq.errors import StorageError, StorageRefused
from runnerq.persistence.postgres.connections import Connections
from runnerq.persistence.postgres.documents import details_parameters
from runnerq.persistence.postgres.faults import translating
from runnerq.persistence.postgres.lending import Lent, can_only_read
from runnerq.persistence.postgres.statements import Statements
from runnerq.persistence.records import Arrival, Details, Load, Pulse

_PATIENCE = 5.0
"""Seconds for a beat; a silent server must be noticed well before a lease runs out."""

# So that the server, too, notices soon that this worker is cut off (it ignores them on a socket of the same machine).
_KEEPALIVES = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}

_NO_LOAD = Load()
_log = logging.getLogger("runnerq.postgres")


class PostgresHeart:
    """Beats over one connection, and makes a new one when it is gone. Every beat names it in the worker's row."""

    def __init__(self, connections: Connections, statements: Statements) -> None:
        self._connections = connections
        self._statements = statements
        self._connection: Lent | None = None
        self._pid: int | None = None
        self._start: datetime | None = None

    async def open(self) -> None:
        if not self._connections.has_sessions:
            # A pooler's connections say nothing about this process: its lease alone does.
            self._connection = await self._connections.connect_for_statements(command_timeout=_PATIENCE)
            return
        connection = await self._connections.session(_KEEPALIVES, command_timeout=_PATIENCE)
        try:
            with translating():
                [backend] = await connection.fetch(self._statements["read_backend"])
        except BaseException:
            connection.terminate()
            raise
        self._pid, self._start = backend["pid"], backend["start"]
        self._connection = connection

    async def beat(self, worker_id: int, load: Load = _NO_LOAD, details: Sequence[Details] = ()) -> Pulse:
        if self._connection is None or self._connection.is_closed():
            await self.open()
        connection = self._connection
        assert connection is not None, "just opened"  # noqa: S101 - just opened
        with translating():
            try:
                records = await connection.fetch(
                    self._statements["beat"],
                    worker_id,
                    self._pid,
                    self._start,
                    load.held,
                    load.running,
                    load.stuck,
                    load.late,
                    datetime.now(UTC),
                )
                alive = records[0]["alive"]
                held_back = await self._keep(connection, details) if alive and details else ()
            except asyncpg.PostgresError as error:
                # The server has answered, so this worker is there. A connection that is dropped for it would say
                # otherwise: the worker's row names it. One that the server has ended is closed by now.
                if can_only_read(error):
                    connection.terminate()
                raise
            except BaseException:
                # Whatever happened to it, the next beat starts afresh.
                connection.terminate()
                raise
        return Pulse(
            alive=alive,
            now=records[0]["now"],
            arrivals=tuple(
                Arrival(run_id=record["run_id"], inbox=record["inbox"], cancel=record["cancel"])
                for record in records
                if record["run_id"] is not None
            ),
            held_back=held_back,
            drain=records[0]["drain"],
        )

    async def _keep(self, connection: Lent, details: Sequence[Details]) -> tuple[str, ...]:
        """Write the details; the runs whose details are to be sent again."""
        try:
            with translating():
                records = await connection.fetch(self._statements["keep_details"], *details_parameters(details))
        except StorageRefused as refusal:
            if len(details) > 1:
                return tuple(chain.from_iterable([await self._keep(connection, [each]) for each in details]))
            # A refused text must not cost the worker its lease.
            [refused] = details
            _log.warning("run %s: the details of %r are refused: %s", refused.run_id, refused.position, refusal)
            return ()
        except StorageError as error:
            # The beat is written. The server has answered to the details, too, so that this worker is there.
            if connection.is_closed() or not isinstance(error.__cause__, asyncpg.PostgresError):
                raise
            _log.warning("the details of %d runs were not kept, and are sent again: %s", len(details), error)
            return tuple({each.run_id for each in details})
        return tuple(record["run_id"] for record in records)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with translating():
                await connection.close(timeout=_PATIENCE)
