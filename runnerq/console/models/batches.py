"""Changes to many runs at once: how far each is, and what went wrong.

They run in this process, and the last hundred are kept in its memory: their beginning and end are in the audit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from runnerq.errors import RunnerQError, TransactionConflict
from runnerq.ids import new_run_id

log = logging.getLogger("runnerq.console")

KEPT = 100
MOST_RUNNING = 10
"""Batches under way at once."""
GRACE = 5.0
"""Seconds for the run that a batch is at when its console is closed."""
MOST_FAILURES = 100

BatchEnd: TypeAlias = Literal["done", "stopped"]
BatchState: TypeAlias = Literal["running", "done", "stopped", "failed"]


class BatchFailure(msgspec.Struct, frozen=True):
    """A run that was not changed, and why."""

    run_id: str
    message: str


class BatchView(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as it stands. ``total`` is how many runs there were when it began (``capped``: so many, or more),
    ``done`` how many were looked at, ``changed`` how many of them were changed. ``failures`` are the first hundred."""

    id: str
    action: str
    principal: str
    reason: str | None
    what: str
    params: tuple[tuple[str, str], ...]
    started_at: datetime
    state: BatchState = "running"
    ended_at: datetime | None = None
    total: int = 0
    capped: bool = False
    done: int = 0
    changed: int = 0
    failed: int = 0
    failures: tuple[BatchFailure, ...] = ()
    message: str | None = None

    @property
    def percent(self) -> int:
        """How far it is; 100 only when it has come to its end."""
        if self.state == "done":
            return 100
        return min(99, 100 * self.done // self.total) if self.total else 0


class BatchNotFound(RunnerQError):
    """No batch of this process has this id."""

    __match_args__ = ("batch_id",)

    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(
            f"there is no batch {batch_id!r} here: the last {KEPT} of this process are kept, and the audit has them all"
        )


class TooManyBatches(TransactionConflict):
    """As many batches are under way here as may be at once. Nothing was changed, and it may be asked for again."""

    def __init__(self) -> None:
        super().__init__(
            f"{MOST_RUNNING} batches are under way in this process, and that is the most there may be: wait until one "
            "has ended, or stop one"
        )


class Progress:
    """One batch from within: what becomes of each run is told here, and whether it is to stop is asked here."""

    def __init__(self, view: BatchView) -> None:
        self.view = view
        self.stopping = False

    def total(self, count: int, *, capped: bool) -> None:
        """So many runs are to be looked at."""
        self._tell(total=count, capped=capped)

    def looked_at(self, *, changed: bool) -> None:
        """One more run was looked at, and changed or found to be so already."""
        self._tell(done=self.view.done + 1, changed=self.view.changed + changed)

    def failed(self, run_id: str, message: str) -> None:
        """One more run was looked at, and could not be changed."""
        failures = self.view.failures
        if len(failures) < MOST_FAILURES:
            failures = (*failures, BatchFailure(run_id, message))
        self._tell(done=self.view.done + 1, failed=self.view.failed + 1, failures=failures)

    def ended(self, state: BatchState, message: str | None = None) -> None:
        """It is over."""
        self._tell(state=state, message=message, ended_at=datetime.now(UTC))

    def _tell(self, **changed: Any) -> None:
        self.view = msgspec.structs.replace(self.view, **changed)


class Batches:
    """The batches of one console. ``close`` ends what is under way."""

    def __init__(self) -> None:
        self._kept: dict[str, Progress] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def check_room(self) -> None:
        """Raise TooManyBatches if one more cannot be begun."""
        if sum(each.view.state == "running" for each in self._kept.values()) >= MOST_RUNNING:
            raise TooManyBatches

    def begin(
        self,
        action: str,
        what: str,
        work: Callable[[Progress], Awaitable[BatchEnd]],
        *,
        principal: str,
        reason: str | None = None,
        params: tuple[tuple[str, str], ...] = (),
    ) -> BatchView:
        """Have the work done in the background, and answer how it stands. ``what`` says in words on which runs.

        The work answers whether it came to its end, or stopped because it was told to. Raises TooManyBatches.
        """
        self.check_room()
        view = BatchView(
            id=new_run_id(),
            action=action,
            principal=principal,
            reason=reason,
            what=what,
            params=params,
            started_at=datetime.now(UTC),
        )
        progress = self._kept[view.id] = Progress(view)
        ended = [each.view.id for each in self._kept.values() if each.view.state != "running"]
        for oldest in ended[: max(0, len(self._kept) - KEPT)]:
            del self._kept[oldest]
        task = asyncio.get_running_loop().create_task(_carried_out(progress, work), name=f"batch {view.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return view

    def list(self) -> tuple[BatchView, ...]:
        """The newest first."""
        return tuple(progress.view for progress in reversed(self._kept.values()))

    def get(self, batch_id: str) -> BatchView:
        """Raises BatchNotFound."""
        return self._of(batch_id).view

    def stop(self, batch_id: str) -> BatchView:
        """Have it end after the run that it is at; one that has ended stays as it is. Raises BatchNotFound."""
        progress = self._of(batch_id)
        progress.stopping = True
        return progress.view

    async def close(self) -> None:
        """Stop all, and return when they have ended."""
        for progress in self._kept.values():
            progress.stopping = True
        tasks = list(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _of(self, batch_id: str) -> Progress:
        try:
            return self._kept[batch_id]
        except KeyError:
            raise BatchNotFound(batch_id) from None


async def _carried_out(progress: Progress, work: Callable[[Progress], Awaitable[BatchEnd]]) -> None:
    try:
        end = await work(progress)
    except asyncio.CancelledError:
        progress.ended("stopped", "this process has ended")
        raise
    except Exception as error:  # nobody awaits it: it is told where the batch is shown
        log.exception("batch %s failed", progress.view.id)
        progress.ended("failed", str(error))
    else:
        progress.ended(end)
