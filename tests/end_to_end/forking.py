"""Workers as processes that a test can kill, made by fork of one that has imported everything already."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any


def fork(serve: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """A process that serves and exits; its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        # What the others print would be read as an answer of the parent.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        asyncio.run(serve())
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)
