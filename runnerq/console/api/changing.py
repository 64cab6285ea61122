"""What the API does to runs, one or many."""

from __future__ import annotations

from runnerq.console.actions import runs as actions
from runnerq.console.actions.batches import BatchRequest, Selection, preview, start_batch, stop_batch
from runnerq.console.actions.doing import Done
from runnerq.console.actions.runs import Started
from runnerq.console.api.given import WHOLE
from runnerq.console.api.operations import Reply, acts
from runnerq.console.api.shapes import (
    BatchBody,
    Batched,
    Body,
    ForkBody,
    NewRun,
    NewSignal,
    PriorityBody,
    RedriveBody,
    RescheduleBody,
    RetryBody,
    RevealBody,
    query_where,
)
from runnerq.console.models.batches import BatchView
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.console.models.payloads import Payload


@acts("start", "/runs", statuses=(201, 200), once="key")
async def start_run(context: Context, body: NewRun) -> Reply[Started]:
    """Start a run. `201` and `created` say that it was made, `200` that one with its key was there."""
    try:
        started = await actions.start(context, body.request(), reason=body.reason)
    except ValueError as error:
        # A key that no database keeps, say.
        raise BadFields({WHOLE: str(error)}) from error
    return Reply(started, 201 if started.created else 200, f"/runs/{started.run_id}")


@acts("signal", "/runs/{run_id}/send", once="dedup")
async def send_signal(context: Context, run_id: str, body: NewSignal) -> Done:
    """Send a signal to a run. It is kept until the run takes it."""
    return await actions.send(
        context, run_id, body.channel, body.value, dedup=body.dedup, reason=body.reason, unchecked=body.unchecked
    )


@acts("cancel", "/runs/{run_id}/cancel")
async def cancel_run(context: Context, run_id: str, body: Body) -> Done:
    """Ask a run to cancel: its code cleans up, and its undos run."""
    return await actions.cancel(context, run_id, reason=body.reason)


@acts("terminate", "/runs/{run_id}/terminate")
async def terminate_run(context: Context, run_id: str, body: Body) -> Done:
    """End a run at once: no code of it runs any more, no undo either."""
    return await actions.terminate(context, run_id, reason=body.reason)


@acts("retry", "/runs/{run_id}/retry")
async def retry_run(context: Context, run_id: str, body: RetryBody) -> Done:
    """Let a failed, dead-lettered or blocked run go on from what failed."""
    return await actions.retry(context, run_id, accept=body.accept, reason=body.reason)


@acts("redrive", "/runs/{run_id}/redrive")
async def redrive_run(context: Context, run_id: str, body: Body) -> Done:
    """Let a dead letter go on from what failed."""
    return await actions.redrive(context, run_id, reason=body.reason)


@acts("reschedule", "/runs/{run_id}/run-now")
async def run_now(context: Context, run_id: str, body: Body) -> Done:
    """Have a delayed run, or the next attempt of one that failed, begin now."""
    return await actions.run_now(context, run_id, reason=body.reason)


@acts("reschedule", "/runs/{run_id}/reschedule")
async def reschedule_run(context: Context, run_id: str, body: RescheduleBody) -> Done:
    """Have a pending run become due at another time."""
    return await actions.reschedule(context, run_id, body.at, reason=body.reason)


@acts("reschedule", "/runs/{run_id}/priority")
async def set_priority(context: Context, run_id: str, body: PriorityBody) -> Done:
    """Change the priority of a run that has not ended."""
    return await actions.set_priority(context, run_id, body.priority, reason=body.reason)


@acts("fork", "/runs/{run_id}/fork")
async def fork_run(context: Context, run_id: str, body: ForkBody) -> Done:
    """Start a new run with a run's history as far as an entry: `run_id` is the new one's."""
    return await actions.fork(context, run_id, from_entry=body.from_entry, reason=body.reason)


@acts("delete", "/runs/{run_id}/delete")
async def delete_run(context: Context, run_id: str, body: Body) -> Done:
    """Delete a run that has ended, and all below it, for good."""
    return await actions.delete(context, run_id, reason=body.reason)


@acts("delete", "/runs/{run_id}", method="DELETE")
async def remove_run(context: Context, run_id: str) -> Done:
    """Delete a run that has ended, and all below it, for good; `POST .../delete` takes a reason as well."""
    return await actions.delete(context, run_id)


@acts("payload.reveal", "/runs/{run_id}/reveal")
async def reveal_payload(context: Context, run_id: str, body: RevealBody) -> Payload:
    """One payload of a run as it is, nothing masked. It takes a reason, which stands in the audit."""
    return await actions.reveal(context, run_id, body.which, entry=body.entry, reason=body.reason)


# --- many -------------------------------------------------------------------------------------------------------------


@acts("bulk", "/runs/batch", statuses=(202, 200))
async def start_many(context: Context, body: BatchBody) -> Reply[Batched]:
    """Do the same to many runs. `202`: it goes on behind this, and `GET /batches/{id}` says how far it is.

    It takes the action's own permission as well. `dry_run` changes nothing, and is answered with `200`.
    """
    query = None if body.where is None else query_where(body.where)
    selection = Selection(ids=tuple(body.ids), query=query)
    request = BatchRequest(action=body.action, selection=selection, priority=body.priority)
    return await _batched(context, request, body.reason, dry_run=body.dry_run)


@acts("redrive", "/dead-letter/redrive", statuses=(202, 200))
async def redrive_many(context: Context, body: RedriveBody) -> Reply[Batched]:
    """Let dead letters go on, all or those of a group: a batch as `POST /runs/batch` makes it, `bulk` is needed too."""
    query = query_where({**body.where, "status": "dead_letter"})
    request = BatchRequest(action="redrive", selection=Selection(query=query))
    return await _batched(context, request, body.reason, dry_run=body.dry_run)


@acts("bulk", "/batches/{batch_id}/stop")
async def stop_many(context: Context, batch_id: str, body: Body) -> BatchView:
    """Have a batch end after the run that it is at."""
    return await stop_batch(context, batch_id, reason=body.reason)


async def _batched(context: Context, request: BatchRequest, reason: str | None, *, dry_run: bool) -> Reply[Batched]:
    shown = await preview(context, request)
    if dry_run:
        return Reply(Batched(count=shown.count, sample=shown.sample, batch=None), 200)
    # Counted before: those that it has changed do not fit any more.
    batch = await start_batch(context, request, reason=reason)
    return Reply(Batched(count=shown.count, sample=shown.sample, batch=batch), 202, f"/batches/{batch.id}")


OPERATIONS = (
    start_run, send_signal, cancel_run, terminate_run, retry_run, redrive_run, run_now, reschedule_run, set_priority,
    fork_run, delete_run, remove_run, reveal_payload, start_many, redrive_many, stop_many,
)  # fmt: skip
