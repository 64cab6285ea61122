"""Metrics: what Prometheus reads of a worker, and that labels stay few."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from runnerq.client.client import Client
from runnerq.errors import ConfigurationError, StorageUnavailable
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Claim, ClaimRequest
from runnerq.runtime.endpoints import Probes
from runnerq.runtime.worker import Worker
from runnerq.telemetry.events import (
    AttemptEnded,
    QueueReading,
    QueuesRead,
    RunClaimed,
    RunEnded,
    RunReleased,
    StartSent,
    StorageFailed,
    WorkerJoined,
    WorkerLeft,
    WorkerRead,
)
from runnerq.telemetry.http import AT_ONCE, Endpoints, address_of, text
from runnerq.telemetry.measuring import MOST_VALUES, OTHER, Measuring
from runnerq.telemetry.optional import with_prometheus
from runnerq.telemetry.prometheus import PrometheusMetrics
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import Gate, Tapped
from tests.telemetry.hearing import SOON, Ear, worker_of


@workflow
def order(ctx: Context) -> Flow[None]:
    yield ctx.sleep(0)


def ask(
    address: tuple[str, int] | None, path: str, method: str = "GET", headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, Mapping[str, str], str]:
    """The status, the headers and the body."""
    assert address is not None
    connection = http.client.HTTPConnection(*address, timeout=SOON)
    try:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()
    finally:
        connection.close()


# --- a worker's pages -------------------------------------------------------------------------------------------------


async def test_a_worker_answers_for_its_health_its_readiness_and_its_metrics() -> None:
    metrics, ear = PrometheusMetrics(CollectorRegistry()), Ear()
    async with Client(MemoryStorage(), listeners=[metrics, ear]) as client:
        worker = worker_of(client, [order], http=0, metrics=metrics)
        async with worker:
            await (await client.start(order)).result(timeout=SOON)
            await ear.until(RunReleased, lambda event: event.left == "completed")
            await ear.until(QueuesRead)
            pages = [await asyncio.to_thread(ask, worker.http_address, path) for path in ("/healthz", "/readyz")]
            status, headers, body = await asyncio.to_thread(ask, worker.http_address, "/metrics?name[]=x")
            head = await asyncio.to_thread(ask, worker.http_address, "/metrics", "HEAD")
            nowhere = await asyncio.to_thread(ask, worker.http_address, "/")
            posted = await asyncio.to_thread(ask, worker.http_address, "/metrics", "POST")
            where = worker.http_address
        assert worker.http_address is None
    assert [(page[0], page[2]) for page in pages] == [(200, "alive\n"), (200, "ready\n")]
    assert (status, head[0], head[2], nowhere[0], posted[0]) == (200, 200, "", 404, 501)
    assert headers["Content-Type"].startswith("text/plain")
    assert headers["Cache-Control"] == "no-store"
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }
    assert found["runnerq_runs_started_total", "created", "default", "order"] == 1
    assert found["runnerq_runs_ended_total", "completed", "default", "order"] == 1
    assert found["runnerq_run_seconds_count", "completed", "default", "order"] == 1
    # Else the first of them would be no increase.
    assert found["runnerq_runs_ended_total", "dead_letter", "default", "order"] == 0
    assert found["runnerq_runs_blocked_total", "code", "default", "order"] == 0
    assert found["runnerq_runs_crashed_total", "order"] == 0
    assert found["runnerq_slots",] == 10
    assert found["runnerq_queue_workers", "default"] == 1
    with pytest.raises(ConnectionRefusedError):
        await asyncio.to_thread(ask, where, "/healthz")


async def test_a_worker_whose_claims_fail_is_alive_and_not_ready() -> None:
    class Broken(Tapped):
        async def claim(self, request: ClaimRequest) -> Claim:
            raise StorageUnavailable("no answer")

    ear = Ear()
    client = Client(Broken(MemoryStorage()))  # type: ignore[arg-type]  # it has whatever the storage has
    async with worker_of(client, [order], http=0, listeners=[ear]) as worker:
        await ear.until(StorageFailed, lambda event: event.what == "claim")
        alive = await asyncio.to_thread(ask, worker.http_address, "/healthz")
        ready = await asyncio.to_thread(ask, worker.http_address, "/readyz")
        metrics = await asyncio.to_thread(ask, worker.http_address, "/metrics")
    assert (alive[0], ready[0], ready[2]) == (200, 503, "its claims fail: the log says why\n")
    # Nothing was given that could be asked.
    assert metrics[0] == 404


def test_before_it_is_registered_a_worker_is_alive_and_not_ready() -> None:
    probes = Probes(lambda: None)
    assert (probes.healthz().status, probes.readyz().status) == (200, 503)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (9000, ("127.0.0.1", 9000)),
        ("9000", ("127.0.0.1", 9000)),
        (":9000", ("127.0.0.1", 9000)),
        (("0.0.0.0", 9000), ("0.0.0.0", 9000)),  # noqa: S104 - nothing listens
        ("0.0.0.0:9000", ("0.0.0.0", 9000)),  # noqa: S104 - as above
        (("", 9000), ("127.0.0.1", 9000)),
        ("[::1]:9000", ("::1", 9000)),
    ],
)
def test_an_address_is_a_port_or_a_host_and_a_port(given: object, address: tuple[str, int]) -> None:
    assert address_of(given) == address


@pytest.mark.parametrize("given", ["", "host", "host:", "host:http", 65536, -1, True, ("host",), None, 9000.0])
def test_what_is_no_address_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="http="):
        address_of(given)


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoints = Endpoints(taken.getsockname(), {})
        with pytest.raises(ConfigurationError, match="cannot listen"):
            endpoints.open()


def test_a_page_that_fails_is_an_error_without_its_message() -> None:
    def fails() -> Any:
        raise ValueError("a secret")

    endpoints = Endpoints(("127.0.0.1", 0), {"/fails": fails, "/works": lambda: text(200, "it works")})
    endpoints.open()
    try:
        failed = ask(endpoints.address, "/fails")
        assert ask(endpoints.address, "/works")[2] == "it works\n"
    finally:
        endpoints.close()
    assert failed[0] == 500
    assert "secret" not in failed[2]


async def test_when_a_worker_has_stopped_its_address_is_free() -> None:
    ear = Ear()
    async with Client(MemoryStorage()) as client:
        worker = worker_of(client, [order], http=0, listeners=[ear])
        running = asyncio.create_task(worker.run())
        await ear.until(WorkerJoined)
        where = worker.http_address
        assert where is not None
        await worker.stop()
        with socket.create_server(where):
            await running


def test_whoever_sends_slowly_holds_up_nobody() -> None:
    endpoints = Endpoints(("127.0.0.1", 0), {"/healthz": lambda: text(200, "alive")})
    endpoints.open()
    try:
        assert endpoints.address is not None
        with ExitStack() as slow:
            for _ in range(AT_ONCE + 1):
                sending = slow.enter_context(socket.create_connection(endpoints.address))
                sending.sendall(b"GET /healthz HTTP/1.0\r\nX: ")
            assert ask(endpoints.address, "/healthz")[2] == "alive\n"
    finally:
        endpoints.close()


def test_a_request_that_never_ends_is_cut_off_though_it_goes_on() -> None:
    endpoints = Endpoints(("127.0.0.1", 0), {}, patience=0.2)
    endpoints.open()
    try:
        assert endpoints.address is not None
        with socket.create_connection(endpoints.address) as sending:
            sending.settimeout(0.02)
            came = _trickled(sending)
    finally:
        endpoints.close()
    assert came == b""


def _trickled(sending: socket.socket) -> bytes | None:
    """What comes while a line is sent that has no end; None, if nothing does."""
    for _ in range(1000):
        try:
            sending.sendall(b"x")
            return sending.recv(1)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
    return None


@pytest.mark.parametrize(
    ("name", "status"),
    [("localhost", 200), ("127.0.0.1:9000", 200), ("[::1]:9000", 200), ("rebound.example", 421), ("[", 421), ("", 421)],
)
def test_on_the_loopback_address_only_this_machine_is_answered(name: str, status: int) -> None:
    endpoints = Endpoints(("127.0.0.1", 0), {"/healthz": lambda: text(200, "alive")})
    endpoints.open()
    try:
        assert ask(endpoints.address, "/healthz", headers={"Host": name})[0] == status
    finally:
        endpoints.close()


async def test_the_metrics_that_are_shown_are_those_of_a_listener_where_no_others_are_given() -> None:
    kept = PrometheusMetrics(CollectorRegistry())
    async with Client(MemoryStorage(), listeners=[kept]) as client, worker_of(client, [order], http=0) as worker:
        status, _, body = await asyncio.to_thread(ask, worker.http_address, "/metrics")
    assert status == 200
    assert "runnerq_slots" in body


def test_where_a_listener_shows_metrics_no_others_are_made_beside_them() -> None:
    ear, own = Ear(), PrometheusMetrics(CollectorRegistry())
    assert with_prometheus([ear, own]) == (ear, own)


# --- metrics ----------------------------------------------------------------------------------------------------------


class Kept:
    """A place for metrics of somebody's own."""

    def __init__(self) -> None:
        self.gauges: dict[tuple[str, ...], float] = {}
        self.counts: dict[tuple[str, ...], float] = {}

    def count(self, name: str, labels: Mapping[str, str], by: float) -> None:
        key = (name, *labels.values())
        self.counts[key] = self.counts.get(key, 0) + by

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        pass

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self.gauges[name, *labels.values()] = value


def reading(queue: str, ready: int) -> QueueReading:
    return QueueReading(
        queue=queue, ready=ready, delayed=0, running=0, waiting=0, blocked=0, workers=1, paused=False,
        ready_age_seconds=float(ready),
    )  # fmt: skip


def read(*readings: QueueReading) -> QueuesRead:
    return QueuesRead(worker_id=1, queues_read=readings, capped=False, seconds=0.1)


async def test_metrics_may_go_to_a_place_of_ones_own() -> None:
    kept, ear = Kept(), Ear()
    async with Client(MemoryStorage()) as client, worker_of(client, [order], metrics=kept, listeners=[ear]):
        await (await client.start(order)).result(timeout=SOON)
        await ear.until(RunReleased, lambda event: event.left == "completed")
        await ear.until(WorkerRead)
        assert kept.gauges["slots",] == 10
    assert kept.counts["runs_ended", "order", "default", "completed"] == 1


def test_a_queue_that_is_gone_has_nothing_in_it() -> None:
    measuring = Measuring(kept := Kept())
    measuring.hear(read(reading("a", 1), reading("b", 2)))
    measuring.hear(read(reading("a", 3)))
    shown = {key[1]: value for key, value in kept.gauges.items() if key[0] == "queue_ready_age_seconds"}
    assert shown == {"a": 3, "b": 0}


def in_hand(worker_id: int, *, slots: int, taken: int, lag: float) -> WorkerRead:
    return WorkerRead(
        worker_id=worker_id, slots=slots, slots_taken=taken, attempts_running=taken, attempts_waiting=0, stuck=0,
        waiting_turns=0, parked_in_memory=0, loop_lag_seconds=lag,
    )  # fmt: skip


def test_the_gauges_of_workers_that_share_metrics_are_of_all_of_them_and_of_none_that_has_left() -> None:
    measuring = Measuring(kept := Kept())

    def shown(*names: str) -> list[float]:
        return [kept.gauges[name,] for name in names]

    measuring.hear(in_hand(1, slots=10, taken=3, lag=0.5))
    measuring.hear(in_hand(2, slots=5, taken=4, lag=0.1))
    measuring.hear(read(reading("a", 1)))
    assert shown("slots", "slots_taken", "loop_lag_seconds") == [15, 7, 0.5]
    measuring.hear(in_hand(1, slots=10, taken=0, lag=0.2))
    assert shown("slots", "slots_taken", "loop_lag_seconds") == [15, 4, 0.2]
    measuring.hear(WorkerLeft(worker_id=1, how="stopped"))
    measuring.hear(WorkerLeft(worker_id=2, how="fenced"))
    # It goes on under another id, and reads the queues again.
    assert (shown("slots", "slots_taken"), kept.gauges["queue_workers", "a"]) == ([0, 0], 1)
    measuring.hear(in_hand(3, slots=5, taken=4, lag=0.1))
    measuring.hear(WorkerLeft(worker_id=3, how="stopped"))
    assert (shown("slots", "slots_taken"), kept.gauges["queue_workers", "a"]) == ([0, 0], 0)


def test_names_that_somebody_makes_up_share_one_label() -> None:
    measuring = Measuring(kept := Kept())
    measuring.hear(read(*(reading(f"q-{number}", number + 1) for number in range(MOST_VALUES + 5))))
    shown = {key[1] for key in kept.gauges if key[0] == "queue_workers"}
    # Those with the most open runs, and none that would stand for several.
    assert shown == {f"q-{number}" for number in range(5, MOST_VALUES + 5)}
    for number in range(MOST_VALUES + 5):
        measuring.hear(StorageFailed(worker_id=1, what=f"w-{number}", error="StorageUnavailable"))
    assert kept.counts["storage_failures", OTHER] == 5
    assert len(kept.counts) == MOST_VALUES + 1


def test_names_that_somebody_makes_up_for_starts_take_the_workers_metrics_no_labels() -> None:
    measuring = Measuring(kept := Kept())
    for number in range(MOST_VALUES):
        measuring.hear(
            StartSent(name=f"n-{number}", kind="workflow", queue="q", run_ids=("a",), created=1, seconds=0.1)
        )
    measuring.hear(
        RunEnded(run_id="a", name="order", kind="workflow", queue="q", status="completed", reason=None, error=None,
                 age_seconds=1.0)
    )  # fmt: skip
    assert kept.counts["runs_ended", "order", "q", "completed"] == 1


async def test_what_never_began_is_no_attempt_and_took_no_time() -> None:
    gate, kept, ear = Gate(), Kept(), Ear()

    @activity
    async def slow() -> None:
        await gate.pass_through()

    async with Client(MemoryStorage()) as client:
        worker = worker_of(client, [slow], metrics=kept, listeners=[ear], max_steps=1)
        async with worker:
            await client.start_many(slow, [(), ()])
            await gate.somebody()
            await ear.until(RunClaimed, lambda _: len(ear.of(RunClaimed)) == 2)
            leaving = asyncio.create_task(worker.stop())
            waited = await ear.until(AttemptEnded)
            gate.open()
            await leaving
    assert (waited.came, waited.seconds) == ("not_begun", None)
    assert {key: count for key, count in kept.counts.items() if key[0] == "attempts"} == {
        ("attempts", "slow", "slow", "returned"): 1
    }


def test_one_registry_has_these_metrics_once() -> None:
    registry = CollectorRegistry()
    PrometheusMetrics(registry)
    with pytest.raises(ConfigurationError, match="already"):
        PrometheusMetrics(registry)


def test_a_bad_address_is_refused_where_the_worker_is_made() -> None:
    with pytest.raises(ConfigurationError, match="http="):
        Worker(Client(MemoryStorage()), workflows=[order], http="nowhere")
