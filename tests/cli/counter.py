"""The command line on a storage in memory, in this process; a worker of it works when it is told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from click.testing import CliRunner, Result

from runnerq.cli import main
from runnerq.cli.shared import Given
from runnerq.client.client import Client
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import RunFilter, Status
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.cli import flows
from tests.console import shop


@workflow
def keeping(ctx: Context) -> Flow[int]:
    """Waits for a child, which waits for a signal."""
    number = yield from ctx.child(flows.waiting)
    return number


@workflow
def regretting(ctx: Context) -> Flow[None]:
    """Fails, and takes back what it did."""
    ctx.compensate(flows.greet, "Ada")
    yield ctx.publish(stage="before")
    raise ValueError("no")


WORKFLOWS: list[Callable[..., Any]] = [
    keeping,
    regretting,
    flows.greeting,
    flows.waiting,
    flows.failing,
    *shop.WORKFLOWS,
]
SERVED = [
    "keeping",
    "regretting",
    "greeting",
    "waiting",
    "failing",
    "checkout",
    "refused",
    "fanned",
    "mistaken",
    "resting",
]
UNDER_WAY = (Status.PENDING, Status.RUNNING)
ACTIVITIES: list[Callable[..., Any]] = [flows.greet, flows.explode, *shop.ACTIVITIES]


class Counter:
    """``counter.call("list", "-o", "json")`` calls a command on ``counter.storage``."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()

    def client(self) -> Client:
        return Client(self.storage)

    def call(self, *arguments: str, typed: str | IO[Any] = "", environment: Mapping[str, str] | None = None) -> Result:
        """Call a command; ``typed`` is what a person types where it asks."""
        return CliRunner().invoke(
            main, arguments, obj=Given(self.client), input=typed, env=environment or {}, catch_exceptions=False
        )

    def answer(self, *arguments: str) -> Any:
        """Call a command that must work with ``-o json``, and read what it prints."""
        done = self.call(*arguments, "-o", "json")
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, *words: str) -> str:
        """Start a run, of a name that nobody serves where none is given; its id."""
        words = words if words and not words[0].startswith("-") else ("nobody_serves_this", *words)
        done = self.call("start", *words, "-o", "id")
        assert done.exit_code == 0, done.stderr
        return done.stdout.strip()

    def status(self, run_id: str) -> str:
        return str(self.answer("show", run_id)["run"]["status"])

    def work(self, workflows: Sequence[Callable[..., Any]] = WORKFLOWS, build: str = "tests") -> None:
        """Have a worker do all that is to be done now, and leave. No queue may be paused."""

        async def working() -> None:
            async with (
                Client(self.storage) as client,
                Worker(client, workflows=workflows, activities=ACTIVITIES, build=build) as worker,
            ):
                await worker.idle()
                # What a run has started meanwhile may not have been looked for when its worker is idle.
                while any([await client.count(RunFilter(status=UNDER_WAY, workflow=name)) for name in SERVED]):
                    await worker.idle()

        asyncio.run(working())
