"""Transactions that do a user's work, and put its answer on record.

Rules
- They have connections of their own, set up as a user expects a connection, never as our statements want theirs. What a
  function leaves in the session is undone before the next one gets it (``clearing``), or the connection is closed, and
  what it was given or made of that is of no use behind its end.
- The fence comes last: the run's lock, the token compared under it, the row of the journal, then the COMMIT. So the
  lock is held for a moment only, and a run that was lost meanwhile rolls everything back.
- A mark that lives as long as the transaction tells whether it is still the one that was begun.
- A worker that stands still keeps no row of the user's locked: who reaps its runs, terminates one or begins the same
  entry again ends the sessions that have a transaction of theirs open. Where it has a timeout the server ends a session
  that is silent for long after that; where it has none, that is left to the server's own setting.
- What others did to the transaction (SQLSTATE 40001 and 40P01, a lost connection, a run's row that cannot be had) is a
  conflict. After a COMMIT without an answer the connection is cut, and ``look_up`` takes the run's lock before it
  looks: then the transaction is over.
"""

from __future__ import annotations

import asyncio
import logging
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from runnerq.errors import NonRetryableError, TransactionConflict, UsageError
from runnerq.ids import new_token
from runnerq.persistence.postgres.clearing import ROLLBACK_PATIENCE, Given, clear
from runnerq.persistence.postgres.core import Core
from runnerq.persistence.postgres.faults import sqlstate_of, translated, translating
from runnerq.persistence.protocol.transactions import CommitUnclear, RunHeld, Work
from runnerq.persistence.records import Turn, Verdict

if TYPE_CHECKING:
    from runnerq.persistence.postgres.lending import Connection, Lent

FENCE_PATIENCE = 10.0
"""Seconds that a transaction which holds rows of the user's waits for the run's row."""
ANSWER_PATIENCE = 15.0
"""Seconds for what waits for nobody: BEGIN, COMMIT."""
_SILENCE = 30.0
"""Seconds beyond its patience after which the server ends the session of a client that stands still."""

_SHORT = re.compile(r"[0-9a-z.]{1,16}")

_OTHERS = frozenset({"40001", "40P01"})
_FAILED, _NOT_ALLOWED, _READ_ONLY = "25P02", "42501", "25006"
_NO_WORD = ("08", "57P0")
_ENDED = (
    "the function of a transaction has ended that transaction itself, with COMMIT or ROLLBACK, so that what it wrote "
    "is not one with its entry, and nothing is on record. It is not tried again. Leave the end to runnerq, and use "
    "`async with connection.transaction():` for a savepoint. (RESET ALL and DISCARD look the same from here: reset "
    "what you have set by its name)"
)
_SWALLOWED = (
    "the function of a transaction has returned although a statement in it had failed, so that nothing of it can be "
    "committed: let the error out, or do what may fail in `async with connection.transaction():`, which is a savepoint"
)
_ROLE = (
    "the function of a transaction has returned in a role that may not write its entry, so that nothing of it can be "
    "committed: `reset role` before it returns, if it has set one"
)
_NO_WRITES = (
    "nothing can be written in this transaction, its entry neither: the function has made it read-only, or the server "
    "takes no writes just now. What only reads is a step"
)

_log = logging.getLogger("runnerq.postgres")


class Transactions(Core):
    """The part of the storage that does a user's work."""

    async def transact(self, work: Work) -> Verdict:
        async with self._connections.whole() as connection:
            outcome = await self._transact(connection, work)
        # Outside: what a function raises says nothing about the connection, which is fit for the next one.
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def look_up(self, turn: Turn) -> Verdict:
        async def look(connection: Lent) -> Verdict:
            open_ = await connection.fetch(self._statements["lock_run"], turn.run_id)
            place = turn.rows[0].place
            if await connection.fetch(self._statements["read_entry"], turn.run_id, turn.generation, place, turn.token):
                return Verdict.DONE
            mine = bool(open_) and (open_[0]["token"], open_[0]["state"]) == (turn.token, "running")
            return Verdict.AGAIN if mine else Verdict.LOST

        return await self._connections.in_transaction(look)

    async def _transact(self, connection: Connection, work: Work) -> Verdict | Exception:
        transaction = _Transaction(connection)
        given = Given(connection)
        label = _label(work)
        with translating():
            if work.is_again:
                await self._end_stale(connection, label)
            await transaction.begin(work.patience, label)
        try:
            with given:
                turn = await work.carry_out(given.proxy)
            verdict = await self._enter(transaction, turn)
            if verdict is Verdict.DONE:
                work.committing()
        except Exception as error:  # noqa: BLE001 - whatever the function raises is handed on
            outcome = await transaction.undone(error)
            await self._clear(connection, given)
            return outcome
        except BaseException:
            await transaction.roll_back()
            await self._clear(connection, given)
            raise
        if verdict is Verdict.LOST:
            await transaction.roll_back()
        else:
            try:
                await transaction.commit()
            except Exception as error:  # noqa: BLE001 - as above
                outcome = _uncommitted(error, connection)
                await self._clear(connection, given)
                return outcome
        await self._clear(connection, given)
        return verdict

    async def _clear(self, connection: Connection, given: Given) -> None:
        given.release()
        if self._connections.keeps_sessions:
            await clear(connection)

    async def _end_stale(self, connection: Connection, label: str) -> None:
        """End what another worker, which stands still perhaps, has open for the same: it keeps rows locked.

        Where we may not, or cannot tell, those rows are free when that session has been silent for long.
        """
        try:
            await connection.fetch(self._statements["end_stale_transactions"], label, timeout=ANSWER_PATIENCE)
        except (asyncpg.PostgresError, TimeoutError) as error:
            _log.warning("an earlier transaction %r may be open still: %r", label, error)

    async def _enter(self, transaction: _Transaction, turn: Turn) -> Verdict:
        row = turn.rows[0]
        try:
            [record] = await transaction.connection.fetch(
                self._statements["enter_answer"],
                turn.run_id,
                str(turn.token),
                str(turn.generation),
                transaction.mark,
                str(row.place),
                row.at.isoformat(),
                row.position,
                row.value,
                str(bool(turn.settled)),
                str(turn.recovered),
                timeout=FENCE_PATIENCE,
            )
        except TimeoutError as error:
            message = f"the row of run {turn.run_id} is held by somebody else's transaction"
            raise RunHeld(message) from error
        except asyncpg.PostgresError as error:
            raise _not_entered(error, turn) from error
        if record["verdict"] == "ended":
            raise NonRetryableError(_ENDED)
        return Verdict(record["verdict"])


class _Transaction:
    """One transaction, from its begin to its end."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.mark = str(new_token())
        self._transaction: Any = connection.transaction()

    async def begin(self, patience: float | None, label: str) -> None:
        """Begin it. No query comes before the function's first, so that it may still choose an isolation level."""
        limit = ""
        if patience is not None:
            silence = min(int((patience + _SILENCE) * 1000), 2**31 - 1)
            limit = f"set local idle_in_transaction_session_timeout = {silence}; "
        try:
            async with asyncio.timeout(ANSWER_PATIENCE):
                await self._transaction.start()
                await self.connection.execute(
                    f"{limit}set local runnerq_transaction.marker = '{self.mark}'; "
                    f"set local application_name = '{label}'"
                )
        except BaseException:
            self.connection.terminate()
            raise

    async def commit(self) -> None:
        try:
            async with asyncio.timeout(ANSWER_PATIENCE):
                await self._transaction.commit()
        except asyncio.CancelledError:
            self.connection.terminate()
            raise

    async def roll_back(self) -> None:
        """Undo it all. A connection that does not answer is cut, and the server does it."""
        if self.connection.is_closed():
            return
        try:
            async with asyncio.timeout(ROLLBACK_PATIENCE):
                await self._transaction.rollback()
        except BaseException as error:
            self.connection.terminate()
            if not isinstance(error, Exception):
                raise

    async def undone(self, error: Exception) -> Exception:
        """Roll it back; what its work raised, or what that means."""
        ended = not self.connection.is_closed() and not self.connection.is_in_transaction()
        lost = self.connection.is_closed()
        await self.roll_back()
        if ended and not isinstance(error, NonRetryableError):
            refused = NonRetryableError(_ENDED)
            refused.__cause__ = error
            return refused
        if isinstance(error, asyncpg.PostgresError) and sqlstate_of(error) in _OTHERS:
            return _conflict(error)
        if lost and isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
            return _conflict(error)
        return error


def _label(work: Work) -> str:
    """What its session shows for its name, which holds 63 characters: the same for each attempt at one entry."""
    position = work.position if _SHORT.fullmatch(work.position) else sha256(work.position.encode()).hexdigest()[:16]
    return f"runnerq {UUID(work.run_id)} {position}"


def _uncommitted(error: Exception, connection: Connection) -> Exception:
    """What a COMMIT that gave no success means."""
    state = sqlstate_of(error)
    if _is_rolled_back(error) and not connection.is_closed():
        # A constraint or trigger that was deferred until now, say: it is the function's own, as if it had raised it.
        return _conflict(error) if state in _OTHERS else error
    connection.terminate()
    unclear = CommitUnclear(f"the COMMIT of a transaction has no answer: {error!r}")
    unclear.__cause__ = error
    return unclear


def _is_rolled_back(error: Exception) -> bool:
    """Whether it is the server's word that a transaction has failed. What ends the session with it, or comes from the
    connection or from what stands in between, says nothing of that."""
    severity = getattr(error, "severity_en", None) or getattr(error, "severity", None)
    return (
        isinstance(error, asyncpg.PostgresError) and severity == "ERROR" and not sqlstate_of(error).startswith(_NO_WORD)
    )


def _not_entered(error: asyncpg.PostgresError, turn: Turn) -> Exception:
    """What an error of the fence itself means."""
    state = sqlstate_of(error)
    if state in _OTHERS:
        return _conflict(error)
    if state == _FAILED:
        return UsageError(_SWALLOWED)
    if state == _NOT_ALLOWED:
        return UsageError(_ROLE)
    if state == _READ_ONLY:
        return UsageError(_NO_WRITES)
    if state == "55P03":
        return RunHeld(f"the row of run {turn.run_id} is held by somebody else's transaction")
    told_as: Exception | None = translated(error)
    return told_as or error


def _conflict(error: Exception) -> TransactionConflict:
    conflict = TransactionConflict(f"a transaction was rolled back because of others: {error}")
    conflict.__cause__ = error
    return conflict
