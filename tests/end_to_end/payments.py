"""A workflow that pays from a table beside the runs, in worker processes that end at a seam of its first transaction.

``python -m tests.end_to_end.payments`` takes a plan a line on stdin, forks a worker for each, and says how each ended;
with a plan as its argument it is that worker itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from typing import Any, Literal, cast

import msgspec

from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.protocol import Work
from runnerq.persistence.records import Turn, Verdict
from runnerq.runtime.current import current
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.end_to_end.forking import fork

Seam = Literal["before", "inside", "behind", "fenced", "committed"]
"""Of a transaction: before its function, between its writes, behind the last of them, between the fence and the COMMIT,
and between that and its answer."""

SCHEMA = """
    create table payment (run text, note text);
    create table account (name text primary key, cents integer not null);
    insert into account values ('shop', 0);
    """


class Plan(msgspec.Struct, frozen=True):
    """A worker of this queue gets this signal at a seam of its first transaction."""

    dsn: str
    queue: str
    run_id: str
    seam: Seam
    signal: int = signal.SIGKILL
    lease: float = 60.0


class Ended(msgspec.Struct, frozen=True):
    """How the worker of a queue ended: by this signal, or with this exit code."""

    queue: str
    signal: int | None
    code: int | None


class Seams:
    """Where this process is in its plan; nowhere, without one."""

    def __init__(self) -> None:
        self.plan: Plan | None = None

    def meet(self, seam: Seam) -> None:
        plan = self.plan
        if plan is not None and plan.seam == seam:
            self.plan = None
            os.kill(os.getpid(), plan.signal)


SEAMS = Seams()


async def pay(connection: Any, note: str) -> str:
    """From an account that all runs share: who has its row locked holds up all others."""
    await connection.execute("insert into payment values ($1, $2)", current().run_id, note)
    SEAMS.meet("inside")
    await connection.execute("update account set cents = cents + 1 where name = 'shop'")
    return note


def thank(note: str) -> str:
    return f"thanks for {note}"


@workflow
def buy(ctx: Context) -> Flow[list[str]]:
    paid = yield from ctx.transaction(pay, "book")
    thanked = yield from ctx.step(thank, paid)
    return [thanked, (yield from ctx.options(name="more").transaction(pay, "pen"))]


ANSWER = ["thanks for book", "pen"]


class DoomedStorage:
    """The storage of such a process. It prints what became of its transactions."""

    def __init__(self, storage: PostgresStorage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def transact(self, work: Work) -> Verdict:
        try:
            verdict = await self._storage.transact(cast("Work", _DoomedWork(work)))
        except Exception as error:
            print(f"transaction {type(error).__name__}", flush=True)
            raise
        SEAMS.meet("committed")
        print(f"transaction {verdict}", flush=True)
        return verdict


class _DoomedWork:
    def __init__(self, work: Work) -> None:
        self._work = work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)

    async def carry_out(self, connection: Any) -> Turn:
        SEAMS.meet("before")
        turn = await self._work.carry_out(connection)
        SEAMS.meet("behind")
        return turn

    def committing(self) -> None:
        self._work.committing()
        SEAMS.meet("fenced")


async def serve(plan: Plan) -> None:
    SEAMS.plan = plan
    storage: Any = DoomedStorage(PostgresStorage(plan.dsn, migrate=False))
    client = Client(storage)
    worker = Worker(client, workflows=[buy], queues=(plan.queue,), lease=plan.lease, beat=0.2, build="tests")
    async with client, worker:
        print("ready", flush=True)
        await client.handle(plan.run_id).result(timeout=60)
        print("ended", flush=True)


def main() -> None:
    plans = [msgspec.json.decode(line, type=Plan) for line in sys.stdin]
    running = {fork(partial(serve, plan)): plan for plan in plans}
    while running:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        ended = Ended(running.pop(pid).queue, -code if code < 0 else None, code if code >= 0 else None)
        print(msgspec.json.encode(ended).decode(), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(serve(msgspec.json.decode(sys.argv[1], type=Plan)))
    else:
        main()
