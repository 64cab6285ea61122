from __future__ import annotations

import asyncio

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.console.actions.batches import BatchRequest, Selection, preview, start_batch, stop_batch
from runnerq.console.models.audit import AuditQuery, audit
from runnerq.console.models.batches import KEPT, MOST_RUNNING, BatchNotFound, BatchView, TooManyBatches
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields, RunQuery
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Counted, Found, RunFilter, Status
from tests.console.seeing import context_of
from tests.console.shop import SECRET, charge, checkout


async def ended(context: Context, batch: BatchView) -> BatchView:
    """The batch once it is over."""
    while (view := context.batches.get(batch.id)).state == "running":
        await asyncio.sleep(0)
    return view


async def test_all_that_fit_are_changed_also_behind_the_first_page_and_nothing_else(
    client: Client, context: Context
) -> None:
    await client.start_many(charge, [({},)] * 450)
    other = await client.start(checkout, {})
    request = BatchRequest(action="cancel", selection=Selection(query=RunQuery(workflow="charge")))
    shown = await preview(context, request)
    assert (shown.count.n, len(shown.sample)) == (450, 10)
    view = await ended(context, await start_batch(context, request, reason="a mistake"))
    assert (view.state, view.total, view.done, view.changed, view.percent) == ("done", 450, 450, 450, 100)
    assert await client.count() == 451
    assert (await other.info()).status is Status.PENDING
    [row] = (await audit(context, AuditQuery(run_id=shown.sample[0].id))).rows
    assert (row.action, row.principal, row.reason, row.outcome) == ("cancel", "ada", "a mistake", "done")
    assert view.id in str(row.request)
    assert [
        (row.action, row.reason, row.outcome) for row in (await audit(context, AuditQuery(action="batch"))).rows
    ] == [
        ("batch", "a mistake", "ended: 450 looked at, 450 changed, 0 could not be"),
        ("batch", "a mistake", "begun"),
    ]


async def test_what_cannot_be_changed_is_told_and_the_rest_goes_on(client: Client, context: Context) -> None:
    runs = [(await client.start(charge, {})).id for _ in range(3)]
    await client.cancel(runs[0])
    ids = (runs[0], "01a22d36-feaa-7782-aafd-0627fea8ca7f", *runs[1:])
    view = await ended(context, await start_batch(context, BatchRequest(action="delete", selection=Selection(ids=ids))))
    assert (view.changed, view.failed) == (1, 3)
    assert [failure.run_id for failure in view.failures] == list(ids[1:])
    assert [row.run_id for row in (await audit(context, AuditQuery(action="delete"))).rows] == [runs[0]]
    [begun] = (await audit(context, AuditQuery(action="batch"))).rows[1:]
    assert all(each in str(begun.request) for each in ids)


async def test_a_secret_that_a_batch_looks_for_is_not_in_the_audit(context: Context) -> None:
    query = RunQuery(error=f"password={SECRET}", meta=(("auth_token", SECRET),))
    await ended(context, await start_batch(context, BatchRequest(action="retry", selection=Selection(query=query))))
    assert SECRET not in str((await audit(context)).rows)


async def test_the_audit_keeps_as_many_ids_of_a_batch_as_fit(client: Client, context: Context) -> None:
    ids = tuple(run.id for run in await client.start_many(charge, [({},)] * 200))
    await ended(context, await start_batch(context, BatchRequest(action="cancel", selection=Selection(ids=ids))))
    [begun] = (await audit(context, AuditQuery(action="batch"))).rows[1:]
    kept = msgspec.json.decode(begun.request or "")["ids"]
    assert kept == list(ids[: len(kept)])
    assert len(kept) > 40
    assert len((await audit(context, AuditQuery(action="cancel", limit=200))).rows) == 200


async def test_no_more_than_ten_batches_are_under_way_at_once(client: Client, context: Context) -> None:
    await client.start_many(charge, [({},)] * 50)
    request = BatchRequest(action="priority", priority="low", selection=Selection(query=RunQuery()))
    begun = [await start_batch(context, request) for _ in range(MOST_RUNNING)]
    with pytest.raises(TooManyBatches, match="10 batches are under way"):
        await start_batch(context, request)
    assert len(context.batches.list()) == MOST_RUNNING
    for each in begun:
        await ended(context, each)
    await start_batch(context, request)
    await context.batches.close()


async def test_only_runs_in_a_state_that_the_action_is_for_are_looked_at(client: Client, context: Context) -> None:
    run = await client.start(charge, {})
    request = BatchRequest(action="retry", selection=Selection(query=RunQuery()))
    assert (await preview(context, request)).count.n == 0
    view = await ended(context, await start_batch(context, request))
    assert (view.done, view.failed) == (0, 0)
    pending = BatchRequest(action="retry", selection=Selection(query=RunQuery(status=(Status.PENDING,))))
    assert (await preview(context, pending)).count.n == 0
    assert (await run.info()).status is Status.PENDING


async def test_a_batch_that_is_stopped_says_how_far_it_came(client: Client, context: Context) -> None:
    await client.start_many(charge, [({},)] * 50)
    request = BatchRequest(action="priority", priority="low", selection=Selection(query=RunQuery()))
    batch = await start_batch(context, request)
    await stop_batch(context, batch.id)
    view = await ended(context, batch)
    assert (view.state, view.done < 50) == ("stopped", True)
    with pytest.raises(BatchNotFound):
        await stop_batch(context, "no such batch")


async def test_a_batch_is_not_done_where_it_was_stopped_after_more_than_it_had_counted(client: Client) -> None:
    """A count has an end; the runs that fit may have none."""
    storage = CountingToFive(client.storage)
    context = context_of(Client(storage))  # type: ignore[arg-type]
    await client.start_many(charge, [({},)] * 300)
    request = BatchRequest(action="priority", priority="low", selection=Selection(query=RunQuery()))
    batch = await start_batch(context, request)
    await storage.behind_the_first_page.wait()
    await stop_batch(context, batch.id, reason="the wrong ones")
    storage.let.set()
    view = await ended(context, batch)
    assert (view.state, view.total, view.capped, view.percent) == ("stopped", 5, True, 99)
    rows = [row for row in (await audit(context)).rows if row.action in ("batch", "batch-stop")]
    assert rows[0].outcome.startswith("stopped: ")
    assert (rows[1].action, rows[1].reason) == ("batch-stop", "the wrong ones")


async def test_a_batch_that_was_told_to_stop_when_it_had_come_to_its_end_is_done(
    client: Client, context: Context
) -> None:
    run = await client.start(charge, {})
    batch = await start_batch(context, BatchRequest(action="cancel", selection=Selection(ids=(run.id,))))
    while not context.batches.get(batch.id).done:
        await asyncio.sleep(0)
    await stop_batch(context, batch.id)
    assert (await ended(context, batch)).state == "done"
    outcomes = [row.outcome for row in (await audit(context)).rows if row.action == "batch"]
    assert outcomes[0].startswith("ended: ")


async def test_closing_ends_what_is_under_way(client: Client, context: Context) -> None:
    await client.start_many(charge, [({},)] * 50)
    request = BatchRequest(action="cancel", selection=Selection(query=RunQuery()))
    batch = await start_batch(context, request)
    await context.batches.close()
    assert context.batches.get(batch.id).state == "stopped"


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (BatchRequest(action="fork", selection=Selection(query=RunQuery())), "action"),
        (BatchRequest(action="cancel", selection=Selection()), "ids"),
        (BatchRequest(action="cancel", selection=Selection(ids=("x",))), "ids"),
        (BatchRequest(action="priority", selection=Selection(query=RunQuery())), "priority"),
    ],
)
async def test_a_batch_of_nothing_that_can_be_is_an_error_of_its_field(
    request_: BatchRequest, field: str, context: Context
) -> None:
    for asked in (preview, start_batch):
        with pytest.raises(BadFields) as refused:
            await asked(context, request_)  # type: ignore[operator]
        assert set(refused.value.errors) == {field}


@pytest.mark.parametrize(
    ("action", "status"),
    [("terminate", Status.CANCELLED), ("run-now", Status.PENDING), ("priority", Status.SCHEDULED)],
)
async def test_many_delayed_runs_are_changed_by_each_verb(
    action: str, status: Status, client: Client, context: Context
) -> None:
    runs = [await client.options(delay=3600).start(charge, {}) for _ in range(3)]
    request = BatchRequest(action=action, priority="low", selection=Selection(query=RunQuery(workflow="charge")))
    assert (await ended(context, await start_batch(context, request))).changed == 3
    assert {(await run.info()).status for run in runs} == {status}


class Other:
    """A storage that does some things in its own way."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)


class CountingToFive(Other):
    """It counts no further, and goes on to the second page when it is let."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.behind_the_first_page, self.let = asyncio.Event(), asyncio.Event()

    async def list_runs(self, where: RunFilter, limit: int, cursor: str | None = None) -> Found:
        if cursor is not None:
            self.behind_the_first_page.set()
            await self.let.wait()
        found: Found = await self._storage.list_runs(where, limit, cursor)
        return found

    async def count_runs(self, *_: object, **__: object) -> Counted:
        return Counted(count=5, capped=True)


class Failing(Other):
    """It fails when a run is cancelled."""

    async def cancel(self, *_: object, **__: object) -> object:
        raise RuntimeError("a fault of ours")


async def test_a_batch_that_meets_a_fault_says_so_and_ends(client: Client) -> None:
    await client.start(charge, {})
    failing = context_of(Client(Failing(client.storage)))  # type: ignore[arg-type]
    request = BatchRequest(action="cancel", selection=Selection(query=RunQuery()))
    view = await ended(failing, await start_batch(failing, request))
    assert (view.state, view.message) == ("failed", "a fault of ours")


async def test_the_last_hundred_batches_are_kept(client: Client, context: Context) -> None:
    request = BatchRequest(action="cancel", selection=Selection(query=RunQuery()))
    first = await start_batch(context, request)
    for _ in range(KEPT + 1):
        last = await ended(context, await start_batch(context, request))
    kept = context.batches.list()
    assert (len(kept), kept[0]) == (KEPT, last)
    with pytest.raises(BatchNotFound):
        context.batches.get(first.id)
