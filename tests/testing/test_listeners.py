"""Listeners of an environment: a test sees what its runs tell, at the test's own times."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from runnerq.telemetry.events import AttemptBegan, RunEnded, RunParked, SignalSent, StartSent
from runnerq.telemetry.opentelemetry import OpenTelemetry
from runnerq.testing import Environment
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.telemetry.hearing import Ear

MONTH = timedelta(days=30)


@activity
async def ship() -> str:
    return "shipped"


@workflow
def order(ctx: Context) -> Flow[str]:
    yield ctx.sleep(MONTH)
    yield ctx.signal("go")
    return (yield from ctx.child(ship))


async def test_listeners_hear_what_a_test_starts_and_what_its_worker_does_at_the_tests_times() -> None:
    ear = Ear()
    async with Environment(workflows=[order], activities=[ship], listeners=[ear]) as env:
        run = await env.start(order)
        await env.advance(MONTH)
        await env.send(run.id, "go", None)
        assert await run.result() == "shipped"
    assert [started.run_ids for started in ear.of(StartSent)] == [(run.id,)]
    assert [sent.channel for sent in ear.of(SignalSent)] == ["go"]
    assert [began.step for began in ear.of(AttemptBegan)] == ["ship"]
    assert ear.of(RunParked)[0].due_in_seconds == MONTH.total_seconds()
    assert [(ended.name, ended.age_seconds) for ended in ear.of(RunEnded)] == [
        ("ship", 0.0), ("order", MONTH.total_seconds()),
    ]  # fmt: skip


async def test_a_traced_run_is_driven_again_as_any_other_and_is_one_trace() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    listener = OpenTelemetry(tracer_provider=provider, meter_provider=MeterProvider())
    async with Environment(workflows=[order], activities=[ship], listeners=[listener]) as env:
        run = await env.start(order)
        await env.advance(MONTH)
        await env.send(run.id, "go", None)
        assert await run.result() == "shipped"
    spans = exporter.get_finished_spans()
    stretches = [span for span in spans if span.name == "run order"]
    assert len(stretches) == 4
    assert [later.links[0].context for _, later in pairwise(stretches)] == [
        earlier.get_span_context() for earlier, _ in pairwise(stretches)
    ]
    traces = {span.get_span_context().trace_id for span in spans if span.name != "send go"}
    assert traces == {stretches[0].get_span_context().trace_id}
