"""``Environment``: the client's API, a storage in memory, a worker, and a clock that a test moves.

async with Environment(workflows=[checkout], activities=[charge_card]) as env:
    run = await env.start(checkout, order)
    await env.advance(timedelta(days=30))
    assert await run.result() == "shipped"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from runnerq.client.base import PAYLOAD_LIMIT
from runnerq.client.export import export
from runnerq.errors import ConfigurationError
from runnerq.retry import seconds
from runnerq.runtime.retention import Retention
from runnerq.runtime.worker import Worker
from runnerq.serialization.chains import Codecs
from runnerq.telemetry.listeners import Listener
from runnerq.testing.client import StageClient, worker_of
from runnerq.testing.storage import at_once


class Environment(StageClient):
    """The client of a test, with a worker of these workflows and activities that it serves on every queue.

    Time begins at ``start`` (2025-01-01 UTC) and stands still, except in ``advance`` and while the test awaits a
    ``result()``, ``reached()`` or ``wait()``: then it jumps to what is due next whenever all is at rest. Every run is
    driven again from its journal at each turn; what is found wrong is raised by ``result()``, and else at the exit.
    ``retention`` deletes by the same clock, whenever it moves. ``codec`` and ``listeners`` are what ``connect`` takes.
    ``connection`` is what functions of ``ctx.transaction`` are given: a fake, or one to a database of the test's.
    """

    def __init__(
        self,
        workflows: Iterable[Callable[..., Any]] = (),
        activities: Iterable[Callable[..., Any]] = (),
        start: datetime | None = None,
        *,
        retention: Retention | None = None,
        codec: Codecs | None = None,
        connection: Any = None,
        payload_limit: int = PAYLOAD_LIMIT,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self._retention = retention
        self._workflows, self._activities = list(workflows), list(activities)
        super().__init__(start, codec=codec, payload_limit=payload_limit, listeners=listeners)
        self.stage.storage.connection = connection
        self._worker: Worker | None = None

    # --- life ---------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin: the worker can claim when this returns."""
        await super().open()
        if self._workflows or self._activities:
            self.watch(self._workflows, self._activities)
            self._worker = worker_of(self, self.stage, self._workflows, self._activities, retention=self._retention)
            await self._worker.__aenter__()

    async def close(self) -> None:
        """End: what runs is cut off, and nothing of it is kept."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.__aexit__(None, None, None)
        await super().close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        if error is None:
            self.stage.faults.check_untold()

    # --- the test's own -----------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time, aware and in UTC."""
        return self.stage.now()

    async def advance(self, by: float | timedelta) -> None:
        """Let so much time pass (seconds or timedelta): all that is due on the way runs, each thing at its time.

        Returns when all is at rest.
        """
        await self.stage.advance(seconds(by, "advance"))

    def replace(self, activity: Callable[..., Any], fake: Callable[..., Any]) -> None:
        """Have ``fake`` called, sync or async, wherever this activity or step function would be, from now on.

        Its answer is stored and decoded as the activity's own would be. It is called on the test's event loop.
        """
        if not callable(fake):
            raise ConfigurationError(f"replace() takes a function to call instead, not {fake!r}")
        self.stage.replace(activity, fake)

    def transaction(self, connection: object = None) -> AbstractAsyncContextManager[Any]:
        """What stands for a transaction of your own: ``async with env.transaction() as connection``.

        What is started and sent with ``options(connection=connection)`` comes about when it is left, or not at all if
        an exception leaves it. With a ``connection`` of yours, a fake for instance, it is that one's transaction.
        """
        return self.stage.storage.transaction(connection)

    def journals(self) -> list[dict[str, Any]]:
        """Every run's export, oldest first: what ``check_replay`` takes."""
        return [at_once(export(self.storage, run_id)) for run_id in self.stage.storage.run_ids()]
