"""What the client's tests start, and a worker that is played by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Claimed, End, Going, Move, Park, Turn, Verdict
from runnerq.testing.conformance.world import Holder, a_holder
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from runnerq.workflow.journal import Row


class Order(msgspec.Struct, frozen=True):
    item: str
    cents: int = 0


class Shipment(msgspec.Struct, frozen=True):
    tracking: str


APPROVAL: Signal[bool] = Signal("approval", bool)

ORDER = Order("cup", 950)


@workflow
def checkout(ctx: Context, order: Order) -> Flow[Shipment]:
    yield from ctx.signal(APPROVAL)
    return Shipment(order.item)


@workflow(name="checkout", version=2, queue="fast", priority=1, metadata={"team": "shop", "tier": "one"})
def checkout_v2(ctx: Context, order: Order) -> Flow[Shipment]:
    yield from ctx.signal(APPROVAL)
    return Shipment(order.item)


@activity
async def mail(to: str, *, subject: str = "hello") -> int:
    return len(to) + len(subject)


@activity(queue="slow", priority=3)
def resize(width: int) -> list[int]:
    return [width]


PAIRS = (("default", "checkout@1"), ("fast", "checkout@2"), ("default", "mail"), ("slow", "resize"))


class Player:
    """A worker without a runtime: it claims what the client started, and writes what a test says."""

    def __init__(self, storage: Storage, holder: Holder) -> None:
        self._storage = storage
        self._holder = holder
        self._held: dict[str, Claimed] = {}

    @classmethod
    async def of(cls, storage: Storage) -> Player:
        return cls(storage, await a_holder(storage))

    async def take(self, run_id: str) -> Claimed:
        """Hold this run, which is ready or held already."""
        while run_id not in self._held:
            claim = await self._holder.claim(pairs=PAIRS)
            assert claim.runs, f"run {run_id} is not ready"
            self._held.update((run.id, run) for run in claim.runs)
        return self._held[run_id]

    async def write(self, run_id: str, move: Move, *rows: Row, **given: Any) -> Claimed:
        """One turn of the run, which ends with this move."""
        run = await self.take(run_id)
        turn = Turn(run_id=run.id, token=run.token, seen=run.seen, move=move, rows=rows, **given)
        assert await self._storage.commit([turn]) == [Verdict.DONE]
        if not isinstance(move, Going):
            del self._held[run_id]
        return run

    async def complete(self, run_id: str, result: Any) -> None:
        text = msgspec.json.encode(result).decode()
        await self.write(run_id, End(status="completed", result=text), published='{"done":true}')

    async def park(self, run_id: str, channel: str = APPROVAL.name, **given: Any) -> None:
        await self.write(run_id, Park(signals=(channel,)), **given)
