"""``client.queues``: what there is to do, queue by queue, and whether it is done."""

from __future__ import annotations

from runnerq.client.core import Core
from runnerq.client.values import QueueInfo, queue_of
from runnerq.workflow.given import check_name


class Queues:
    """The queues of one client. A pause holds for every worker, and until it is ended."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    async def list(self) -> list[QueueInfo]:
        """The queues that have open runs, a living worker or a pause, by name."""
        return [queue_of(record) for record in await self._core.storage.queues()]

    async def pause(self, queue: str) -> bool:
        """Have no run of this queue taken up until ``resume``; what is being worked on goes on. False if it was."""
        return await self._core.storage.pause(check_name(queue, "queue="))

    async def resume(self, queue: str) -> bool:
        """End a pause; False if there was none."""
        return await self._core.storage.resume(check_name(queue, "queue="))
