"""What the API takes and answers where the models have no shape of their own for it.

What a caller gives has no fields but these: one that is misspelled is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from runnerq.console.actions.batches import MOST_NAMED
from runnerq.console.actions.fleet import LimitRequest, ScheduleRequest
from runnerq.console.actions.runs import StartRequest
from runnerq.console.models.audit import AuditRow
from runnerq.console.models.batches import BatchView
from runnerq.console.models.blocked import BlockedRow
from runnerq.console.models.filters import RunQuery, Sort, parse_query
from runnerq.console.models.payloads import ErrorView, Payload
from runnerq.console.models.runs import Count, RunRow
from runnerq.persistence.records import Status

Where: TypeAlias = Mapping[str, str | Sequence[str]]
"""Which runs: the parameters of ``GET /runs``, those that may be given several times as lists."""
Which: TypeAlias = Literal["input", "result", "state", "error", "entry", "signal"]

FromOne: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
When: TypeAlias = Annotated[datetime, Meta(tz=True)]
Rank: TypeAlias = Literal["critical", "high", "normal", "low"]
Cursor: TypeAlias = Annotated[str | None, Meta(description="`next_cursor` of the page before, with the same filter.")]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=200, description="Items of a page.")]
Moment: TypeAlias = Annotated[str | None, Meta(description="A time, RFC 3339, or so long ago: `2h`, `30m`, `7d`.")]
Reason: TypeAlias = Annotated[str | None, Meta(description="Why: it stands in the audit and with the run.")]


# --- queries ----------------------------------------------------------------------------------------------------------


class RunsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs, in which order, from where on: all conditions hold."""

    status: tuple[Status, ...] = ()
    workflow: Annotated[str | None, Meta(description="The name of a workflow or an activity.")] = None
    queue: str | None = None
    q: Annotated[str | None, Meta(description="The beginning of an id or of a key.")] = None
    key: Annotated[str | None, Meta(description="The beginning of a key.")] = None
    meta: Annotated[tuple[str, ...], Meta(description="`name=value`, as the run's metadata has it.")] = ()
    error: Annotated[str | None, Meta(description="A piece of the error's text: needs `payload.reveal`.")] = None
    fingerprint: Annotated[str | None, Meta(description="The fingerprint of a group of `GET /dead-letter`.")] = None
    since: Moment = None
    until: Moment = None
    ended_since: Moment = None
    ended_until: Moment = None
    version: int | None = None
    roots: Annotated[bool, Meta(description="Only runs that no other has started.")] = False
    parent: str | None = None
    root: str | None = None
    worker: Annotated[str | None, Meta(description="The id of a worker: runs that it is working on.")] = None
    limit: Limit = 50
    cursor: Cursor = None
    sort: Sort = "newest"
    count: Annotated[bool, Meta(description="Whether to count all that fit, ten thousand at most.")] = False

    def parsed(self) -> RunQuery:
        """The same for the models. Raises BadFields."""
        given = {name: value for name, value in msgspec.structs.asdict(self).items() if name != "count"}
        return query_where({name: value for name, value in given.items() if value is not None and value is not False})


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    limit: Limit = 50
    cursor: Cursor = None


class HistoryParams(msgspec.Struct, frozen=True, kw_only=True):
    generation: Annotated[FromOne | None, Meta(description="An earlier generation.")] = None
    view: Annotated[
        Literal["compact", "full"], Meta(description="Entries, one a command, or rows, as they are stored.")
    ] = "compact"
    kind: Annotated[tuple[str, ...], Meta(description="Kinds of entries: `step`, `signal` ...")] = ()
    state: Annotated[tuple[str, ...], Meta(description="States of entries: `failed`, `asked` ...")] = ()
    text: Annotated[str | None, Meta(description="Looked for in names, values and errors, as they are shown.")] = None
    newest_first: bool = False
    page: Annotated[int, Meta(ge=1, description="From 1: a page has 500 entries.")] = 1


class GenerationQuery(msgspec.Struct, frozen=True, kw_only=True):
    generation: Annotated[FromOne | None, Meta(description="An earlier generation.")] = None


class PayloadQuery(msgspec.Struct, frozen=True, kw_only=True):
    entry: Annotated[
        FromOne | None, Meta(description="The number of the `entry` in the history, or of the `signal`.")
    ] = None


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True):
    wait: Annotated[float, Meta(ge=0, le=60, description="Seconds to wait for its end.")] = 0.0


class ActivityQuery(msgspec.Struct, frozen=True, kw_only=True):
    window: Annotated[Literal["1h", "24h"], Meta(description="The last hour by minutes, or day by quarters.")] = "1h"
    workflow: Annotated[str | None, Meta(description="Of this type alone.")] = None


class AuditParams(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str | None = None
    principal: str | None = None
    action: str | None = None
    limit: Limit = 50
    cursor: Cursor = None


# --- bodies -----------------------------------------------------------------------------------------------------------


Unchecked: TypeAlias = Annotated[
    bool, Meta(description="Do it also where no code that is registered takes such a value.")
]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an action is told: why it is done."""

    reason: Reason = None


class NewRun(Body, frozen=True, kw_only=True):
    """A run to start. ``args`` and ``kwargs`` are what it is given; ``delay`` and ``timeout`` are seconds.

    Of one workflow a key stands for one run: ``on_duplicate`` says what to do where there is one.
    """

    workflow: Annotated[str, Meta(min_length=1, description="The name of a workflow or an activity.")]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    key: str | None = None
    on_duplicate: Literal["return_existing", "no_reuse", "allow_reuse", "allow_reuse_on_failure"] | None = None
    queue: str | None = None
    delay: Annotated[float, Meta(ge=0)] | None = None
    at: When | None = None
    priority: Rank | None = None
    timeout: Seconds | None = None
    metadata: Mapping[str, str] | None = None
    limit: Annotated[
        tuple[str, str] | str | None, Meta(description="The limit that it counts against: a scope, or scope and key.")
    ] = None
    unchecked: Unchecked = False

    def request(self) -> StartRequest:
        """The same for the action."""
        given = {name: getattr(self, name) for name in StartRequest.__struct_fields__ if name != "name"}
        return StartRequest(name=self.workflow, **given)


class NewSignal(Body, frozen=True, kw_only=True):
    """A signal. One ``dedup`` id counts once a run and channel."""

    channel: Annotated[str, Meta(min_length=1)]
    value: Any = None
    dedup: str | None = None
    unchecked: Unchecked = False


class RetryBody(Body, frozen=True, kw_only=True):
    """``accept``: let a run go on that is blocked by changed arguments alone."""

    accept: Literal["arguments"] | None = None


class RescheduleBody(Body, frozen=True, kw_only=True):
    at: Annotated[datetime, Meta(tz=True, description="When it is to be due.")]


class PriorityBody(Body, frozen=True, kw_only=True):
    priority: Rank


class ForkBody(Body, frozen=True, kw_only=True):
    from_entry: Annotated[str, Meta(min_length=1, description="The position of the first entry that is done anew.")]


class RevealBody(Body, frozen=True, kw_only=True):
    """Which payload is to be shown as it is. ``entry`` is the number of an entry, or of an unread signal."""

    which: Which
    entry: FromOne | None = None


class BatchBody(Body, frozen=True, kw_only=True):
    """Which runs, either ``ids`` or ``where``, and what is done to each. ``priority`` goes with ``priority``."""

    action: Annotated[str, Meta(description="`cancel`, `retry`, `redrive`, `delete` ... as for one run.")]
    ids: Annotated[Sequence[str], Meta(max_length=MOST_NAMED)] = ()
    where: Where | None = None
    priority: str | None = None
    dry_run: Annotated[bool, Meta(description="Change nothing: count them, and show the first.")] = False


class RedriveBody(Body, frozen=True, kw_only=True):
    """Which dead letters: those that fit ``where``, such as the ``query`` of a group. ``{}`` is all of them."""

    where: Where
    dry_run: Annotated[bool, Meta(description="Change nothing: count them, and show the first.")] = False


class ScheduleBody(Body, frozen=True, kw_only=True):
    """A schedule: ``cron`` in a ``zone``, or ``every`` so many seconds.

    ``create_only``: refused where there is one of this name. ``seen``: refused where the ``changed_at`` of the one that
    is there is another, as somebody has changed it since.
    """

    workflow: Annotated[str, Meta(min_length=1)]
    args: Sequence[Any] = ()
    cron: str | None = None
    every: float | None = None
    zone: str = "UTC"
    missed: Literal["skip", "once", "all"] = "once"
    overlap: Literal["allow", "skip", "cancel"] = "skip"
    jitter: float | None = None
    queue: str | None = None
    priority: Rank | None = None
    timeout: Seconds | None = None
    metadata: Mapping[str, str] | None = None
    unchecked: Unchecked = False
    create_only: bool = False
    seen: When | None = None

    def request(self, name: str) -> ScheduleRequest:
        """The same for the action."""
        given = {each: getattr(self, each) for each in ScheduleRequest.__struct_fields__ if each != "name"}
        return ScheduleRequest(name=name, **given)


class BackfillBody(Body, frozen=True, kw_only=True):
    """A span of time that has passed: from ``since`` on, before ``until``."""

    since: When
    until: When


class LimitBody(Body, frozen=True, kw_only=True):
    """``concurrency`` runs at once, ``rate`` in ``per`` seconds, or both; with ``per_key`` of each key by itself."""

    concurrency: Annotated[int, Meta(ge=0)] | None = None
    rate: FromOne | None = None
    per: Seconds | None = None
    per_key: bool = False

    def request(self, scope: str) -> LimitRequest:
        """The same for the action."""
        return LimitRequest(
            scope=scope, concurrency=self.concurrency, rate=self.rate, per=self.per, per_key=self.per_key
        )


# --- answers ----------------------------------------------------------------------------------------------------------


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a listing. ``searched_to`` is set where the search stopped before the page was full, having looked at
    many runs: so far back it has come, and ``next_cursor`` goes on from there."""

    items: tuple[RunRow, ...]
    next_cursor: str | None
    previous_cursor: str | None
    searched_to: datetime | None
    now: datetime
    count: Count | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, or, where it goes on, what it is doing: ``ended`` says which."""

    run_id: str
    status: Status
    ended: bool
    result: Payload | None
    error: ErrorView | None
    reason: str | None


class Batched(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch is about, and the batch; on a dry run there is none, and ``sample`` are the first of the runs."""

    count: Count
    sample: tuple[RunRow, ...]
    batch: BatchView | None


class BlockedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the blocked runs, newest first, and why each is."""

    items: tuple[BlockedRow, ...]
    next_cursor: str | None
    previous_cursor: str | None


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """Some of what people have done, newest first."""

    items: tuple[AuditRow, ...]
    next_cursor: str | None


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what they may do."""

    name: str
    permissions: tuple[str, ...]


class FieldError(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one field, or with the ``body`` as a whole."""

    field: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, as RFC 9457 has it: ``type`` tells kinds apart, ``detail`` says it in words.

    ``errors`` are those of fields. Beside them stands what the error knows: ``run_id``, ``run_status`` (what the run is
    now, where that is why), ``permission`` (the one that is missing), and the like.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: tuple[FieldError, ...] = ()
    run_id: str = ""
    run_status: str = ""
    permission: str = ""


def query_where(where: Where) -> RunQuery:
    """The query that parameters in JSON mean. Raises BadFields."""
    return parse_query(
        (name, str(each))
        for name, value in where.items()
        for each in ((value,) if isinstance(value, str | int) else value)
    )
