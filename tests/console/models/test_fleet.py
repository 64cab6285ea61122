from __future__ import annotations

import math
import re
from datetime import UTC, datetime

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.client.schedule import Schedule
from runnerq.console.models.context import Context
from runnerq.console.models.dead_letters import failures
from runnerq.console.models.filters import RunQuery, parse_query
from runnerq.console.models.overview import activity, overview
from runnerq.console.models.queues import queue, queues
from runnerq.console.models.run import run_detail
from runnerq.console.models.runs import count
from runnerq.console.models.schedules import schedule, schedules
from runnerq.console.models.types import TypeNotFound, type_, types
from runnerq.console.models.workers import WorkerNotFound, worker, workers
from runnerq.persistence.records import QueueRecord, Status, WorkerRecord, WorkerRow
from runnerq.persistence.records.activity import BUCKETS, SHORTEST, STEP, bucket_of, percentile
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context as Ctx
from runnerq.workflow.declare import workflow
from tests.console.browsing import console_of
from tests.console.seeing import context_of
from tests.console.shop import SECRET, charge, checkout, mistaken, refused


async def test_a_tile_leads_to_a_list_of_as_many_runs(client: Client, context: Context) -> None:
    assert (await overview(context)).empty
    async with Worker(client, workflows=[checkout, refused, mistaken], activities=[charge], build="tests"):
        for workflow, args, status in (
            (checkout, ({},), Status.WAITING),
            (refused, (1,), Status.BLOCKED),  # its step is nothing that this worker has
            (mistaken, (), Status.BLOCKED),
        ):
            run = await client.start(workflow.__name__, *args)
            await run.reached(status, Status.DEAD_LETTER, Status.FAILED, timeout=10)
        await client.options(delay=60).start(charge, {})
        context.cache.forget()
        seen = await overview(context)
        for tile in seen.tiles:
            assert tile.params is not None
            assert await count(context, parse_query(tile.params)) == tile.count, tile.name
        assert seen.tile("waiting").count.n == 1
        assert seen.tile("scheduled").count.n == 1
        assert (seen.workers, seen.empty) == (1, False)


async def test_what_needs_somebody_is_told(client: Client, context: Context, worker: Worker) -> None:
    run = await client.start(mistaken)
    await run.reached(Status.BLOCKED, timeout=10)
    await client.options(queue="slow").start(charge, {})
    await client.queues.pause("mail")
    alerts = (await overview(context)).alerts
    assert [(alert.page, alert.level) for alert in alerts] == [
        ("blocked", "error"),
        ("runs", "error"),
        ("queues/mail", "note"),  # nothing is ready on it
    ]
    assert alerts[1].text == "No living worker serves charge on queue slow: 1 run is ready"
    assert parse_query(alerts[1].params) == RunQuery(status=(Status.PENDING,), workflow="charge", queue="slow")


async def test_what_fails_is_a_share_of_what_ended_also_where_it_was_let_go_on_and_failed_again(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(refused, 1)
    await run.reached(Status.DEAD_LETTER, timeout=10)
    assert await client.redrive(run.id) == 1
    await run.reached(Status.DEAD_LETTER, timeout=10)
    [failing] = (await overview(context)).failing
    assert failing.workflow == "refused"
    assert failing.failed.n == failing.ended.n >= 1


class Crowded:
    """A storage that has counted not all that is open."""

    def __init__(self, storage: object) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    async def queues(self) -> list[QueueRecord]:
        return [QueueRecord(name="mail", paused_at=datetime.now(UTC), ready=1, capped=True)]


async def test_counts_of_queues_that_are_not_of_all_runs_say_so(client: Client) -> None:
    context = context_of(Client(Crowded(client.storage)))  # type: ignore[arg-type]
    assert [each.capped for each in await queues(context)] == [True]
    assert (await queue(context, "not listed")).queue.capped
    [alert] = (await overview(context)).alerts
    assert alert.text == "Queue mail is paused: 1+ runs are ready on it"
    async with console_of(context.client) as browser:
        page = (await browser.get("/queues")).text
    assert "on queues that are not listed" in page
    assert re.search(r'data-label="ready">1\+<', page)


async def test_failures_that_are_alike_are_one_group_whose_query_finds_them(
    client: Client, context: Context, worker: Worker
) -> None:
    for number in (1, 22):
        run = await client.start(refused, number)
        await run.reached(Status.DEAD_LETTER, timeout=10)
    [group] = (await failures(context)).groups
    assert (group.workflow, group.count, group.type) == ("refused", 2, "ValueError")
    assert SECRET not in group.message
    assert (await count(context, group.query)).n == 2


async def test_an_hour_is_sixty_points_without_a_hole_and_a_day_ninety_six(context: Context) -> None:
    for window, many in (("1h", 60), ("24h", 96)):
        series = await activity(context, window)  # type: ignore[arg-type]
        assert len(series.points) == many
        assert (series.until - series.since).total_seconds() == series.step * many
        assert series.points[-1].at.timestamp() + series.step == series.until.timestamp()


async def test_a_schedule_is_shown_with_its_words_its_next_ticks_and_its_last_runs(
    client: Client, context: Context
) -> None:
    put = Schedule("nightly", charge, ({"password": SECRET},), cron="0 3 * * *", zone="Europe/Berlin")
    await client.schedules.put(put)
    first = await client.schedules.trigger("nightly")
    shown = await schedule(context, "nightly")
    assert (shown.words, len(shown.next)) == ("At 03:00 every day", 5)
    assert [(link.id, link.status) for link in shown.last_runs] == [(first.id, Status.PENDING)]
    assert SECRET not in str(shown)
    await client.schedules.pause("nightly")
    [paused] = await schedules(context)
    assert (paused.next, paused.paused_at is not None) == ((), True)


async def test_types_are_shown_with_what_workers_registered_and_what_is_open(
    client: Client, context: Context, worker: Worker
) -> None:
    await client.options(queue="slow").start(charge, {})
    await client.options(queue="slow").start("nobody")
    found = {each.name: each for each in await types(context)}
    assert (found["nobody"].kind, found["nobody"].served) == (None, False)
    assert found["charge"].open == ((Status.PENDING, 1),)
    [version] = found["checkout"].versions
    assert '"order"' in (version.schema or "")
    assert (await type_(context, "charge")).type == found["charge"]
    with pytest.raises(TypeNotFound):
        await type_(context, "no such type")
    shown = await queue(context, "slow")
    assert [(each.workflow, each.workers) for each in shown.types] == [("charge", 0), ("nobody", 0)]
    assert shown.queue.obstacle == "no living worker works on it"


@workflow(metadata={"auth_token": SECRET, "team": "shop"})
def keyed(ctx: Ctx, api_key: str = SECRET, password: str = "") -> Flow[None]:
    yield ctx.sleep(0)


async def test_a_type_is_shown_without_the_secrets_that_its_code_declares(client: Client, context: Context) -> None:
    async with Worker(client, workflows=[keyed], build="tests"):
        [version] = (await type_(context, "keyed")).type.versions
    assert SECRET not in str(version)
    assert "shop" in (version.options or "")
    assert '"password"' in (version.schema or "")


async def test_a_worker_is_shown_by_its_id_and_after_its_end_as_one_that_left(client: Client, context: Context) -> None:
    async with Worker(client, activities=[charge], build="tests"):
        [alive] = await workers(context)
        assert (alive.state, alive.serves) == ("alive", ("charge",))
    assert (await worker(context, alive.id)).state == "left"
    with pytest.raises(WorkerNotFound):
        await worker(context, "1")


async def test_a_worker_that_is_asked_to_stop_serves_nothing(client: Client, context: Context) -> None:
    async with Worker(client, workflows=[checkout], activities=[charge], build="tests"):
        waiting = await client.start(checkout, {})
        await waiting.reached(Status.WAITING, timeout=10)
    served = ("charge", "checkout@1")
    row = WorkerRow(id=4711, lease=60, host="web-1", pid=1, build="b", queues=("default",), served=served, slots=2)
    await client.storage.register(row, [])
    ready = await client.start(charge, {})
    [listed] = await queues(context)
    assert (listed.workers, listed.obstacle) == (1, None)
    await client.storage.drain(4711)
    context.cache.forget()
    words = "is asked to stop, and takes up nothing new"
    found = (await run_detail(context, ready.id)).waiting
    assert found is not None
    assert (found.held_by, found.obstacle) == ("worker", f"the worker that serves 'charge' on queue 'default' {words}")
    [listed] = await queues(context)
    assert (listed.workers, listed.obstacle) == (0, f"the worker that serves it {words}")
    shown = await queue(context, "default")
    assert (shown.worker_ids, [each.workers for each in shown.types]) == ((), [0, 0])
    assert [alert.text for alert in (await overview(context)).alerts] == [
        "Every worker that serves charge on queue default is asked to stop: 1 run is ready",
        "Every worker that serves checkout@1 on queue default is asked to stop: 1 run is open",
    ]
    assert not any(each.served for each in await types(context))
    fresh = msgspec.structs.replace(row, id=4712)
    await client.storage.register(fresh, [])
    context.cache.forget()
    assert (await overview(context)).alerts == ()
    assert (await queues(context))[0].obstacle is None


class Skewed(Crowded):
    """A storage whose workers have clocks that are off."""

    async def queues(self) -> list[QueueRecord]:
        return []

    async def workers(self) -> list[WorkerRecord]:
        found: list[WorkerRecord] = await self._storage.workers()  # type: ignore[attr-defined]
        return [msgspec.structs.replace(worker, clock_off=off) for worker, off in zip(found, (1.5, -9.25), strict=True)]


async def test_a_worker_whose_clock_is_off_is_told_of(client: Client) -> None:
    for number in (1, 2):
        served = ("charge",)
        row = WorkerRow(id=number, lease=60, host="web", pid=number, build="b", queues=("default",), served=served)
        await client.storage.register(row, [])
    context = context_of(Client(Skewed(client.storage)))  # type: ignore[arg-type]
    [alert] = (await overview(context)).alerts
    assert alert.level == "warning"
    assert alert.text.endswith(" is 9.2 s behind the database's")


@pytest.mark.parametrize(
    "took", [(274_000.0,), (0.606, 0.738), (0.0,), (1e-4, 5.0), (*(0.1 for _ in range(99)), 90.0), (3.0,) * 40]
)
def test_a_percentile_is_about_right_and_never_longer_than_what_took_longest(took: tuple[float, ...]) -> None:
    durations = [0] * BUCKETS
    for seconds in took:
        durations[bucket_of(seconds)] += 1
    for share in (0.5, 0.95):
        about = percentile(durations, share)
        exact = sorted(took)[math.ceil(share * len(took)) - 1]
        assert about is not None
        assert about <= max(took)
        assert exact / STEP - SHORTEST <= about <= exact * STEP + SHORTEST


async def test_percentiles_of_a_few_runs_are_those_of_the_runs(
    client: Client, context: Context, worker: Worker
) -> None:
    runs = [await client.start(charge, {}) for _ in range(3)]
    for run in runs:
        await run.result(10)
    infos = [await run.info() for run in runs]
    took = sorted((i.ended_at - i.started_at).total_seconds() for i in infos if i.ended_at and i.started_at)
    shown = (await type_(context, "charge")).type
    assert (shown.p50, shown.p95) == (took[1], took[2])
