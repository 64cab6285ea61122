"""The beat's own way to Postgres: a connection of the beating thread's."""

from __future__ import annotations

from datetime import datetime

from runnerq.persistence.postgres.connections import Connections
from runnerq.persistence.postgres.faults import told
from runnerq.persistence.postgres.lending import Connection
from runnerq.persistence.postgres.statements import Statements
from runnerq.persistence.records import Arrival, Pulse

_PATIENCE = 5.0
"""Seconds for a beat; a silent server must be noticed well before a lease runs out."""

# So that the server, too, notices soon that this worker is cut off (it ignores them on a socket of the same machine).
_KEEPALIVES = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}


class PostgresHeart:
    """Beats over one connection, and makes a new one when it is gone. Every beat names it in the worker's row."""

    def __init__(self, connections: Connections, statements: Statements) -> None:
        self._connections = connections
        self._statements = statements
        self._connection: Connection | None = None
        self._pid: int | None = None
        self._start: datetime | None = None

    async def open(self) -> None:
        connection = await self._connections.connect(_KEEPALIVES, command_timeout=_PATIENCE)
        try:
            with told():
                record = await connection.fetchrow(self._statements["read_backend"])
        except BaseException:
            connection.terminate()
            raise
        # Another pid than the greeting's: a pooler is between, and its connections say nothing about this process.
        if record is not None and record["pid"] == connection.get_server_pid():
            self._pid, self._start = record["pid"], record["start"]
        else:
            self._pid, self._start = None, None
        self._connection = connection

    async def beat(self, worker_id: int) -> Pulse:
        if self._connection is None or self._connection.is_closed():
            await self.open()
        connection = self._connection
        assert connection is not None, "just opened"  # noqa: S101 - just opened
        with told():
            try:
                records = await connection.fetch(self._statements["beat"], worker_id, self._pid, self._start)
            except BaseException:
                # Whatever happened to it, the next beat starts afresh.
                connection.terminate()
                raise
        return Pulse(
            alive=records[0]["alive"],
            now=records[0]["now"],
            arrivals=tuple(
                Arrival(run_id=record["run_id"], inbox=record["inbox"], cancel=record["cancel"])
                for record in records
                if record["run_id"] is not None
            ),
        )

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with told():
                await connection.close(timeout=_PATIENCE)
