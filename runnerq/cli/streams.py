"""stdout and stderr as they are given: closed, full, or with an encoding that lacks letters."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a stream says that takes no more, though somebody is there."""


def make_usable() -> None:
    """Have both be there, and take every text: what their encoding has no letter for is written out."""
    # A daemon, or `>&-`: nobody is to be told anything.
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def drop_stdout() -> None:
    """Have what is left in stdout go nowhere, so that the end of the process does not try it again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
