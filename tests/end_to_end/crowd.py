"""What several worker processes run together: activities that note in which process they ran."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.end_to_end.shop import LOG_VARIABLE, label, slow, slowly

__all__ = ["block", "label", "meet", "slow", "slowly"]


def noted() -> list[tuple[str, int]]:
    """The run and the process of each activity that began."""
    lines = Path(os.environ[LOG_VARIABLE]).read_text().splitlines()
    return [(run_id, int(pid)) for run_id, pid in (line.split() for line in lines)]


@workflow
def block(ctx: Context) -> Flow[None]:
    """Notes nothing, and does not let the event loop turn. Its stdin is at its end."""
    assert sys.stdin.read() == ""
    print("blocked", flush=True)
    time.sleep(600)
    yield from ctx.sleep(0)


@activity
async def meet(many: int) -> int:
    """Notes its process, and returns once so many processes have noted theirs."""
    log = os.open(os.environ[LOG_VARIABLE], os.O_WRONLY | os.O_APPEND)
    os.write(log, f"{current().run_id} {os.getpid()}\n".encode())
    os.close(log)
    while len({pid for _, pid in noted()}) < many:
        await asyncio.sleep(0.01)
    return os.getpid()
