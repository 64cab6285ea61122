"""The part of the client that looks at many runs, at queues and workers, and at what happens."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import get_args

from runnerq.client.activity import (
    MINUTE,
    Failures,
    Throughput,
    activity_of,
    all_spans,
    checked_span,
    failures_of,
)
from runnerq.client.audit import Audit
from runnerq.client.base import Base
from runnerq.client.filters import checked_filter
from runnerq.client.info import Page, RunInfo, info_of
from runnerq.client.limits import Limits
from runnerq.client.queues import Queues
from runnerq.client.schedules import Schedules
from runnerq.client.tail import tail
from runnerq.client.tree import tree_of
from runnerq.client.values import Event, Node, Stats, stats_of
from runnerq.ids import check_run_id
from runnerq.persistence.records import Aggregate, GroupBy, RunFilter
from runnerq.workflow.given import check_name

MAX_PAGE = 1000
CAP = 10_000


class Looks(Base):
    """Looks at what there is."""

    async def list(
        self,
        filter: RunFilter | None = None,  # noqa: A002 - the API's word, here and below
        limit: int = 50,
        cursor: str | None = None,
        *,
        oldest: bool = False,
    ) -> Page[RunInfo]:
        """The runs that fit, newest first (with ``oldest=True``, oldest first); ``cursor`` is the ``next`` of the page
        before, or the id of any run, behind which to go on.

        A page may be short, or empty, and have a ``next``: no more than 20,000 runs are looked at for one.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise ValueError(f"limit={limit!r}: a page has 1 to {MAX_PAGE} runs")
        place = None if cursor is None else check_run_id(cursor)
        found = await self._core.storage.list_runs(checked_filter(filter), limit, place, oldest=oldest)
        return Page([info_of(record) for record in found.runs], found.next)

    async def count(self, filter: RunFilter | None = None, cap: int = CAP) -> int:  # noqa: A002 - as above
        """How many runs fit. Counting stops at ``cap``: an answer of ``cap`` means so many, or more."""
        return (await self._core.storage.count_runs(checked_filter(filter), _checked_cap(cap))).count

    async def aggregate(
        self,
        by: GroupBy,
        filter: RunFilter | None = None,  # noqa: A002 - as above
        cap: int = CAP,
    ) -> Aggregate:
        """The runs that fit, counted by status, workflow, queue or priority, or by when they were started.

        Only the newest ``cap`` runs are looked at; ``capped`` says whether there are more.
        """
        if by not in get_args(GroupBy):
            raise ValueError(f"by={by!r} is not one of {', '.join(get_args(GroupBy))}")
        return await self._core.storage.aggregate(checked_filter(filter), by, _checked_cap(cap))

    async def failures(
        self,
        filter: RunFilter | None = None,  # noqa: A002 - as above
        cap: int = CAP,
    ) -> Failures:
        """The runs that fit and failed or are dead letters, grouped by workflow, status and what they failed with:
        errors of one type whose messages differ in nothing but ids, numbers and the like are alike.

        Only the newest ``cap`` runs are looked at; ``capped`` says whether there are more.
        """
        return failures_of(await self._core.storage.failures(checked_filter(filter), _checked_cap(cap)))

    async def activity(
        self,
        since: datetime,
        until: datetime,
        *,
        workflow: str | None = None,
        span: float | timedelta = MINUTE,
    ) -> builtins.list[Throughput]:
        """What happened between two times, span by span, oldest first: of all runs, or of one workflow or activity.

        Times are taken to whole minutes, and so must ``span`` be. The last ten seconds or so are not counted yet, and
        nothing is while no worker lives; eight days are kept.
        """
        first, last, minutes = checked_span(since, until, span)
        names = None if workflow is None else [check_name(workflow, "workflow=")]
        found = await self._core.storage.activity(first, last, minutes, names)
        return all_spans(found, workflow, first, last, minutes)

    async def activity_by_workflow(self, since: datetime, until: datetime) -> builtins.list[Throughput]:
        """What happened between two times, in one span, of each workflow and activity that did anything, by name."""
        first, last, _ = checked_span(since, until, MINUTE)
        whole = (last - first) // timedelta(minutes=1)
        return [activity_of(found) for found in await self._core.storage.activity(first, last, whole, ())]

    async def tree(self, run_id: str) -> Node:
        """A run, and all that was started below it. Raises RunNotFound."""
        return await tree_of(self._core, check_run_id(run_id))

    async def stats(self) -> Stats:
        """What is open now, by status, workflow, queue and priority, and who works on it."""
        return stats_of(await self._core.storage.stats())

    def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """What happens, as it happens, in one order for everybody: behind an event's ``cursor``, else from now on.

        It waits for more until the client is closed, and misses nothing, also what commits late. Raises ValueError for
        a cursor that is none.
        """
        return tail(self._core, after)

    @property
    def queues(self) -> Queues:
        """The queues: ``list``, ``pause``, ``resume``."""
        return Queues(self._core)

    @property
    def schedules(self) -> Schedules:
        """The schedules: ``put``, ``list``, ``get``, ``pause``, ``resume``, ``trigger``, ``backfill``, ``delete``."""
        return Schedules(self._core)

    @property
    def limits(self) -> Limits:
        """How many runs are held at once, and admitted in a span of time: ``set``, ``list``, ``get``, ``delete``."""
        return Limits(self._core)

    @property
    def audit(self) -> Audit:
        """What people did through a console, an API or a command line: ``record``, ``list``."""
        return Audit(self._core)


def _checked_cap(cap: int) -> int:
    if cap < 1:
        raise ValueError(f"cap={cap!r}: at least one run is looked at")
    return cap
