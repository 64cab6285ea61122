"""Telemetry harms nothing: whatever a listener raises or answers, starts, signals and runs go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from runnerq.client.client import Client
from runnerq.errors import SchemaError
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Claim, ClaimRequest
from runnerq.telemetry.events import Event, RunReleased, StorageFailed, WorkerJoined, WorkerLeft
from runnerq.telemetry.opentelemetry import OpenTelemetry
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import Tapped
from tests.telemetry.hearing import SOON, Ear, heard, worker_of


@activity
async def ship() -> str:
    return "shipped"


@workflow
def order(ctx: Context) -> Flow[str]:
    yield ctx.signal("go")
    yield ctx.send(ctx.info.id, "more", None)
    yield ctx.signal("more")
    return (yield from ctx.child(ship))


class Broken:
    """Carries traces, and does what it is given in place of some of its methods."""

    def __init__(self, does: Callable[[], Any], *instead: str) -> None:
        self._does = does
        self._instead = instead

    def _do(self, what: str, usual: Any = None) -> Any:
        return self._does() if what in self._instead else usual

    def hear(self, event: Event) -> None:
        self._do("hear")

    def starting(self, name: str, kind: str) -> Any:
        return self._do("starting", self)

    def sending(self, run_id: str, channel: str) -> Any:
        return self._do("sending", self)

    @property
    def trace(self) -> Any:
        return self._do("trace", {})

    def sent(self, run_ids: tuple[str, ...]) -> None:
        self._do("sent")

    def failed(self, error: BaseException) -> None:
        self._do("failed")

    def carried(self, run_id: str) -> Any:
        return self._do("carried")

    def took(self, run_id: str, traces: object) -> None:
        self._do("took")

    def came_with(self, *given: object) -> None:
        self._do("came_with")


def _fails() -> Any:
    raise RuntimeError("it is broken")


def _is_cancelled() -> Any:
    # As a future gives it that somebody has cancelled: nobody has cancelled the run.
    raise asyncio.CancelledError


ASKED = ("hear", "starting", "sending", "carried", "took", "came_with")
TOLD = ("trace", "sent", "failed")
STORED = ("trace", "carried")


@pytest.mark.parametrize(
    "broken",
    [
        Broken(_fails, *ASKED),
        Broken(_fails, *TOLD),
        Broken(_is_cancelled, *ASKED),
        Broken(_is_cancelled, *TOLD),
        Broken(lambda: {"traceparent": object()}, *STORED),
        Broken(lambda: {"traceparent": "\ud800"}, *STORED),
        Broken(lambda: {"traceparent": "a\0b"}, *STORED),
        Broken(lambda: ["no", "mapping"], *STORED),
    ],
    ids=["asked", "told", "asked-cancelled", "told-cancelled", "no text", "half a letter", "NUL", "no mapping"],
)
async def test_a_carrier_that_fails_or_answers_what_cannot_be_stored_harms_nothing(
    broken: Broken, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "runnerq"):
        async with heard(order, ship, listeners=[broken]) as client:
            runs = [await client.start(order), *await client.start_many(order, [()])]
            for run in runs:
                assert await run.send("go", None) is True
                assert await run.result(timeout=SOON) == "shipped"
            with pytest.raises(TypeError):
                await client.start(order, "one argument too many")
            records = [await client.storage.run(run.id) for run in runs]
    assert [record and record.options for record in records] == [None, None]
    # Once by the client, and once by the worker.
    assert {record.getMessage().split(" failed on ")[0] for record in caplog.records} == {f"listener {broken!r}"}
    assert 1 <= len(caplog.records) <= 2


async def test_spans_that_cannot_be_exported_do_not_make_a_start_or_a_signal_fail() -> None:
    class Away(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            raise RuntimeError("the exporter is away")

    provider = TracerProvider()
    provider.add_span_processor(Away())
    listener = OpenTelemetry(tracer_provider=provider, meter_provider=MeterProvider())
    async with heard(order, ship, listeners=[listener]) as client:
        runs = [await client.start(order), *await client.start_many(order, [()])]
        assert [await run.send("go", None) for run in runs] == [True, True]
        assert [await run.result(timeout=SOON) for run in runs] == ["shipped", "shipped"]


async def test_a_worker_whose_task_is_cancelled_is_cancelled_and_says_so() -> None:
    ear = Ear()
    async with Client(MemoryStorage()) as client:
        going = asyncio.create_task(worker_of(client, [order], listeners=[ear]).run())
        await ear.until(WorkerJoined)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
    assert [left.how for left in ear.of(WorkerLeft)] == ["cancelled"]


async def test_what_a_worker_cannot_go_on_with_is_raised_as_it_is() -> None:
    class Migrated(Tapped):
        async def claim(self, request: ClaimRequest) -> Claim:
            raise SchemaError("the schema is newer than this code")

    ear = Ear()
    client = Client(Migrated(MemoryStorage()))  # type: ignore[arg-type]  # it has whatever the storage has
    with pytest.raises(SchemaError):
        await worker_of(client, [order], listeners=[ear]).run()
    assert [left.how for left in ear.of(WorkerLeft)] == ["failed"]
    assert [failed.what for failed in ear.of(StorageFailed)] == ["claim"]
    assert ear.of(RunReleased) == []
