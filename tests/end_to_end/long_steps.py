"""Steps that are under way when something happens to their worker: what it serves in ``test_workers_in_trouble.py``."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.end_to_end.shop import LOG_VARIABLE, note

CUT_OFF = "cut off"


@activity(retry=1)
async def patient(gate: str) -> str:
    """Notes its start, and ends once there is a file of this name; says so if it is cut off."""
    note()
    try:
        while not Path(gate).exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        Path(f"{os.environ[LOG_VARIABLE]}.{os.getpid()}").write_text(CUT_OFF)
        raise
    return "done"


@activity(retry=1)
async def rude(gate: str) -> str:
    """Notes its start, and blocks the event loop until there is a file of this name."""
    note()
    while not Path(gate).exists():
        time.sleep(0.01)  # noqa: ASYNC251 - what this is about
    return "done"


@workflow
def patiently(ctx: Context, gate: str) -> Flow[str]:
    return (yield from ctx.step(patient, gate))


@workflow
def rudely(ctx: Context, gate: str) -> Flow[str]:
    return (yield from ctx.step(rude, gate))


WORKFLOWS = (patiently, rudely)
