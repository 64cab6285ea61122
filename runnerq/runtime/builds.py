"""What code a worker runs, in one short text: a build that could not follow a journal is not tried on it again.

``Worker(build=)``, else $RUNNERQ_BUILD, else a digest of the sources of the packages that define what is registered.
The version of the journal's own rules is part of it.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import CodeType
from typing import Any

from runnerq.serialization.signatures import layers
from runnerq.workflow.journal import RULES

MOST_FILES = 5000


@cache
def version() -> str | None:
    """The version of runnerq that runs; None where it is not installed, but a folder that is looked into."""
    try:
        return importlib.metadata.version("runnerq")
    except importlib.metadata.PackageNotFoundError:
        return None


def build_of(functions: Iterable[Callable[..., Any]], given: str | None) -> str:
    """The build's name, with the rules version behind it."""
    named = given or os.environ.get("RUNNERQ_BUILD")
    return f"{named or _digest(functions)}/{RULES}"


def _digest(functions: Iterable[Callable[..., Any]]) -> str:
    digest = blake2b(digest_size=8)
    places: set[Path] = set()
    for fn in functions:
        inner = layers(fn)[-1]
        found = _places(sys.modules.get(getattr(inner, "__module__", "")))
        places.update(found)
        code = getattr(inner, "__code__", None)
        if not found and code is not None:
            # Typed at a prompt: there is no file, so the code itself stands for it.
            digest.update(_of_code(code))
    # A package is looked through once, however many functions it defines.
    files = {path for place in places for path in (place.rglob("*.py") if place.is_dir() else (place,))}
    for path in sorted(files)[:MOST_FILES]:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _of_code(code: CodeType) -> bytes:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    plain = [each for each in code.co_consts if not isinstance(each, CodeType)]
    return b"".join([code.co_code, repr((code.co_names, plain)).encode(), *map(_of_code, inner)])


def _places(module: Any) -> list[Path]:
    """The folders of the package that this module is of, or its file if it is of none."""
    file = getattr(module, "__file__", None)
    if module is None or file is None or not Path(file).is_file():
        return []
    package = sys.modules.get(module.__name__.partition(".")[0])
    folders = [Path(folder) for folder in getattr(package, "__path__", ())]
    return folders if folders and inspect.ismodule(module) else [Path(file)]
