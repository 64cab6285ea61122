"""Signals and cancels that workflows send: done after the commit that asked for them, until the storage answers.

Doing one twice is harmless: a signal has the idempotency key of its command as dedup id, a cancel is idempotent. What
is lost with this process is done again when the run is resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from runnerq.errors import SchemaError, StorageRefused, StorageUnavailable
from runnerq.persistence.protocol import Runs
from runnerq.persistence.records import NewSignal, Sent
from runnerq.runtime.callbacks import Fail, away, log, report

Answer: TypeAlias = Sent | StorageRefused


class Effects:
    """Carries them out, side by side. What the storage refuses, or breaks on, is told to whoever asked for it."""

    def __init__(self, storage: Runs, fail: Fail) -> None:
        self._storage = storage
        self._fail = fail
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Own what is under way, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.get_running_loop().create_future()

    def send(self, signal: NewSignal, sent: Callable[[Answer], None]) -> None:
        """Send a signal; ``sent`` is told what became of it."""
        self._start(lambda: self._storage.send([signal]), sent, f"a signal to run {signal.run_id}")

    def cancel(self, run_id: str, reason: str, cancelled: Callable[[Answer], None]) -> None:
        """Ask a run to cancel; ``cancelled`` is told what became of it."""
        self._start(lambda: self._storage.cancel([run_id], reason), cancelled, f"cancelling run {run_id}")

    def cancel_children(self, run_ids: Sequence[str], reason: str) -> None:
        """Ask these runs to cancel; nobody waits for the answer."""
        self._start(lambda: self._storage.cancel(run_ids, reason), None, f"cancelling {len(run_ids)} children")

    def _start(
        self, act: Callable[[], Awaitable[list[Sent]]], tell: Callable[[Answer], None] | None, what: str
    ) -> None:
        if self._group is None:
            raise AssertionError("effects were asked for before run() or after its end")
        self._group.create_task(self._do(act, tell, what))

    async def _do(
        self, act: Callable[[], Awaitable[list[Sent]]], tell: Callable[[Answer], None] | None, what: str
    ) -> None:
        answer: Answer
        try:
            [answer, *_] = await self._until_answered(act, what)
        except SchemaError as error:
            report(error, f"{what} failed", self._fail)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it must hit the run that shows it alone
            log.error("%s failed: %r", what, error)
            answer = error if isinstance(error, StorageRefused) else StorageRefused(f"the backend failed: {error!r}")
        if tell is None:
            return
        try:
            tell(answer)
        except BaseException as error:  # noqa: BLE001 - one answer that cannot be taken must not end the others
            report(error, f"taking the answer of {what} failed", self._fail)

    async def _until_answered(self, act: Callable[[], Awaitable[list[Sent]]], what: str) -> list[Sent]:
        tries = 0
        while True:
            try:
                return await act()
            except StorageUnavailable as error:
                tries += 1
                log.warning("%s is tried again, the storage does not answer: %s", what, error)
                await asyncio.sleep(away(tries))
