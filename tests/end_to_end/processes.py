"""Worker processes that kill or stop themselves at a storage call. ``python -m tests.end_to_end.processes`` runs them.

Rules
- A plan comes as JSON lines on stdin, one ``Doomed`` each. One process imports everything and forks one for each of
  them, so many at once; a line on stdout says how each of them ended.
- A process kills itself with SIGKILL: no code of it runs any more, and its connections break as they do in a crash.
- A doomed process ends by itself once its run has ended, because it made fewer calls than its plan says. Then those
  plans that are left of the same verb are for calls that are not made either, and nothing is said of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Claim, ClaimRequest, Turn, Verdict
from runnerq.runtime.worker import Worker
from tests.end_to_end.forking import fork
from tests.end_to_end.shop import ACTIVITIES, WORKFLOWS

SIDE_BY_SIDE = 3


class Doomed(msgspec.Struct, frozen=True):
    """A worker of this queue gets this signal just before or after its n-th call of this verb."""

    dsn: str
    queue: str
    run_id: str
    verb: Literal["commit", "claim"]
    when: Literal["before", "after"]
    nth: int
    signal: int = signal.SIGKILL
    lease: float = 60.0


class Ended(msgspec.Struct, frozen=True):
    """How the process of a queue ended: by this signal, or with this exit code."""

    queue: str
    signal: int | None
    code: int | None


class DoomedStorage:
    """The storage of a doomed process. After a pause it prints what became of its commits."""

    def __init__(self, storage: PostgresStorage, plan: Doomed) -> None:
        self._storage = storage
        self._plan = plan
        self._calls = 0
        self._woken = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def _meet(self, verb: str, when: str) -> None:
        plan = self._plan
        if verb != plan.verb:
            return
        self._calls += when == "before"
        if self._calls == plan.nth and when == plan.when and not self._woken:
            self._woken = True
            os.kill(os.getpid(), plan.signal)

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        self._meet("commit", "before")
        if self._woken:
            # Whatever the worker makes of its pause: this write is on its way, and nothing takes it back.
            return await asyncio.shield(asyncio.ensure_future(self._late(turns)))
        verdicts = await self._storage.commit(turns)
        self._meet("commit", "after")
        return verdicts

    async def _late(self, turns: Sequence[Turn]) -> list[Verdict]:
        verdicts = await self._storage.commit(turns)
        print(f"verdicts {' '.join(verdicts)}", flush=True)
        return verdicts

    async def claim(self, request: ClaimRequest) -> Claim:
        claim = await self._storage.claim(request)
        if claim.runs:
            self._meet("claim", "before")
            self._meet("claim", "after")
        return claim


async def serve(plan: Doomed) -> None:
    """Work until the run has ended, or until the plan's moment."""
    storage: Any = DoomedStorage(PostgresStorage(plan.dsn, migrate=False), plan)
    async with Client(storage) as client:
        worker = Worker(
            client,
            workflows=WORKFLOWS,
            activities=ACTIVITIES,
            queues=(plan.queue,),
            lease=plan.lease,
            beat=0.2,
            build="tests",
        )
        async with worker:
            print(f"ready {worker.worker_id}", flush=True)
            await client.handle(plan.run_id).result(timeout=60)
            print("ended", flush=True)


def main() -> None:
    plans = [msgspec.json.decode(line, type=Doomed) for line in sys.stdin]
    running: dict[int, Doomed] = {}
    while plans or running:
        while plans and len(running) < SIDE_BY_SIDE:
            plan = plans.pop(0)
            running[fork(partial(serve, plan))] = plan
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        plan = running.pop(pid)
        if code == 0:
            plans = [other for other in plans if (other.verb, other.when) != (plan.verb, plan.when)]
        ended = Ended(plan.queue, -code if code < 0 else None, code if code >= 0 else None)
        print(msgspec.json.encode(ended).decode(), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(serve(msgspec.json.decode(sys.argv[1], type=Doomed)))
    else:
        main()
