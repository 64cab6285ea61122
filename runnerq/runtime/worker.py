"""The worker: claims runs of what it has registered, and takes their turns.

``async with Worker(client, workflows=[...])``: entering returns when it can claim, leaving drains. Or ``await
worker.run()`` until ``await worker.stop()``. It installs no signal handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import anyio

from runnerq.errors import ConfigurationError, StorageUnavailable, UsageError
from runnerq.persistence.protocol import Storage
from runnerq.retry import seconds
from runnerq.runtime.builds import build_of
from runnerq.runtime.callbacks import away, log
from runnerq.runtime.over import Over
from runnerq.runtime.registry import Registry
from runnerq.runtime.retention import Retention
from runnerq.runtime.settings import Settings
from runnerq.runtime.shift import Shift
from runnerq.runtime.slots import Reserve, kept_for
from runnerq.runtime.surroundings import Surroundings
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import modules_snapshot
from runnerq.telemetry.listeners import Listener, telemetry_of
from runnerq.telemetry.measuring import measured_by
from runnerq.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from runnerq.telemetry.http import Endpoints


class HasStorage(Protocol):
    """What a worker works for: a client, or anything with a storage."""

    @property
    def storage(self) -> Storage: ...


class Worker:
    """Runs workflows and activities. A slot is a claimed run; parked runs hold none.

    ``reserve=(5, [send_email])`` keeps that many of the slots for runs of these; ``retention`` has it delete runs that
    ended long ago. ``listeners`` hear of what happens here, as those of the client do; ``metrics`` is where metrics go.
    ``http=9000``, or ``http=("0.0.0.0", 9000)``, serves ``/healthz``, ``/readyz`` and ``/metrics``: what ``metrics``
    shows, else the first listener that shows any. ``surroundings`` is for the testing kit: where time and chance come
    from.
    """

    def __init__(
        self,
        client: HasStorage,
        *,
        workflows: Iterable[Callable[..., Any]] = (),
        activities: Iterable[Callable[..., Any]] = (),
        queues: Iterable[str] = ("default",),
        max_workers: int = 10,
        max_steps: int = 100,
        max_threads: int = 32,
        only: Iterable[Callable[..., Any] | str] | None = None,
        reserve: Reserve | None = None,
        lease: float | timedelta = 60,
        beat: float | timedelta = 1,
        poll_interval: float | timedelta = 5,
        reaper_interval: float | timedelta = 1,
        reaper_batch: int = 100,
        shutdown_grace: float | timedelta = 30,
        max_depth: int = 32,
        cache: int = 100,
        retention: Retention | None = None,
        metrics: Metrics | None = None,
        listeners: Iterable[Listener] = (),
        http: tuple[str, int] | str | int | None = None,
        build: str | None = None,
        surroundings: Callable[[], Surroundings] = Surroundings,
    ) -> None:
        self._client = client
        self._registry = _something(Registry(workflows, activities))
        _at_least_one(max_workers=max_workers, max_steps=max_steps, max_threads=max_threads, reaper_batch=reaper_batch)
        served = self._registry.narrow(only)
        self._settings = Settings(
            queues=_queues(queues),
            served=served,
            max_workers=max_workers,
            max_steps=max_steps,
            max_threads=max_threads,
            lease=_positive(lease, "lease"),
            beat=_positive(beat, "beat"),
            poll_interval=_positive(poll_interval, "poll_interval"),
            reaper_interval=_positive(reaper_interval, "reaper_interval"),
            reaper_batch=reaper_batch,
            shutdown_grace=seconds(shutdown_grace, "shutdown_grace"),
            max_depth=max_depth,
            cache=cache,
            build=build_of(self._registry.functions(), build),
            kept=kept_for(reserve, self._registry, served, max_workers),
            retention=_retention(retention),
        )
        self._surroundings = surroundings
        self._telemetry = telemetry_of([*getattr(client, "listeners", ()), *listeners, *measured_by(metrics)])
        self._endpoints = None if http is None else self._endpoints_at(http, metrics)
        self._modules = modules_snapshot()
        self._shift: Shift | None = None
        self._stopped = asyncio.Event()
        self._over = asyncio.Event()
        self._over.set()
        self._ready = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def build(self) -> str:
        """The build of the code that this worker runs."""
        return self._settings.build

    @property
    def worker_id(self) -> int | None:
        """The id it is registered under now; a fenced worker takes a new one."""
        return None if self._shift is None else self._shift.worker_id

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Where ``http=`` listens; None where it does not."""
        return None if self._endpoints is None else self._endpoints.address

    def _endpoints_at(self, http: object, metrics: object) -> Endpoints:
        # Imported here and not above: few workers have it, and an HTTP server takes its time to import.
        from runnerq.runtime.endpoints import endpoints_of  # noqa: PLC0415

        listeners = () if self._telemetry is None else self._telemetry.listeners
        return endpoints_of(http, lambda: self._shift, (metrics, *listeners))

    # --- life ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until ``stop``, or until somebody has it drain. A worker that was fenced goes on under a new id.

        Raises what it cannot go on with: SchemaError, a KeyboardInterrupt out of a step, or StorageUnavailable at its
        start. What it held is given back.
        """
        if not self._over.is_set():
            raise UsageError("this worker runs already: enter it or call run() once, and make another Worker for more")
        self._over.clear()
        try:
            if self._endpoints is not None:
                self._endpoints.open()
            while not self._stopped.is_set():
                shift = await self._next_shift()
                if shift is None:
                    continue
                if await shift.run(self._ready.set) is Over.FENCED:
                    log.warning("worker %d goes on under a new id", shift.worker_id)
                else:
                    # By stop(), or because somebody has asked for it through the storage.
                    self._stopped.set()
        finally:
            await self._end()

    async def _end(self) -> None:
        """It is over once its address is free."""
        if self._endpoints is None:
            self._over.set()
            return
        closing = asyncio.create_task(asyncio.to_thread(self._endpoints.close))
        closing.add_done_callback(lambda _: self._over.set())
        # Whoever cancels this does not wait for it, and whoever stops the worker does.
        await asyncio.shield(closing)

    async def _next_shift(self) -> Shift | None:
        """A registered shift; None if the worker was stopped before the storage answered."""
        codec = getattr(self._client, "codec", None) or Codec()
        storage = self._client.storage
        tries = 0
        while not self._stopped.is_set():
            shift = Shift(
                self._settings, storage, self._registry, codec, self._modules, self._client, self._surroundings(),
                self._telemetry,
            )  # fmt: skip
            try:
                await shift.register()
            except StorageUnavailable as error:
                if not self._ready.is_set():
                    raise
                tries += 1
                wait = away(tries)
                log.warning(
                    "the worker cannot register, next try in %.2g s; the storage does not answer: %s", wait, error
                )
                with anyio.move_on_after(wait):
                    await self._stopped.wait()
            else:
                self._shift = shift
                if self._stopped.is_set():
                    # Stopped while it registered: it still has to sign off.
                    shift.stop()
                return shift
        return None

    async def stop(self) -> None:
        """Drain: claim no more, let what runs finish within ``shutdown_grace`` seconds, give the rest back."""
        self._stopped.set()
        if self._shift is not None:
            self._shift.stop()
        await self._over.wait()

    async def idle(self) -> None:
        """Return when this worker holds no run and has found none to claim; for tests."""
        if self._shift is None:
            raise ConfigurationError("the worker does not run: enter it, or start run(), before waiting for idle()")
        await self._shift.idle()

    async def __aenter__(self) -> Self:
        if self._running is not None or not self._over.is_set():
            raise UsageError("this worker runs already: enter it or call run() once, and make another Worker for more")
        self._stopped.clear()
        self._ready.clear()
        self._running = asyncio.create_task(self.run(), name="runnerq-worker")
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({self._running, ready}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # Not entered, so never left: nobody else would end it.
            self._running.cancel()
            await asyncio.wait({self._running})
            raise
        finally:
            ready.cancel()
        if self._running.done():
            await self._running
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        try:
            await self.stop()
        finally:
            await running


def _something(registry: Registry) -> Registry:
    if not len(registry):
        raise ConfigurationError("this worker has nothing to run: give it workflows=[...] or activities=[...]")
    return registry


def _retention(retention: object) -> Retention | None:
    if retention is None or isinstance(retention, Retention):
        return retention
    raise ConfigurationError(f"retention={retention!r}: expected a Retention(completed=..., failed=...)")


def _at_least_one(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ConfigurationError(f"{name}={number} would never do anything: give at least 1")


def _queues(queues: Iterable[str]) -> tuple[str, ...]:
    named = (queues,) if isinstance(queues, str) else tuple(dict.fromkeys(queues))
    if not named or "" in named:
        raise ConfigurationError(f"queues={named!r}: expected at least one non-empty name")
    return named


def _positive(duration: float | timedelta, what: str) -> float:
    value = seconds(duration, what)
    if value <= 0:
        raise ConfigurationError(f"{what} is {duration!r}: expected more than nothing")
    return value
