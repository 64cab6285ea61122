"""Two transactions in each other's way, on purpose: one held open, or one stopped between its snapshot and its locks.

- ``held_open(world)`` gives the storage's writes in one transaction that commits when the block is left.
- ``stopped(world, "commit")`` gives the storage's writes with one statement that waits, after it has taken its snapshot
  and before it takes any lock, until it is let go.
- ``unsent(world, "read_claimed")`` gives the storage's writes with one statement that is not sent until it is let go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg

from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.postgres.changes import Changes
from runnerq.persistence.postgres.faults import translating
from runnerq.persistence.postgres.schedules import Schedules
from runnerq.persistence.postgres.statements import Statements
from runnerq.persistence.postgres.upkeep import Upkeep
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.watching import WAITS, backend_that

T = TypeVar("T")

GATE = 4242
_GATE = f"(select pg_advisory_xact_lock_shared({GATE})::text as opened offset 0) as gate"

# Where each statement has its snapshot and no lock yet: what its first rows are read from. A lock clause must not name
# the gate, so that some of those change too.
_FIRST_ROWS = (
    "    from rows from (\n        json_to_recordset($1",
    "    from {gate} cross join rows from (\n        json_to_recordset($1",
)
_STOPS: dict[str, list[tuple[str, str]]] = {
    "commit": [_FIRST_ROWS],
    "append": [_FIRST_ROWS],
    "append_one": [
        (
            "from runnerq.live where run_id = $1::uuid for update skip locked",
            "from {gate} cross join runnerq.live where run_id = $1::uuid for update of live skip locked",
        )
    ],
    "end_runs": [("    from unnest($1::uuid[]", "    from {gate} cross join unnest($1::uuid[]")],
    "send_signals": [("    from unnest($1::uuid[]", "    from {gate} cross join unnest($1::uuid[]")],
    "cancel_runs": [(" from unnest($1::uuid[])", " from {gate} cross join unnest($1::uuid[])")],
    "terminate_runs": [(" from unnest($1::uuid[])", " from {gate} cross join unnest($1::uuid[])")],
    "reopen_runs": [("    from unnest($1::uuid[]", "    from {gate} cross join unnest($1::uuid[]")],
    "start_runs": [_FIRST_ROWS],
    "doom_trees": [("    from unnest($1::uuid[])", "    from {gate} cross join unnest($1::uuid[])")],
    "adopt_runs": [("    from unnest($1::text[]", "    from {gate} cross join unnest($1::text[]")],
    "purge_runs": [
        ("    from runnerq.doomed\n    where", "    from {gate} cross join runnerq.doomed\n    where"),
        ("    for update skip locked\n), pick", "    for update of doomed skip locked\n), pick"),
    ],
    "run_now": [
        (
            "due_at from runnerq.live where run_id = $1::uuid for update",
            "due_at from {gate} cross join runnerq.live where run_id = $1::uuid for update of live",
        )
    ],
    "keep_details": [("    from unnest($1::uuid[]", "    from {gate} cross join unnest($1::uuid[]")],
    "claim_runs": [("    from unnest($1::text[]", "    from {gate} cross join unnest($1::text[]")],
    "open_gates": [("    from unnest($1::text[]", "    from {gate} cross join unnest($1::text[]")],
    "line_up": [
        (
            "    select ctid as version from runnerq.lining\n)",
            "    select lining.ctid as version from {gate} cross join runnerq.lining\n)",
        )
    ],
    "apply_rule": [("    from (select) as one\n", "    from {gate} cross join (select) as one\n")],
    "reap_workers": [
        ("    from runnerq.worker as w\n    where", "    from {gate} cross join runnerq.worker as w\n    where"),
        ("    order by w.id\n    for update skip locked", "    order by w.id\n    for update of w skip locked"),
    ],
    "wake_due": [
        ("    from runnerq.live\n    where", "    from {gate} cross join runnerq.live\n    where"),
        ("    for update skip locked", "    for update of live skip locked"),
    ],
}
# A statement that is kept in a full and a cheaper form stops in both.
_FORMS = {
    "claim_runs": ("claim_runs_free", "claim_runs_limited"),
    "commit": ("commit", "commit_plain"),
    "start_runs": ("start_runs", "start_runs_plain"),
}


def _stopping(text: str, name: str) -> str:
    """The statement's text with a gate in it."""
    text = text.replace('"runnerq".', "runnerq.")
    for old, new in _STOPS[name]:
        assert old in text, f"{name}.sql has no place to stop at any more: {old!r}"
        text = text.replace(old, new.replace("{gate}", _GATE), 1)
    return text


@dataclass(frozen=True)
class Held:
    """A statement that is not sent before ``opened``; ``come`` says that it is its turn."""

    statement: str
    come: asyncio.Event
    opened: asyncio.Event


class _OneConnection:
    """What writes ask of ``Connections``, over a single connection."""

    def __init__(self, connection: asyncpg.Connection, held: Held | None = None) -> None:
        self._connection = connection
        self._held = held

    async def fetch(self, statement: str, *args: object) -> Sequence[Any]:
        if self._held is not None and statement == self._held.statement:
            self._held.come.set()
            await self._held.opened.wait()
        with translating():
            found: Sequence[Any] = await self._connection.fetch(statement, *args)
            return found

    async def in_transaction(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        with translating():
            async with self._connection.transaction():
                return await work(self._connection)

    in_transaction_at_once = in_transaction
    fetch_quick = fetch
    fetch_upkeep = fetch
    fetch_turns = fetch
    fetch_impatiently = fetch
    fetch_prompt = fetch
    fetch_patient = fetch


class _Texts:
    """The statements, some of them replaced."""

    def __init__(self, statements: Statements, replaced: dict[str, str]) -> None:
        self._statements = statements
        self._replaced = replaced

    def __getitem__(self, name: str) -> str:
        return self._replaced.get(name) or self._statements[name]


class _Silence:
    """Changes that tell nobody."""

    def tell(self, wake: object) -> None:
        del wake


class Writes(Upkeep, Schedules):
    """All writes of the storage."""


def writes_on(
    storage: PostgresStorage,
    connection: asyncpg.Connection,
    replaced: dict[str, str] | None = None,
    held: Held | None = None,
) -> Writes:
    """The storage's writes over this connection, with other texts for some of its statements."""
    texts: Any = _Texts(storage._statements, replaced or {})
    silence: Any = _Silence()
    one: Any = _OneConnection(connection, held)
    changes: Changes = silence
    return Writes(one, texts, changes)


@asynccontextmanager
async def held_open(world: PostgresWorld) -> AsyncIterator[Writes]:
    """The storage's writes in a transaction of their own, committed at the end of the block."""
    connection = await asyncpg.connect(world.dsn)
    try:
        async with connection.transaction():
            yield writes_on(world.postgres, connection)
    finally:
        await connection.close()


@asynccontextmanager
async def rolled_back(world: PostgresWorld) -> AsyncIterator[Writes]:
    """The storage's writes in a transaction of their own, rolled back at the end of the block."""
    connection = await asyncpg.connect(world.dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        yield writes_on(world.postgres, connection)
        await transaction.rollback()
    finally:
        await connection.close()


@asynccontextmanager
async def unsent(world: PostgresWorld, name: str) -> AsyncIterator[tuple[Writes, Held]]:
    """The storage's writes, of which ``name`` is not sent before it is let go."""
    held = Held(world.postgres._statements[name], asyncio.Event(), asyncio.Event())
    connection = await asyncpg.connect(world.dsn)
    try:
        yield writes_on(world.postgres, connection, held=held), held
    finally:
        await connection.close()


@dataclass(frozen=True)
class Stopped:
    """Writes with a statement that stops; ``go`` lets it go on."""

    writes: Writes
    pid: int
    gate: asyncpg.Connection
    world: PostgresWorld

    async def begin(self, write: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start the write, and return when it stands after its snapshot and before its locks."""
        task = asyncio.create_task(write)
        waiting = asyncio.create_task(until_waiting(self.world, self.pid))
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        assert not task.done(), f"the write did not stop: {task}"
        await waiting
        return task

    async def go(self) -> None:
        await self.gate.execute(f"select pg_advisory_unlock({GATE})")


@asynccontextmanager
async def stopped(world: PostgresWorld, name: str) -> AsyncIterator[Stopped]:
    """The storage's writes, of which ``name`` stops between its snapshot and its locks."""
    texts = world.postgres._statements
    replaced = {each: _stopping(texts[each], name) for each in _FORMS.get(name, (name,))}
    holder = await asyncpg.connect(world.dsn)
    connection = await asyncpg.connect(world.dsn)
    try:
        await holder.execute(f"select pg_advisory_lock({GATE})")
        yield Stopped(writes_on(world.postgres, connection, replaced), connection.get_server_pid(), holder, world)
    finally:
        await connection.close()
        await holder.close()


async def until_waiting(world: PostgresWorld, pid: int | None = None) -> None:
    """Return when this backend, or any other of the database, waits for a lock."""
    await backend_that(world.connection, f"{WAITS} and pid = coalesce($1, pid)", pid)
