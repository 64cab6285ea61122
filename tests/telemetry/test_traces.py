"""Traces: one of a whole tree of runs, linked over parks and over workers that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any
from uuid import UUID

import msgspec
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from runnerq.client.client import Client
from runnerq.errors import ConfigurationError, RunFailed
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Status
from runnerq.telemetry.events import AttemptBegan, AttemptEnded, Came, LeaseLost, RunReaped, RunReleased
from runnerq.telemetry.opentelemetry import OpenTelemetry
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import Gate, Tapped
from tests.telemetry.hearing import SOON, Ear, worker_of


class Spans:
    """What was exported. Each ``listener`` is as that of a process of its own, and all export to here."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("the application's own")

    def listener(self, **options: Any) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.provider, meter_provider=MeterProvider(), **options)

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of this name, in the order in which they began."""
        found = [span for span in self.exporter.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    return span.get_span_context().span_id


def links_of(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


async def test_a_start_its_run_its_steps_its_child_and_a_signal_are_one_trace() -> None:
    spans = Spans()

    @activity
    async def ship(parent: str) -> str:
        with spans.tracer.start_as_current_span("call the carrier"):
            return parent

    def weigh() -> float:
        with spans.tracer.start_as_current_span("read the scale"):
            return 1.0

    @workflow
    def telling(ctx: Context, whom: str) -> Flow[None]:
        yield ctx.send(whom, "news", "arrived")

    @workflow
    def order(ctx: Context) -> Flow[float]:
        yield ctx.child(ship, ctx.info.id)
        yield ctx.spawn(telling, ctx.info.id)
        yield ctx.signal("news")
        return (yield from ctx.step(weigh))

    ear, listener = Ear(), spans.listener()
    async with Client(MemoryStorage(), listeners=[listener, ear]) as client, worker_of(client, [order, ship, telling]):
        with spans.tracer.start_as_current_span("a request"):
            run = await client.start(order)
        assert await run.result(timeout=SOON) == 1.0
        await ear.until(RunReleased, lambda event: event.left == "completed" and event.name == "order")
        await ear.until(RunReleased, lambda event: event.left == "completed" and event.name == "telling")
    request, start = spans.one("a request"), spans.one("start order")
    assert parent_of(start) == id_of(request)
    assert start.kind is SpanKind.PRODUCER
    stretches = spans.named("run order")
    assert {parent_of(stretch) for stretch in stretches} == {id_of(start)}
    assert [links_of(stretch) for stretch in stretches] == [[], *([id_of(each)] for each in stretches[:-1])]
    assert parent_of(spans.one("run ship")) == id_of(stretches[0])
    assert parent_of(spans.one("activity ship")) == id_of(spans.one("run ship"))
    assert parent_of(spans.one("call the carrier")) == id_of(spans.one("activity ship"))
    assert parent_of(spans.one("read the scale")) == id_of(spans.one("step weigh"))
    assert parent_of(spans.one("step weigh")) == id_of(stretches[-1])
    assert parent_of(spans.named("run telling")[0]) in {id_of(stretch) for stretch in stretches}
    assert spans.named("turn")
    traces = {span.get_span_context().trace_id for span in spans.exporter.get_finished_spans()}
    assert traces == {request.get_span_context().trace_id}


@asynccontextmanager
async def _process(storage: Any, spans: Spans, *functions: Any, **options: Any) -> AsyncIterator[Ear]:
    """A worker with a listener of its own, as in another process."""
    ear = Ear()
    async with worker_of(Client(storage), functions, listeners=[spans.listener(), ear], **options):
        yield ear


async def test_stretches_in_other_workers_are_linked_after_a_park_and_after_a_lost_lease() -> None:
    spans, gate = Spans(), Gate()

    class Cut(Tapped):
        """From some time on it gives no new id."""

        off = False

        async def register(self, *given: Any) -> Any:
            if self.off:
                await asyncio.Event().wait()
            return await self._storage.register(*given)

    @activity
    async def slow() -> str:
        await gate.pass_through()
        return "done"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        yield ctx.signal("go")
        return (yield from ctx.step(slow))

    storage = MemoryStorage()
    client, cut = Client(storage), Cut(storage)
    async with _process(storage, spans, order) as ear:
        run = await client.start(order)
        await ear.until(RunReleased)
    dying = worker_of(Client(cut), [order], listeners=[spans.listener(), second := Ear()])
    going = asyncio.create_task(dying.run())
    await client.send(run.id, "go", None)
    await gate.somebody()
    cut.off = True
    with storage.writing() as (book, _):
        worker = book.workers[dying.worker_id or 0]
        worker.row = msgspec.structs.replace(worker.row, lease=0)
    async with _process(storage, spans, order, reaper_interval=0.1) as ear:
        lost = await second.until(RunReleased)
        gate.open()
        assert await run.result(timeout=SOON) == "done"
        await ear.until(RunReleased)
    going.cancel()
    await asyncio.wait({going})
    assert (lost.left, lost.worker_id) == ("lost", second.of(LeaseLost)[0].worker_id)
    assert [(each.run_id, each.crashes) for each in ear.of(RunReaped)] == [(run.id, 1)]
    first, *others = spans.named("run order")
    assert [links_of(other) for other in others] == [[id_of(first)], [id_of(first)]]
    # Nobody gave it a trace when it was started: its id is that of the trace, in every process.
    assert {span.get_span_context().trace_id for span in (first, *others)} == {UUID(run.id).int}


async def test_a_signal_of_another_trace_is_linked_to_the_turn_that_takes_it() -> None:
    spans, ear = Spans(), Ear()

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.signal("paid")
        yield ctx.signal("sent")
        yield ctx.signal("said")

    @workflow
    def teller(ctx: Context, whom: str) -> Flow[None]:
        yield ctx.send(whom, "said", None)

    listeners = [spans.listener(), ear]
    async with Client(MemoryStorage(), listeners=listeners) as client, worker_of(client, [order, teller]):
        run = await client.options(key="o").start(order)
        await ear.until(RunReleased)
        await client.send(run.id, "paid", None)
        await client.options(key="o", signals=[("sent", None)]).start(order)
        await client.start(teller, run.id)
        await run.result(timeout=SOON)
        await ear.until(RunReleased, lambda event: event.left == "completed" and event.name == "order")
        await ear.until(RunReleased, lambda event: event.left == "completed" and event.name == "teller")
    send, start, told = spans.one("send paid"), spans.named("start order")[1], spans.named("run teller")[0]
    linked = [link for turn in spans.named("turn") for link in links_of(turn)]
    assert linked == [id_of(send), id_of(start), id_of(told)]


async def test_what_failed_is_marked_and_says_no_more_than_its_class() -> None:
    spans, ear = Spans(), Ear()

    def fails() -> None:
        raise LookupError("secret")

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.options(retry=1).step(fails)

    listeners = [spans.listener(), ear]
    async with Client(MemoryStorage(), listeners=listeners) as client, worker_of(client, [order]):
        with pytest.raises(RunFailed):
            await (await client.start(order)).result(timeout=SOON)
        await ear.until(RunReleased)
        with pytest.raises(TypeError):
            await client.start(order, "one argument too many")
    run, step = spans.one("run order"), spans.one("step fails")
    assert (run.status.status_code, step.status.status_code) == (StatusCode.ERROR, StatusCode.ERROR)
    assert (run.status.description, step.status.description) == ("LookupError", "LookupError")
    assert spans.named("start order")[1].status.description == "TypeError"
    assert "secret" not in "".join(span.to_json() for span in spans.exporter.get_finished_spans())


def test_two_workers_of_a_process_that_have_the_same_attempt_do_not_end_each_others_span() -> None:
    spans, before = Spans(), get_current_span()
    listener = spans.listener()
    what: dict[str, Any] = {
        "run_id": "a", "name": "order", "step": "pay", "entry": "1", "kind": "step", "attempt": 1, "error": None,
    }  # fmt: skip

    def began(worker_id: int) -> None:
        listener.hear(AttemptBegan(worker_id=worker_id, **{name: what[name] for name in what if name != "error"}))

    def ended(worker_id: int, came: Came) -> None:
        listener.hear(AttemptEnded(worker_id=worker_id, came=came, seconds=1.0, **what))

    first, second = copy_context(), copy_context()
    first.run(began, 1)
    second.run(began, 2)
    # Told where the loop is, and told where the function was: what comes behind it is not below it.
    ended(1, "cancelled")
    second.run(ended, 2, "returned")
    assert second.run(get_current_span) is before
    assert first.run(get_current_span) is not before
    came = [(span.attributes or {})["runnerq.came"] for span in spans.named("step pay")]
    assert came == ["cancelled", "returned"]


@pytest.mark.parametrize(("share", "traced"), [(1.0, True), (0.0, False)])
async def test_of_runs_that_nobody_traced_at_their_start_a_share_is(share: float, traced: bool) -> None:
    spans = Spans()

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.sleep(0)

    client = Client(MemoryStorage())
    async with worker_of(client, [order], listeners=[spans.listener(share=share), ear := Ear()]):
        run = await client.start(order)
        await run.reached(Status.COMPLETED, timeout=SOON)
        await ear.until(RunReleased, lambda event: event.left == "completed")
    assert bool(spans.named("run order")) is traced
    with pytest.raises(ConfigurationError, match="share"):
        spans.listener(share=2)


async def test_nothing_is_stored_of_traces_where_nobody_keeps_them() -> None:
    @workflow
    def child(ctx: Context) -> Flow[None]:
        yield ctx.sleep(0)

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.child(child)

    storage = MemoryStorage()
    async with Client(storage, listeners=[Ear()]) as client, worker_of(client, [order, child]):
        run = await client.start(order)
        await run.result(timeout=SOON)
        tree = await client.tree(run.id)
        records = [await storage.run(each) for each in (run.id, tree.children[0].id)]
        journal = await storage.journal(run.id)
    assert [record.options for record in records if record is not None] == [None, None]
    assert journal is not None
    assert "trace" not in (journal.rows[0].value or "")


async def test_metrics_go_to_the_meter_under_the_same_names() -> None:
    reader = InMemoryMetricReader()
    listener = OpenTelemetry(tracer_provider=TracerProvider(), meter_provider=MeterProvider([reader]))

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.sleep(0)

    async with Client(MemoryStorage(), listeners=[listener]) as client, worker_of(client, [order]):
        await (await client.start(order)).result(timeout=SOON)
    data = reader.get_metrics_data()
    assert data is not None
    found = {metric.name for each in data.resource_metrics for scope in each.scope_metrics for metric in scope.metrics}
    assert {"runnerq.runs_started", "runnerq.runs_ended", "runnerq.run_seconds", "runnerq.slots"} <= found
