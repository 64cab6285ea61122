"""Signals and cancels that workflows send: done after the commit that asked for them, until the storage answers.

Doing one twice is harmless: a signal has the idempotency key of its command as dedup id, a cancel is idempotent. What
is lost with this process is done again when the run is resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from runnerq.errors import StorageUnavailable
from runnerq.persistence.protocol import Runs
from runnerq.persistence.records import NewSignal, Sent
from runnerq.runtime.callbacks import Fail, doubling, log, report

AWAY_FIRST, AWAY_MOST = 0.05, 5.0


class Effects:
    """Carries them out, side by side, each in order of asking for its own run at most one at a time."""

    def __init__(self, storage: Runs, fail: Fail) -> None:
        self._storage = storage
        self._fail = fail
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Own what is under way, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.get_running_loop().create_future()

    def send(self, signal: NewSignal, sent: Callable[[Sent], None]) -> None:
        """Send a signal; ``sent`` is told what became of it."""
        self._start(
            lambda: self._storage.send([signal]), lambda answer: sent(answer[0]), f"a signal to run {signal.run_id}"
        )

    def cancel(
        self, run_ids: Sequence[str], reason: str, cancelled: Callable[[list[Sent]], None] | None = None
    ) -> None:
        """Ask runs to cancel."""
        self._start(lambda: self._storage.cancel(run_ids, reason), cancelled, f"cancelling {len(run_ids)} runs")

    def _start(
        self,
        act: Callable[[], Awaitable[list[Sent]]],
        tell: Callable[[list[Sent]], None] | None,
        what: str,
    ) -> None:
        if self._group is None:
            raise AssertionError("effects were asked for before run() or after its end")
        self._group.create_task(self._do(act, tell, what))

    async def _do(
        self, act: Callable[[], Awaitable[list[Sent]]], tell: Callable[[list[Sent]], None] | None, what: str
    ) -> None:
        try:
            answer = await self._until_answered(act, what)
            if tell is not None:
                tell(answer)
        except Exception as error:  # noqa: BLE001 - one effect that cannot be done must not end the others
            report(error, f"{what} failed", self._fail)

    async def _until_answered(self, act: Callable[[], Awaitable[list[Sent]]], what: str) -> list[Sent]:
        tries = 0
        while True:
            try:
                return await act()
            except StorageUnavailable as error:
                tries += 1
                log.warning("%s is tried again, the storage does not answer: %s", what, error)
                await asyncio.sleep(doubling(tries, AWAY_FIRST, AWAY_MOST))
