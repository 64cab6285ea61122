"""Steps that say how far they are, and stand still in the process that is killed."""

from __future__ import annotations

import time
from typing import Any

from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

HALF = 50


@activity
async def copied(rows: int) -> list[Any]:
    """Copies from where the last start was; the first one stands still half way."""
    return [current().heartbeat_details, current().attempt, *_copied(rows)]


@activity
def copied_in_a_thread(rows: int) -> list[Any]:
    return [current().heartbeat_details, current().attempt, *_copied(rows)]


def _copied(rows: int) -> list[int]:
    now = current()
    begin = (now.heartbeat_details or {"row": 0})["row"]
    for row in range(begin, rows):
        now.heartbeat({"row": row})
        if not begin and row == HALF:
            time.sleep(600)  # the process is killed here
    return [rows - begin]


@workflow
def copying(ctx: Context, rows: int) -> Flow[list[Any]]:
    return (yield from ctx.step(copied_in_a_thread, rows))


WORKFLOWS = (copying,)
ACTIVITIES = (copied, copied_in_a_thread)
