"""Says where user code holds up the event loop: a workflow that never yields, a step that blocks.

Asked from the heart's thread, which goes on beating meanwhile: the leases are kept, but nothing else moves.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType

from runnerq.runtime.callbacks import log
from runnerq.workflow.advance import Advance

FIRST = 5.0
"""Seconds after which a stall is told; then after twice as long, and so on."""
_NOT_THEIRS = frozenset({"runnerq", "asyncio", "threading", "concurrent", "selectors", "contextvars"})


class Watchdog:
    """Watches the thread that it is made in."""

    def __init__(self, worker_id: int) -> None:
        self._worker_id = worker_id
        self._thread = threading.get_ident()
        self._next = FIRST

    def look(self, stalled: float) -> None:
        """The event loop has not turned for so many seconds: log the line that it is at, if that is long."""
        if stalled < FIRST:
            self._next = FIRST
        if stalled < self._next:
            return
        self._next = 2 * stalled
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - Python's only way to ask another thread
        log.error(
            "worker %d: its event loop has not turned for %.0f s, and nothing of it moves; it is at %s",
            self._worker_id, stalled, _place(frame),
        )  # fmt: skip


def _place(frame: FrameType | None) -> str:
    """The innermost line of user code, and the run whose workflow it belongs to, as far as they are known."""
    line = run = None
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if line is None and package not in _NOT_THEIRS:
            line = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        if frame.f_code is Advance._advance.__code__:  # noqa: SLF001 - where workflows are entered
            run = frame.f_locals["self"].run_id
            break
        frame = frame.f_back
    place = line or "no line of user code"
    return place if run is None else f"{place}, in the workflow of run {run}: it must yield, or do this in a step"
