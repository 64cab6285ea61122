"""One run in full: what it is, what it waits for, how it ended, and what may be done about it."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from runnerq.client.forking import origin_of
from runnerq.client.info import info_of, waits_for
from runnerq.client.readable import block_of
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.filters import BadFields
from runnerq.console.models.fleet import HeldBy, fleet, obstacle
from runnerq.console.models.history import entry_payload
from runnerq.console.models.journal import read_journal
from runnerq.console.models.offers import Offer, offers
from runnerq.console.models.payloads import ErrorView, Payload, error_of, payload_of, shown_text
from runnerq.console.models.records import Link, link_to, record_of, spot
from runnerq.console.models.redaction import Spot
from runnerq.console.models.runs import RunRow, counted, row_with_worker
from runnerq.console.models.signals import unread_of
from runnerq.console.models.taking import takes_of
from runnerq.persistence.records import BlockRecord, Limit, RunFilter, RunRecord, Status
from runnerq.workflow.recorder import differ_in_arguments_alone, without_digests
from runnerq.workflow.reopening import undo_began

OPEN = tuple(status for status in Status if not status.ended)
_UNWELL = (Status.FAILED, Status.DEAD_LETTER, Status.CANCELLED)
MOST_CHILDREN = 20
"""Children that the panel of a waiting run names."""
_DIGESTS = re.compile(r" \(recorded digest [\w-]*, now [\w-]*\)")  # as databases have it that are older


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What a run waits for: ``what`` in words, ``since`` and ``until`` when (None: not known, or for ever).

    ``stack`` is where its code stands, a line a frame, the innermost last; ``line`` is that one. ``channels`` are those
    that it takes a signal from, ``children`` the first of those it waits for, of ``children_count``.
    ``obstacle`` says why a run that is ready is not taken up: no worker, a pause, a limit, all slots taken. ``held_by``
    names which of these.
    """

    what: str
    since: datetime | None
    until: datetime | None
    line: str | None = None
    stack: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    children: tuple[Link, ...] = ()
    children_count: int = 0
    obstacle: str | None = None
    held_by: HeldBy | None = None


class BlockView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run is blocked: what is ``recorded`` at the position, and what the code of ``builds`` ``asked`` for
    instead. ``arguments_differ``: that is the same with other arguments, which a retry may accept. ``retry_at`` is when
    it is tried again by itself: None, it is not."""

    at: datetime
    message: str
    builds: tuple[str, ...]
    position: str | None
    recorded: str | None
    asked: str | None
    arguments_differ: bool
    line: str | None
    traceback: str | None
    retry_at: datetime | None


class RunDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A run in full. ``generations`` counts those that it has had, ``now`` is database time.

    ``forked_from`` is the run that it is a fork of, ``forked_at`` the entry of that. ``expects`` says in words what the
    signals take that its code is known to wait for. ``command`` shows it on the command line of whoever
    has this database as theirs: it is without ``--dsn`` and ``--schema``.
    """

    run: RunRow
    build: str | None
    now: datetime
    reason: str | None
    limit: Limit | None
    metadata: tuple[tuple[str, str], ...]
    parked_at: datetime | None
    generations: int
    depth: int
    parent: Link | None
    root: Link | None
    forked_from: Link | None
    forked_at: str | None
    waiting: Waiting | None
    expects: tuple[tuple[str, str], ...]
    block: BlockView | None
    input: Payload | None
    result: Payload | None
    state: Payload | None
    error: ErrorView | None
    unread: int
    actions: tuple[Offer, ...]
    command: str

    @property
    def channels(self) -> tuple[str, ...]:
        """The signals that it waits for, and those that its code is known to wait for."""
        awaited = () if self.waiting is None else self.waiting.channels
        return tuple(dict.fromkeys((*awaited, *(channel for channel, _ in self.expects))))

    def action(self, name: str) -> Offer | None:
        """What there is to say of this action; None where it does not apply to such a run at all."""
        return next((offer for offer in self.actions if offer.name == name), None)


@bounded
async def run_detail(context: Context, run_id: str) -> RunDetail:
    """The run as it stands. Raises RunNotFound."""
    record = await record_of(context, run_id)
    now = await context.now()
    storage = context.client.storage
    origin = origin_of(record.options)
    block = await _block(context, record)
    return RunDetail(
        run=await row_with_worker(context, record, now),
        build=info_of(record).build,
        now=now,
        reason=record.reason,
        limit=record.limit,
        metadata=_metadata(context, record),
        parked_at=record.parked_at,
        generations=record.generation,
        depth=record.depth,
        parent=None if record.parent_id is None else await link_to(context, record.parent_id),
        root=None if record.root_id in (record.id, record.parent_id) else await link_to(context, record.root_id),
        forked_from=None if origin is None else await link_to(context, origin[0]),
        forked_at=None if origin is None else origin[1],
        waiting=await _waiting(context, record, block),
        expects=await _expects(context, record),
        block=block,
        input=payload_of(context, spot("input", record), record.input, "the input"),
        result=payload_of(context, spot("result", record), record.result, "the result"),
        state=payload_of(context, spot("state", record), await storage.state(record.id), "the published state"),
        error=error_of(context, spot("error", record), record.error),
        unread=len(await storage.mailbox(record.id)),
        actions=offers(context.principal, record, undone=await _undone(context, record)),
        command=f"runnerq show {record.id}",
    )


@bounded
async def whole_payload(context: Context, run_id: str, which: str, *, entry: int | None = None) -> Payload:
    """One payload of a run uncut: ``input``, ``result``, ``state``, ``error``, ``entry`` with its number in the history
    of the present generation, or ``signal`` with that of an unread one. Redacted like everything. Raises RunNotFound,
    BadFields."""
    record = await record_of(context, run_id)
    match which:
        case "input":
            found = payload_of(context, spot("input", record), record.input, "the input", limit=None)
        case "result":
            found = payload_of(context, spot("result", record), record.result, "the result", limit=None)
        case "error":
            found = payload_of(context, spot("error", record), record.error, "the error", limit=None)
        case "state":
            text = await context.client.storage.state(record.id)
            found = payload_of(context, spot("state", record), text, "the published state", limit=None)
        case "signal":
            unread = await unread_of(context, record, limit=None)
            found = next((each.value for each in unread if each.number == entry), None)
        case "entry":
            if entry is None:
                raise BadFields({"entry": "give the number of the entry"})
            found = await entry_payload(context, record, entry)
        case _:
            raise BadFields({"which": f"{which!r} is none of input, result, state, error, entry, signal"})
    if found is None:
        raise BadFields({"which": f"run {record.id} has no {which}"})
    return found


async def _expects(context: Context, record: RunRecord) -> tuple[tuple[str, str], ...]:
    takes = None if record.status.ended else await takes_of(context, record)
    return () if takes is None else takes.in_words()


async def _block(context: Context, record: RunRecord) -> BlockView | None:
    if record.status is not Status.BLOCKED:
        return None
    found = await block_of(context.client.storage, record.id)
    return None if found is None else block_view(context, spot("error", record), found)


def block_view(context: Context, where: Spot, block: BlockRecord) -> BlockView:
    """Why a run is blocked, with what its texts quote redacted, and without digests of arguments."""

    def told(name: str, text: str | None) -> str | None:
        return None if text is None else shown_text(context, where, name, text)

    recorded, asked = without_digests(block.recorded, block.asked)
    return BlockView(
        at=block.at,
        message=told("message", _DIGESTS.sub("", block.message)) or "",
        builds=block.builds,
        position=block.position,
        recorded=told("recorded", recorded),
        asked=told("asked", asked),
        arguments_differ=differ_in_arguments_alone(block.recorded, block.asked),
        line=block.line,
        traceback=told("traceback", block.traceback),
        retry_at=block.retry_at,
    )


async def _undone(context: Context, record: RunRecord) -> bool:
    if record.kind == "activity" or record.status not in _UNWELL:
        return False
    found = await read_journal(context, record)
    return found.sealed is None and undo_began(found.rows)


async def _waiting(context: Context, record: RunRecord, block: BlockView | None) -> Waiting | None:
    what = waits_for(record)
    if what is None:
        return None
    match record.status:
        case Status.PENDING:
            since = max(record.created_at, record.due_at or record.created_at)
            # Shorter than in a list: the obstacle says the rest.
            what = f"a worker on queue {record.queue!r}"
            found = obstacle(await fleet(context), record)
            if found is None:
                return Waiting(what=what, since=since, until=None)
            return Waiting(what=what, since=since, until=None, obstacle=found.text, held_by=found.held_by)
        case Status.BLOCKED:
            retry_at = None if block is None else block.retry_at
            return Waiting(what=what, since=None if block is None else block.at, until=retry_at)
        case Status.WAITING:
            children, count = await _awaited_children(context, record)
            return Waiting(
                what=what,
                since=record.parked_at,
                until=record.due_at,
                line=record.stack[-1] if record.stack else None,
                stack=record.stack,
                channels=record.waiting_signals,
                children=children,
                children_count=count,
            )
        case _:
            return Waiting(what=what, since=record.created_at, until=record.due_at)


async def _awaited_children(context: Context, record: RunRecord) -> tuple[tuple[Link, ...], int]:
    """The first children that a parked run waits for, and how many there are. A park names few of them: of one that
    waits for many it is those that are open."""
    named = record.waiting_children
    if named or record.waiting_signals or record.due_at is not None:
        return tuple([await link_to(context, child) for child in named[:MOST_CHILDREN]]), len(named)
    where = RunFilter(parent=record.id, root=record.root_id, status=OPEN)
    found = await context.client.storage.list_runs(where, MOST_CHILDREN, oldest=True)
    links = tuple(Link(id=each.id, workflow=each.name, status=each.status) for each in found.runs)
    return links, (await counted(context, where)).n


def _metadata(context: Context, record: RunRecord) -> tuple[tuple[str, str], ...]:
    shown = context.redact(spot("metadata", record), dict(info_of(record).metadata))
    return tuple((str(name), str(value)) for name, value in shown.items())
