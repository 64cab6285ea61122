"""What `show` shows of a run."""

from __future__ import annotations

from typing import Any

import msgspec

from runnerq.cli.masking import shown_block, shown_info, shown_value
from runnerq.client.client import Client
from runnerq.client.info import RunInfo, info_of
from runnerq.client.readable import block_of
from runnerq.console.models.redaction import Redactor
from runnerq.errors import RunNotFound
from runnerq.persistence.records import BlockRecord, Status


class Shown(msgspec.Struct, frozen=True):
    """A run, and what is on record beside it: ``stack`` is where a parked one stands, ``unread`` are the channels of
    signals that nothing has taken."""

    info: RunInfo
    state: dict[str, Any]
    blocked: BlockRecord | None
    result: Any
    stack: tuple[str, ...]
    unread: tuple[str, ...]

    def beside(self) -> dict[str, Any]:
        """All but the info, by name."""
        fields = msgspec.structs.asdict(self)
        del fields["info"]
        return fields


async def look(client: Client, run_id: str, redact: Redactor) -> Shown:
    """The run as it stands, without what is masked. Raises RunNotFound."""
    storage = client.storage
    record = await storage.run(run_id)
    if record is None:
        raise RunNotFound(run_id)
    block = await block_of(storage, run_id) if record.status is Status.BLOCKED else None
    result = await client.handle(run_id).result(0) if record.status is Status.COMPLETED else None
    return Shown(
        info=shown_info(redact, info_of(record)),
        state=shown_value(redact, "state", record.id, record.name, await client.state(run_id)),
        blocked=None if block is None else shown_block(redact, record.name, block),
        result=shown_value(redact, "result", record.id, record.name, result),
        stack=record.stack,
        unread=tuple(mail.channel for mail in await storage.mailbox(run_id)),
    )
