"""The shop's code as if it stood in another file, so that no picture names a folder of whoever takes it."""

from __future__ import annotations

import linecache
import types
from pathlib import Path

from tests.browser import shop


def told_as(filename: str) -> None:
    """Have this process name that file in every stack that the shop's functions are in, with the same lines."""
    for function in vars(shop).values():
        if isinstance(function, types.FunctionType):
            function.__code__ = function.__code__.replace(co_filename=filename)
    text = Path(shop.__file__).read_text()
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
