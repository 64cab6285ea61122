"""The one seam between plain payloads and stored ones: a storage around a storage.

Rules
- Every payload passes here, in and out, whatever the storage below. What carries none passes as it is.
- ``CARRIES_NONE`` names the methods that were judged to carry none, and are let through. All else that is not written
  here is refused: what nobody has judged would be stored in plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from runnerq.persistence.coded.opening import Opening
from runnerq.persistence.coded.sealing import Sealing
from runnerq.persistence.protocol import Heart, Joined, Storage, Work
from runnerq.persistence.records import (
    LOOK,
    Ask,
    AuditFilter,
    AuditRecord,
    BlockRecord,
    Claim,
    ClaimRequest,
    Details,
    Failures,
    Fired,
    Firing,
    Found,
    Inbox,
    Journal,
    Load,
    Mail,
    NewAudit,
    NewRun,
    NewSignal,
    Outcome,
    Pulse,
    Reopen,
    RunFilter,
    RunRecord,
    ScheduleRecord,
    ScheduleRow,
    Sent,
    StartReply,
    Tail,
    Turn,
    Verdict,
)
from runnerq.serialization.sealing import Chain

CARRIES_NONE = frozenset({
    "activity", "adopt", "aggregate", "by_key", "cancel", "close", "count_runs", "definitions", "delete",
    "delete_limit", "delete_schedule", "drain", "due_schedules", "give_back", "limits", "now", "open", "pause",
    "pause_schedule", "purge", "queues", "reap", "register", "release", "relieve", "reschedule", "resume",
    "resume_schedule", "retain", "run_now", "set_limit", "set_priority", "stats", "subscribe", "sweep", "tally",
    "terminate", "unblock", "wake_due", "workers",
})  # fmt: skip


def coded(storage: Storage, chain: Chain | None) -> Storage:
    """The storage with this chain around its payloads; itself, without one."""
    return storage if chain is None else cast("Storage", CodedStorage(storage, chain))


class CodedStorage:
    """A storage whose payloads are sealed. It has the protocol, and nothing that a storage has beside it."""

    def __init__(self, storage: Storage, chain: Chain) -> None:
        self._storage = storage
        self._sealing = Sealing(chain)
        self._opening = Opening(chain)

    def __getattr__(self, name: str) -> Any:
        if name in CARRIES_NONE:
            return getattr(self._storage, name)
        raise AttributeError(
            f"{name!r} is not to be had of a storage with codecs: it may carry payloads, which would be stored in plain"
        )

    # --- writes -------------------------------------------------------------------------------------------------------

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        return await self._storage.start(self._sealing.runs(runs))

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        return await self._storage.start_or_send(self._sealing.run(run), self._sealing.signals(signals))

    async def reopen(self, reopen: Reopen) -> bool:
        return await self._storage.reopen(self._sealing.reopen(reopen))

    async def claim(self, request: ClaimRequest) -> Claim:
        return self._opening.claim(await self._storage.claim(request))

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        return await self._storage.commit(self._sealing.turns(turns))

    async def inbox(self, asks: Sequence[Ask]) -> list[Inbox]:
        return [self._opening.inbox(inbox) for inbox in await self._storage.inbox(asks)]

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        return await self._storage.send(self._sealing.signals(signals))

    async def transact(self, work: Work) -> Verdict:
        return await self._storage.transact(CodedWork(work, self._sealing))

    async def look_up(self, turn: Turn) -> Verdict:
        return await self._storage.look_up(turn)  # as it was given to us, unsealed: only where it is counts

    def heart(self) -> Heart:
        return CodedHeart(self._storage.heart(), self._sealing)

    def joined(self, connection: object) -> Joined:
        return CodedJoined(self._storage.joined(connection), self._sealing)

    # --- schedules ----------------------------------------------------------------------------------------------------

    async def put_schedule(
        self, row: ScheduleRow, seen: int | None, since: datetime, next_at: datetime | None, *, behind: bool = False
    ) -> bool:
        return await self._storage.put_schedule(self._sealing.schedule(row), seen, since, next_at, behind=behind)

    async def schedule(self, name: str) -> ScheduleRecord | None:
        record = await self._storage.schedule(name)
        return None if record is None else self._opening.schedule(record)

    async def schedules(self) -> list[ScheduleRecord]:
        return [self._opening.schedule(record) for record in await self._storage.schedules()]

    async def fire(self, firing: Firing) -> Fired | None:
        return await self._storage.fire(self._sealing.firing(firing))

    async def trigger(self, name: str, run: NewRun) -> StartReply | None:
        return await self._storage.trigger(name, self._sealing.run(run))

    # --- reads --------------------------------------------------------------------------------------------------------

    async def outcomes(self, run_ids: Sequence[str]) -> list[Outcome]:
        return self._opening.outcomes(await self._storage.outcomes(run_ids))

    async def run(self, run_id: str) -> RunRecord | None:
        record = await self._storage.run(run_id)
        return None if record is None else self._opening.record(record)

    async def journal(self, run_id: str, generation: int | None = None) -> Journal | None:
        journal = await self._storage.journal(run_id, generation)
        return None if journal is None else self._opening.journal(journal)

    async def block(self, run_id: str) -> BlockRecord | None:
        block = await self._storage.block(run_id)
        return None if block is None else self._opening.block(block)

    async def state(self, run_id: str) -> str | None:
        return self._opening.state(await self._storage.state(run_id), run_id)

    async def mailbox(self, run_id: str) -> list[Mail]:
        return list(self._opening.mails(await self._storage.mailbox(run_id)))

    async def list_runs(
        self, where: RunFilter, limit: int, cursor: str | None = None, *, oldest: bool = False, look: int = LOOK
    ) -> Found:
        return self._opening.found(await self._storage.list_runs(where, limit, cursor, oldest=oldest, look=look))

    async def failures(self, where: RunFilter, cap: int) -> Failures:
        return self._opening.failures(await self._storage.failures(where, cap))

    async def open_runs(self, names: Sequence[str], limit: int, after: str | None) -> list[RunRecord]:
        return self._opening.records(await self._storage.open_runs(names, limit, after))

    async def events(self, after: str | None, limit: int) -> Tail:
        return self._opening.tail(await self._storage.events(after, limit))

    # --- what people did ----------------------------------------------------------------------------------------------

    async def write_audit(self, entries: Sequence[NewAudit]) -> None:
        await self._storage.write_audit([self._sealing.audit(entry) for entry in entries])

    async def read_audit(self, where: AuditFilter, limit: int, before: str | None = None) -> list[AuditRecord]:
        return [self._opening.audit(record) for record in await self._storage.read_audit(where, limit, before)]


class CodedHeart:
    """A heart that seals what attempts say of themselves."""

    def __init__(self, heart: Heart, sealing: Sealing) -> None:
        self._heart = heart
        self._sealing = sealing

    async def open(self) -> None:
        await self._heart.open()

    async def beat(self, worker_id: int, load: Load, details: Sequence[Details]) -> Pulse:
        return await self._heart.beat(worker_id, load, self._sealing.details(details))

    async def close(self) -> None:
        await self._heart.close()


class CodedJoined:
    """The writes of a transaction of the caller's, with their payloads sealed."""

    def __init__(self, joined: Joined, sealing: Sealing) -> None:
        self._joined = joined
        self._sealing = sealing

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        return await self._joined.start(self._sealing.runs(runs))

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        return await self._joined.start_or_send(self._sealing.run(run), self._sealing.signals(signals))

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        return await self._joined.send(self._sealing.signals(signals))


class CodedWork:
    """A transaction's work, whose answer is sealed."""

    def __init__(self, work: Work, sealing: Sealing) -> None:
        self._work = work
        self._sealing = sealing

    @property
    def run_id(self) -> str:
        return self._work.run_id

    @property
    def position(self) -> str:
        return self._work.position

    @property
    def is_again(self) -> bool:
        return self._work.is_again

    @property
    def patience(self) -> float | None:
        return self._work.patience

    async def carry_out(self, connection: Any) -> Turn:
        return self._sealing.turn(await self._work.carry_out(connection))

    def committing(self) -> None:
        self._work.committing()
