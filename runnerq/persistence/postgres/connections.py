"""Connections: how they are made, checked and lent.

Rules
- Pools by what a statement may wait for, so that one kind never waits for another. ``prompt`` and ``turns`` wait for no
  lock, and give a silent connection up soon. ``patient`` may wait for a run's row, for as long as somebody holds it;
  it is tried for a moment, and again after a pause, in which nothing is locked and the connection is somebody else's.
  Who tries again never has more than half of its connections. ``durable`` is for what waits at most for others of our
  own, none of which holds a lock while it waits for long: starts of roots, registrations, pauses. ``quick`` has
  synchronous_commit off, for what is harmless to lose: claims and wake-ups; ``fresh`` plans each statement for what it
  is given, for people's filters. ``whole`` ones are for transactions of users.
- Plans do not depend on how large the tables were when they were made: they are generic, tables are probed by key, and
  the rows of a batch are joined by hash. Without that, a plan cached over empty tables makes a claim take seconds
  later.
- Through a pooler there is no session of ours, and so no settings and no statements that are kept: each is planned when
  it is sent (``nameless``). Claims and upkeep, which look among all runs, bring these settings in their transactions:
  without, a sweep over tables that were not analyzed yet takes seconds, most of them to compile it (jit).
- Several statements of one transaction rely on seeing what was committed before each of them: the isolation is READ
  COMMITTED, whatever is set for the database. Its other settings are left alone, but for what migrations may take.
- A machine that vanishes in the middle of a transaction of ours keeps what that holds for SILENT and no longer.
- That the DSN leads to a pooler is said by ``pooled``, and found out where it is not. What needs a session, LISTEN and
  the beat's presence, takes ``direct_dsn``, or does without.
- A server that does not answer is asked again until ``connect_timeout``; one that refuses us is not.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, TypeVar, cast

import asyncpg

from runnerq.errors import ConfigurationError, StorageUnavailable
from runnerq.persistence.postgres.faults import translating
from runnerq.persistence.postgres.greeting import STEADY_PLANS, Seen, call, look, place_of
from runnerq.persistence.postgres.lending import Connection, Lent, Pool, Record
from runnerq.persistence.postgres.nameless import Nameless

T = TypeVar("T")

COMMAND_TIMEOUT = 60.0
"""Seconds after which a statement counts as unanswered; only a lock that somebody holds for so long comes near it."""

PROMPT_TIMEOUT = 15.0
"""The same for what never waits for a lock: claims, and turns, which are sent again until they are answered."""

SILENT = 10_000
"""Milliseconds for which the server lets a transaction of ours be idle: its client is gone."""

_LOCK_PIECE = {"lock_timeout": "50"}
"""Milliseconds of one try: as long as each of a crowd that wants one held run keeps another one waiting."""

_NOT_HAD = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)
"""How the server breaks off a wait for a lock.

The time of one wait may run out just as its lock is had. A statement that goes on to wait for another is then told that
a user called it off. Nobody did: after a cancel of ours asyncpg raises that, and not this.
"""

_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
"""Seconds between two tries to get a lock that somebody holds."""

_READ_COMMITTED = {"default_transaction_isolation": "read committed"}
_KEPT_ALIVE = {"tcp_keepalives_idle": "60", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3"}
"""So that a firewall or a load balancer between does not forget a connection that is idle for some minutes."""

_HARMLESS_TO_LOSE = {"synchronous_commit": "off"}
_NOT_COMPILED = {"jit": "off"}
_DURABLE_CONNECTIONS = 4
_TURN_CONNECTIONS = 2
_PROMPT_CONNECTIONS = 4
_PATIENT_CONNECTIONS = 4
_TRYING_AGAIN = 2
_UPKEEP_CONNECTIONS = 2
_QUICK_CONNECTIONS = 2
_FRESH_CONNECTIONS = 2
_TRANSACTION_CONNECTIONS = 10
_KEPT_STATEMENTS = 200
_PARTING = 5.0

_log = logging.getLogger("runnerq.postgres")


class _Pools(NamedTuple):
    """By what a statement may wait for; see the rules."""

    durable: Pool
    prompt: Pool
    patient: Pool
    upkeep: Pool
    quick: Pool
    turns: Pool
    fresh: Pool
    transactions: Pool


class Connections:
    """The connections of one storage object. Used on one event loop; those of the caller's own may be had on any."""

    def __init__(
        self, dsn: str, connect_timeout: float, *, pooled: bool = False, direct_dsn: str | None = None
    ) -> None:
        self._dsn = dsn
        self._direct_dsn = direct_dsn
        self._pooled = pooled or direct_dsn is not None
        self._connect_timeout = connect_timeout
        self._database: str | None = None
        self._trying_again = asyncio.Semaphore(_TRYING_AGAIN)
        self._made: _Pools | None = None

    async def open(self) -> None:
        """Look at the server once, then make the pools.

        Raises:
            ConfigurationError: a DSN cannot be read, or the two lead to different places.
            StorageUnavailable: nobody answers there, or whoever does lets us not in.
            SchemaError: the server cannot carry our tables.
        """
        seen = await look(self._dsn, self._connect_timeout)
        self._database = seen.database
        if seen.pooled and not self._pooled:
            _log.info(
                "%s is a pooler, so that wake-ups are not heard: give its server's own address as direct_dsn= "
                "to hear them, or say pooled=True to do without",
                place_of(self._dsn),
            )
            self._pooled = True
        if self._direct_dsn is not None:
            _check_direct(place_of(self._direct_dsn), await look(self._direct_dsn, self._connect_timeout), seen)
        prompt = self._pool(_PROMPT_CONNECTIONS, PROMPT_TIMEOUT)
        briefly = _LOCK_PIECE | {"idle_in_transaction_session_timeout": str(SILENT)}
        self._made = _Pools(
            durable=self._pool(_DURABLE_CONNECTIONS, COMMAND_TIMEOUT),
            prompt=prompt,
            patient=self._pool(_PATIENT_CONNECTIONS, COMMAND_TIMEOUT, briefly),
            upkeep=self._pool(_UPKEEP_CONNECTIONS, PROMPT_TIMEOUT, STEADY_PLANS) if self._pooled else prompt,
            quick=self._pool(_QUICK_CONNECTIONS, PROMPT_TIMEOUT, STEADY_PLANS | _HARMLESS_TO_LOSE),
            turns=self._pool(_TURN_CONNECTIONS, PROMPT_TIMEOUT),
            fresh=Pool(self._planned_anew, _FRESH_CONNECTIONS),
            transactions=Pool(self._whole, _TRANSACTION_CONNECTIONS),
        )

    async def close(self) -> None:
        pools, self._made = set(self._made or ()), None
        try:
            for pool in pools:
                await pool.close(_PARTING)
        finally:
            # Where a cancel has ended that.
            for pool in pools:
                pool.cut()

    @property
    def database(self) -> str | None:
        """The name that the server has for the database, whatever a pooler calls it; None before ``open``."""
        return self._database

    @property
    def has_sessions(self) -> bool:
        """Whether ``session`` can be had."""
        return not self._pooled or self._direct_dsn is not None

    @property
    def keeps_sessions(self) -> bool:
        """Whether a connection by the DSN is a session of its own, which keeps what is set from one transaction to the
        next."""
        return not self._pooled

    @asynccontextmanager
    async def whole(self) -> AsyncIterator[Connection]:
        """Lend a connection for a transaction of a user's: nothing is set on it, and no statement timed, by us."""
        with translating():
            async with self._pools.transactions.connection() as connection:
                yield cast("Connection", connection)

    async def session(
        self, settings: Mapping[str, str] | None = None, *, command_timeout: float = COMMAND_TIMEOUT
    ) -> Connection:
        """A connection of the caller's own to the server itself, and so a session; only where it can be had."""
        with translating():
            return await self._steady(self._direct_dsn or self._dsn, settings or {}, command_timeout)

    async def connect(self, *, command_timeout: float = COMMAND_TIMEOUT) -> Connection:
        """A connection of the caller's own for migrations; each transaction may find itself in another session."""
        # An index of a large table takes as long as it takes.
        settings = {"statement_timeout": "0"} if self.keeps_sessions else {}
        with translating():
            return await call(self._dsn, settings, command_timeout=command_timeout)

    async def connect_for_statements(self, *, command_timeout: float) -> Lent:
        """A connection of the caller's own for statements that are sent again and again, and need no session."""
        with translating():
            return await self._nameless({}, command_timeout)

    async def fetch(self, statement: str, *args: object) -> Sequence[Record]:
        with translating():
            return await self._pools.durable.fetch(statement, *args)

    async def fetch_prompt(self, statement: str, *args: object) -> Sequence[Record]:
        """``fetch`` for what waits for no lock."""
        with translating():
            return await self._pools.prompt.fetch(statement, *args)

    async def fetch_patient(self, statement: str, *args: object) -> Sequence[Record]:
        """``fetch`` for what may have to wait for a run that somebody's transaction holds.

        Raises StorageUnavailable where that lasts too long.
        """
        return await self._until_had(lambda: self._pools.patient.fetch(statement, *args))

    async def in_transaction(self, work: Callable[[Lent], Awaitable[T]]) -> T:
        """``fetch_patient`` for several statements, each of which sees what was committed before it began.

        It is all done anew, in another transaction, as long as somebody holds what one of them needs.
        """

        async def within() -> T:
            async with self._pools.patient.transaction() as connection:
                return await work(connection)

        return await self._until_had(within)

    async def in_transaction_at_once(self, work: Callable[[Lent], Awaitable[T]]) -> T | None:
        """``in_transaction``, once, or None if it has to wait for a lock longer than a moment; then nothing was
        written."""
        with translating():
            try:
                async with self._pools.patient.transaction() as connection:
                    return await work(connection)
            except _NOT_HAD:
                return None

    async def fetch_turns(self, statement: str, *args: object) -> Sequence[Record]:
        """``fetch`` for turns, which wait for no lock: one silent connection must not stop a worker for long."""
        with translating():
            return await self._pools.turns.fetch(statement, *args)

    async def fetch_upkeep(self, statement: str, *args: object) -> Sequence[Record]:
        """``fetch`` for what looks among all runs: its plan is steady also through a pooler."""
        with translating():
            return await self._pools.upkeep.fetch(statement, *args)

    async def fetch_quick(self, statement: str, *args: object) -> Sequence[Record]:
        """``fetch`` without waiting for the disk: for what is harmless to lose."""
        with translating():
            return await self._pools.quick.fetch(statement, *args)

    async def fetch_fresh(self, statement: str, *args: object) -> Sequence[Record]:
        """``fetch`` with a plan made for these arguments and for the tables as they are."""
        with translating():
            return await self._pools.fresh.fetch(statement, *args)

    async def fetch_impatiently(self, statement: str, *args: object) -> Sequence[Record] | None:
        """``fetch``, or None if it has to wait for a lock longer than a moment; then nothing was written."""
        with translating():
            try:
                async with self._pools.prompt.transaction() as connection:
                    await connection.execute(
                        f"set local lock_timeout = '200ms'; set local idle_in_transaction_session_timeout = {SILENT}"
                    )
                    return await connection.fetch(statement, *args)
            except _NOT_HAD:
                return None

    async def _until_had(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it as soon as nobody holds the locks that it needs; where one is not had, it has written nothing."""
        until = time.monotonic() + COMMAND_TIMEOUT
        pause = _PAUSE
        with translating():
            with suppress(*_NOT_HAD):
                return await work()
            while True:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                try:
                    async with self._trying_again:
                        return await work()
                except _NOT_HAD:
                    if time.monotonic() > until:
                        raise

    @property
    def _pools(self) -> _Pools:
        if self._made is None:
            raise StorageUnavailable("the storage is not open: call open(), or use it inside of 'async with'")
        return self._made

    def _pool(self, size: int, command_timeout: float, settings: Mapping[str, str] | None = None) -> Pool:
        local = settings or {}
        if self._pooled:
            return Pool(lambda: self._nameless(local, command_timeout), size)
        return Pool(lambda: self._steady(self._dsn, local, command_timeout), size)

    async def _whole(self) -> Connection:
        kept = 0 if self._pooled else _KEPT_STATEMENTS
        return await call(self._dsn, {}, command_timeout=None, kept_statements=kept)

    async def _planned_anew(self) -> Lent:
        """What is asked once is not worth compiling: that takes longer than the answer."""
        if self._pooled:
            return await self._nameless(_NOT_COMPILED, COMMAND_TIMEOUT)
        return Nameless(await call(self._dsn, _NOT_COMPILED, command_timeout=COMMAND_TIMEOUT))

    async def _nameless(self, settings: Mapping[str, str], command_timeout: float) -> Lent:
        return Nameless(await call(self._dsn, {}, command_timeout=command_timeout), settings)

    async def _steady(self, dsn: str, settings: Mapping[str, str], command_timeout: float) -> Connection:
        steady = {**STEADY_PLANS, **_READ_COMMITTED, **_KEPT_ALIVE, **settings}
        return await call(dsn, steady, command_timeout=command_timeout, kept_statements=_KEPT_STATEMENTS)


def _check_direct(place: str, direct: Seen, other: Seen) -> None:
    """Who beats and listens elsewhere than where the runs are would be taken for dead, and hear nothing."""
    if direct.pooled:
        raise ConfigurationError(f"direct_dsn leads to a pooler, too: {place}. Give the address of Postgres itself")
    if (direct.started, direct.database) != (other.started, other.database):
        raise ConfigurationError(
            f"direct_dsn leads elsewhere than the pooler does: {place} is database {direct.database!r} of a server "
            f"started at {direct.started:%Y-%m-%d %H:%M:%S}, and through the pooler there is {other.database!r} of one "
            f"started at {other.started:%Y-%m-%d %H:%M:%S}"
        )
