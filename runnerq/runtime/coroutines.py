"""How a user's coroutine is run, and what it raised."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextvars import Context
from typing import Any


def task_of(loop: asyncio.AbstractEventLoop, body: Coroutine[Any, Any, None], context: Context) -> asyncio.Task[None]:
    """A task of it, in this context; where Python can, it has run already as far as it comes without waiting."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(body, loop=loop, context=context, eager_start=True)
    return loop.create_task(body, context=context)


def unwrapped(error: BaseException) -> BaseException:
    """The StopIteration that a coroutine raised, which Python has wrapped (PEP 479); or the error as it is."""
    cause = error.__cause__
    if type(error) is RuntimeError and isinstance(cause, StopIteration):
        return cause
    return error
