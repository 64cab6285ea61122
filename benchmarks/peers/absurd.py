"""Absurd: one process with one client a queue, as its SDK does it, 100 tasks at once; polls of 20 ms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from benchmarks.peers.side import main
from benchmarks.pickup import tell
from benchmarks.systems import told_to_go

CONCURRENCY = 100
POLL = 0.02
CLAIM = 600
STEPS = 20
TASKS, CHILDREN = "tasks", "children"


def _register(app: AsyncAbsurd) -> None:
    @app.register_task("trivial", queue=TASKS)
    async def trivial(params: Any, ctx: Any) -> Any:
        del ctx
        return params

    @app.register_task("told", queue=TASKS)
    async def told(params: Any, ctx: Any) -> Any:
        async def telling() -> Any:
            tell()
            return params

        return await ctx.step("telling", telling)

    @app.register_task("steps", queue=TASKS)
    async def steps(params: Any, ctx: Any) -> Any:
        async def nothing() -> int:
            return 1

        return sum([await ctx.step(f"step {i}", nothing) for i in range(params)])

    @app.register_task("parent", queue=TASKS)
    async def parent(params: Any, ctx: Any) -> Any:
        async def spawn() -> list[str]:
            spawned = [
                await app.spawn("child", i, queue=CHILDREN, idempotency_key=f"{ctx.task_id}:{i}") for i in range(params)
            ]
            return [str(each["task_id"]) for each in spawned]

        children = await ctx.step("spawn", spawn)
        return sum([(await ctx.await_task_result(child, queue_name=CHILDREN)).result for child in children])


class Spawner:
    """Several clients of one connection each."""

    def __init__(self, apps: list[AsyncAbsurd]) -> None:
        self._apps = apps
        self._next = 0

    @property
    def app(self) -> AsyncAbsurd:
        self._next += 1
        return self._apps[self._next % len(self._apps)]

    async def one(self, name: str) -> Any:
        spawned = await self.app.spawn(name, STEPS if name == "steps" else 1)
        return spawned["task_id"]

    async def many(self, name: str, count: int) -> None:
        # It has no bulk call.
        numbers = iter(range(count))

        async def each(app: AsyncAbsurd) -> None:
            for _ in numbers:
                await app.spawn(name, STEPS if name == "steps" else 1)

        await asyncio.gather(*map(each, self._apps))

    async def result(self, run: Any) -> None:
        await self.app.await_task_result(run, 60)


class AbsurdSystem:
    name = "absurd"
    module = "benchmarks.peers.absurd"
    ended = f"select count(*) from absurd.t_{TASKS} where state = 'completed'"
    workers = 1

    async def prepare(self, dsn: str) -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(BUNDLED_SCHEMA_SQL)
        await connection.execute(f"select absurd.create_queue('{TASKS}'); select absurd.create_queue('{CHILDREN}')")
        await connection.close()

    @asynccontextmanager
    async def producer(self, dsn: str, connections: int) -> AsyncIterator[Spawner]:
        # For the bulk of W2, too: 16 clients are its quickest way to spawn many.
        apps = [AsyncAbsurd(dsn, queue_name=TASKS) for _ in range(max(16, connections))]
        try:
            for app in apps:
                _register(app)
            yield Spawner(apps)
        finally:
            for app in apps:
                await app.close()

    async def fan_out(self, producer: Spawner, children: int) -> None:
        app = producer.app
        spawned = await app.spawn("parent", children)
        await app.await_task_result(spawned["task_id"], 120)


async def work(dsn: str) -> None:
    tasks, children = AsyncAbsurd(dsn, queue_name=TASKS), AsyncAbsurd(dsn, queue_name=CHILDREN)
    _register(tasks)

    @children.register_task("child")
    async def child(params: Any, ctx: Any) -> Any:
        del ctx
        return params

    await told_to_go()
    await asyncio.gather(
        *(
            app.start_worker(worker_id=name, claim_timeout=CLAIM, concurrency=CONCURRENCY, poll_interval=POLL)
            for name, app in {TASKS: tasks, CHILDREN: children}.items()
        )
    )


if __name__ == "__main__":
    main(AbsurdSystem(), work)
