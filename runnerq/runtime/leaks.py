"""Generators that refuse to close.

Whoever lets go of one has its code run once more: by the garbage collector, in some thread, or at the end of the
process, with a message on stderr. So they are never let go of.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from runnerq.runtime.callbacks import log, of_run
from runnerq.workflow.interpreter import Interpreter


def close(parked: Interpreter) -> None:
    """Close what was parked, and keep for good what refuses."""
    keep(parked.run_id, parked.close())


def keep(run_id: str, leaked: Sequence[Any]) -> None:
    """Keep what this run leaves, for good."""
    keep_for_good(leaked)
    if leaked:
        log.warning("run %s: %d generators refuse to close and are kept for good", run_id, len(leaked),
                    extra=of_run(run_id))  # fmt: skip


def keep_for_good(leaked: Iterable[Any]) -> None:
    """See that these are never freed, not even when the process ends."""
    for each in leaked:
        # A list would be emptied at the interpreter's end; a reference that nobody holds is not.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
