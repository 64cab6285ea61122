"""What the API tells of everything but runs, and does to it."""

from __future__ import annotations

from runnerq.console.access import PERMISSIONS
from runnerq.console.actions import fleet as actions
from runnerq.console.actions.doing import Done
from runnerq.console.api.operations import acts, reads
from runnerq.console.api.shapes import (
    ActivityQuery,
    Audited,
    AuditParams,
    BackfillBody,
    Body,
    LimitBody,
    Me,
    RunsQuery,
    ScheduleBody,
)
from runnerq.console.models.audit import AuditQuery, audit
from runnerq.console.models.batches import BatchView
from runnerq.console.models.context import Context
from runnerq.console.models.dead_letters import FailuresView, failures
from runnerq.console.models.limits import LimitView, limits
from runnerq.console.models.overview import Overview, Series, activity, overview
from runnerq.console.models.queues import QueueDetail, QueueView, queue, queues
from runnerq.console.models.schedules import ScheduleView, schedule, schedules
from runnerq.console.models.types import TypeDetail, TypeView, type_, types
from runnerq.console.models.workers import WorkerView, worker, workers

# --- reads ------------------------------------------------------------------------------------------------------------


@reads("/me")
async def get_me(context: Context) -> Me:
    """Who asks, and what they may do."""
    asker = context.principal
    return Me(name=asker.name, permissions=tuple(each for each in PERMISSIONS if asker.may(each)))


@reads("/stats")
async def get_stats(context: Context) -> Overview:
    """How everything is: counts, what needs somebody, and what fails."""
    return await overview(context)


@reads("/activity")
async def get_activity(context: Context, query: ActivityQuery) -> Series:
    """What was started and has ended, by spans of time, and how long it took."""
    return await activity(context, query.window, query.workflow)


@reads("/dead-letter")
async def list_failures(context: Context, query: RunsQuery) -> FailuresView:
    """Dead letters, those that failed alike together; with `status` also other failures.

    `query` of a group are the parameters of `GET /runs` that list it, and the `where` of `POST /dead-letter/redrive`.
    """
    return await failures(context, query.parsed())


@reads("/schedules")
async def list_schedules(context: Context) -> tuple[ScheduleView, ...]:
    """All schedules, by name."""
    return await schedules(context)


@reads("/schedules/{name}")
async def get_schedule(context: Context, name: str) -> ScheduleView:
    """A schedule, with its next ticks and its last runs."""
    return await schedule(context, name)


@reads("/queues")
async def list_queues(context: Context) -> tuple[QueueView, ...]:
    """Queues that have open runs, a living worker or a pause, by name."""
    return await queues(context)


@reads("/queues/{name}")
async def get_queue(context: Context, name: str) -> QueueDetail:
    """A queue, what is open on it, and who serves it."""
    return await queue(context, name)


@reads("/workers")
async def list_workers(context: Context) -> tuple[WorkerView, ...]:
    """Workers, those that live first."""
    return await workers(context)


@reads("/workers/{worker_id}")
async def get_worker(context: Context, worker_id: str) -> WorkerView:
    """A worker."""
    return await worker(context, worker_id)


@reads("/types")
async def list_types(context: Context) -> tuple[TypeView, ...]:
    """Workflows and activities that workers have registered, or open runs are of, by name."""
    return await types(context)


@reads("/types/{name}")
async def get_type(context: Context, name: str) -> TypeDetail:
    """A workflow or an activity, and its last day."""
    return await type_(context, name)


@reads("/limits")
async def list_limits(context: Context) -> tuple[LimitView, ...]:
    """All limits, by scope."""
    return await limits(context)


@reads("/batches")
async def list_batches(context: Context) -> tuple[BatchView, ...]:
    """The last batches of this process, the newest first."""
    return context.batches.list()


@reads("/batches/{batch_id}")
async def get_batch(context: Context, batch_id: str) -> BatchView:
    """How far a batch is, and what went wrong."""
    return context.batches.get(batch_id)


@reads("/audit")
async def list_audit(context: Context, query: AuditParams) -> Audited:
    """What people have done, newest first."""
    wanted = AuditQuery(
        run_id=query.run_id, principal=query.principal, action=query.action, cursor=query.cursor, limit=query.limit
    )
    found = await audit(context, wanted)
    return Audited(items=found.rows, next_cursor=found.next)


# --- actions ----------------------------------------------------------------------------------------------------------


@acts("queue.write", "/queues/{name}/pause")
async def pause_queue(context: Context, name: str, body: Body) -> Done:
    """Have no run of a queue taken up until it is resumed; what is being worked on goes on."""
    return await actions.pause_queue(context, name, reason=body.reason)


@acts("queue.write", "/queues/{name}/resume")
async def resume_queue(context: Context, name: str, body: Body) -> Done:
    """End a queue's pause."""
    return await actions.resume_queue(context, name, reason=body.reason)


@acts("schedule.write", "/schedules/{name}", method="PUT")
async def put_schedule(context: Context, name: str, body: ScheduleBody) -> Done:
    """Create a schedule, or replace the one of its name."""
    return await actions.put_schedule(context, body.request(name), reason=body.reason)


@acts("schedule.write", "/schedules/{name}", method="DELETE")
async def delete_schedule(context: Context, name: str) -> Done:
    """Delete a schedule; its runs go on."""
    return await actions.delete_schedule(context, name)


@acts("schedule.write", "/schedules/{name}/pause")
async def pause_schedule(context: Context, name: str, body: Body) -> Done:
    """Have a schedule start nothing until it is resumed."""
    return await actions.pause_schedule(context, name, reason=body.reason)


@acts("schedule.write", "/schedules/{name}/resume")
async def resume_schedule(context: Context, name: str, body: Body) -> Done:
    """End a schedule's pause: the next tick from now on is its next."""
    return await actions.resume_schedule(context, name, reason=body.reason)


@acts("schedule.write", "/schedules/{name}/trigger")
async def trigger_schedule(context: Context, name: str, body: Body) -> Done:
    """Start one run of a schedule now: `run_id` is its."""
    return await actions.trigger_schedule(context, name, reason=body.reason)


@acts("schedule.write", "/schedules/{name}/backfill")
async def backfill_schedule(context: Context, name: str, body: BackfillBody) -> Done:
    """Start a run for each tick of a span that has passed which has none: `count` says how many."""
    return await actions.backfill_schedule(context, name, body.since, body.until, reason=body.reason)


@acts("limit.write", "/limits/{name}", method="PUT")
async def put_limit(context: Context, name: str, body: LimitBody) -> Done:
    """Make a limit, or change it: it holds from now on."""
    return await actions.set_limit(context, body.request(name), reason=body.reason)


@acts("limit.write", "/limits/{name}", method="DELETE")
async def delete_limit(context: Context, name: str) -> Done:
    """End a limit: its runs wait for a worker alone."""
    return await actions.delete_limit(context, name)


@acts("worker.write", "/workers/{worker_id}/drain")
async def drain_worker(context: Context, worker_id: str, body: Body) -> Done:
    """Have a worker stop in order: it claims no more, lets what runs end, and gives back the rest.

    It is told by its next beat, within a second or two. What started it may start it anew.
    """
    return await actions.drain_worker(context, worker_id, reason=body.reason)


OPERATIONS = (
    get_me, get_stats, get_activity, list_failures, list_schedules, get_schedule, list_queues, get_queue, list_workers,
    get_worker, list_types, get_type, list_limits, list_batches, get_batch, list_audit, pause_queue, resume_queue,
    put_schedule, delete_schedule, pause_schedule, resume_schedule, trigger_schedule, backfill_schedule, put_limit,
    delete_limit, drain_worker,
)  # fmt: skip
