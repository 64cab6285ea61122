"""What crosses the storage protocol: frozen records of ids, times, numbers and JSON text. No user types, no functions.

Rules
- A run id is UUIDv7 text. A token is a random positive 63-bit integer made by the worker for each claim.
- Times are aware UTC datetimes of the database's clock, kept to the microsecond.
- Payloads are JSON text; a payload of ``None`` is the text ``null``, a missing one is ``None``.
"""

from __future__ import annotations

from runnerq.persistence.records.base import (
    CRASH_CAP,
    DEFAULT_QUEUE,
    HEAD_START,
    MANY_CHILDREN,
    Ended,
    Kind,
    OnDuplicate,
    Priority,
    Status,
    Stored,
    Struct,
)
from runnerq.persistence.records.claims import (
    Ask,
    Attempt,
    Claim,
    Claimed,
    ClaimRequest,
    Inbox,
    Mail,
    NewSignal,
    Outcome,
    Sent,
)
from runnerq.persistence.records.liveness import (
    Arrival,
    Definition,
    Pulse,
    Reaped,
    Registered,
    Wake,
    WorkerRow,
)
from runnerq.persistence.records.reads import (
    BlockRecord,
    Journal,
    RunFilter,
    RunRecord,
)
from runnerq.persistence.records.starting import (
    NewRun,
    Reopen,
    StartReply,
    served_name,
)
from runnerq.persistence.records.turns import (
    GOING,
    Back,
    End,
    Going,
    Move,
    Park,
    Renew,
    Stuck,
    Turn,
    Verdict,
)

__all__ = [
    "CRASH_CAP",
    "DEFAULT_QUEUE",
    "GOING",
    "HEAD_START",
    "MANY_CHILDREN",
    "Arrival",
    "Ask",
    "Attempt",
    "Back",
    "BlockRecord",
    "Claim",
    "ClaimRequest",
    "Claimed",
    "Definition",
    "End",
    "Ended",
    "Going",
    "Inbox",
    "Journal",
    "Kind",
    "Mail",
    "Move",
    "NewRun",
    "NewSignal",
    "OnDuplicate",
    "Outcome",
    "Park",
    "Priority",
    "Pulse",
    "Reaped",
    "Registered",
    "Renew",
    "Reopen",
    "RunFilter",
    "RunRecord",
    "Sent",
    "StartReply",
    "Status",
    "Stored",
    "Struct",
    "Stuck",
    "Turn",
    "Verdict",
    "Wake",
    "WorkerRow",
    "served_name",
]
