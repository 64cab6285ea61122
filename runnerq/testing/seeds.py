"""Journals followed under other hash seeds: what depends on the order of a set, or on ``hash(str)``, shows.

    reports = check_hash_seeds(env.journals(), workflows=[checkout])

The order of a set of strings is one in each process. So each seed is a process of its own, which loads the workflows'
modules by name, or else from their files, and follows the journals.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from runnerq.errors import ConfigurationError
from runnerq.runtime.replaying import ReplayReport
from runnerq.serialization.signatures import layers
from runnerq.testing.replays import check_replay

SEEDS = (1, 2)
_PROGRAM = f"from {__name__} import _follow; _follow()"


class _Function(msgspec.Struct, frozen=True):
    """Where a workflow is found again in another process."""

    module: str
    file: str
    name: str


class _Order(msgspec.Struct, frozen=True):
    """What another process is to do."""

    journals: list[dict[str, Any]]
    functions: list[_Function]
    path: list[str]


def check_hash_seeds(
    journals: Iterable[Mapping[str, Any] | Path],
    workflows: Iterable[Callable[..., Any]],
    seeds: Sequence[int] = SEEDS,
) -> list[ReplayReport]:
    """``check_replay`` in a process for each of these hash seeds: the reports of the first, then of the second, ...

    The workflows are functions at the top of a module: a function made inside another cannot be loaded elsewhere.
    """
    read = [one if isinstance(one, Mapping) else msgspec.json.decode(one.read_bytes()) for one in journals]
    order = _Order([dict(one) for one in read], [_found(fn) for fn in workflows], sys.path)
    text = msgspec.json.encode(order)
    return [report for seed in seeds for report in _ask(text, seed)]


def _ask(order: bytes, seed: int) -> list[ReplayReport]:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = subprocess.run(  # noqa: S603 - this very interpreter, and a program of our own
        [sys.executable, "-c", _PROGRAM], input=order, env=environment, capture_output=True, check=False
    )
    if asked.returncode:
        raise ConfigurationError(
            f"the workflows cannot be loaded in another process: {asked.stderr.decode(errors='replace').strip()}"
        )
    return msgspec.json.decode(asked.stdout.splitlines()[-1], type=list[ReplayReport])


def _found(fn: Callable[..., Any]) -> _Function:
    inner = layers(fn)[-1]
    module = sys.modules.get(inner.__module__)
    file = getattr(module, "__file__", None) or inner.__code__.co_filename
    if not inner.__qualname__.isidentifier():
        raise ConfigurationError(
            f"{inner.__qualname__!r} cannot be loaded in another process: define the workflow at the top of a module"
        )
    return _Function(inner.__module__, str(file), inner.__qualname__)


def _follow() -> None:
    """What the other process does."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=_Order)
    sys.path[:] = order.path
    functions = [getattr(_loaded(function), function.name) for function in order.functions]
    reports = check_replay(order.journals, functions)
    # On a line of its own: what the modules print stands before it.
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(reports) + b"\n")


def _loaded(function: _Function) -> ModuleType:
    if function.module in sys.modules and function.module != "__main__":
        return sys.modules[function.module]
    try:
        if function.module != "__main__":
            return importlib.import_module(function.module)
    except ImportError:
        # A test module that its runner has loaded from a file, under a name that only it knows.
        pass
    spec = importlib.util.spec_from_file_location(function.module, function.file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{function.file} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[function.module] = module
    spec.loader.exec_module(module)
    return module
