"""Dead letters and other failures, those alike together."""

from __future__ import annotations

from datetime import datetime

import msgspec

from runnerq.client import activity
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.filters import RunQuery
from runnerq.console.models.payloads import brief, shown_text
from runnerq.console.models.redaction import Spot
from runnerq.console.models.runs import RunsPage, filter_of, list_runs
from runnerq.persistence.records import Status

GLANCE = 1_000
"""Failures, the newest, that a page looks at unless it is asked for more: to tell which are alike takes 50 µs each."""
MOST = 10_000


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one name that ended alike: numbers and ids in the message aside. ``query`` lists them, and is what
    "redrive all of these" takes. ``type`` and ``message`` are the newest one's, redacted; where it ended without an
    error the type is empty, and the message is the reason."""

    workflow: str
    status: Status
    type: str
    message: str
    fingerprint: str
    count: int
    first_at: datetime
    last_at: datetime
    sample_id: str
    query: RunQuery


class FailuresView(msgspec.Struct, frozen=True, kw_only=True):
    """The groups, the largest first. ``capped``: only the newest were looked at."""

    groups: tuple[FailureGroup, ...]
    capped: bool


@bounded
async def failures(context: Context, query: RunQuery | None = None, *, most: int = MOST) -> FailuresView:
    """The newest that fit, by groups; dead letters where the query says no status. Asked once in two seconds.

    Raises BadFields.
    """
    given = RunQuery() if query is None else query
    wanted = given if given.status else given.with_(status=(Status.DEAD_LETTER,))
    where = filter_of(context, wanted, await context.now())
    key = ("failures", wanted.listing, context.zone, most)
    found = await context.cache.get(key, lambda: context.client.failures(where, most))
    return FailuresView(groups=tuple(_group(context, wanted, each) for each in found.groups), capped=found.capped)


async def dead_letters(context: Context, query: RunQuery | None = None) -> RunsPage:
    """Dead letters one by one, newest first."""
    given = RunQuery() if query is None else query
    return await list_runs(context, given.with_(status=(Status.DEAD_LETTER,), cursor=given.cursor))


def _group(context: Context, query: RunQuery, group: activity.FailureGroup) -> FailureGroup:
    spot = Spot("error", group.sample_id, group.workflow)
    message = group.message if group.message is not None else group.reason or ""
    return FailureGroup(
        workflow=group.workflow,
        status=group.status,
        type=group.type or "",
        message=brief(shown_text(context, spot, "message", message)),
        fingerprint=group.fingerprint,
        count=group.count,
        first_at=group.first_at,
        last_at=group.last_at,
        sample_id=group.sample_id,
        query=query.with_(workflow=group.workflow, status=(group.status,), fingerprint=group.fingerprint),
    )
