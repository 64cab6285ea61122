"""Generators that refuse to close.

Whoever lets go of one has its code run once more: by the garbage collector, in some thread, or at the end of the
process, with a message on stderr. So they are never let go of.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any


def keep_for_good(leaked: Iterable[Any]) -> None:
    """See that these are never freed, not even when the process ends."""
    for each in leaked:
        # A list would be emptied at the interpreter's end; a reference that nobody holds is not.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
