"""Traps for what a workflow must not ask: the time, chance, the world. They are set only while workflow code is driven.

Rules
- A profile function of the driving thread sees each call before it is made, so nothing is replaced anywhere: steps,
  other tasks and other threads call what they always call.
- Time and chance are trapped where the workflow's own code, or a library it uses, asks for them; not where the standard
  library does on its own account, as ``logging`` reads the time of a record.
- Files, sockets and processes are trapped also behind the standard library (``Path.read_text``), but not an import's,
  a log handler's, or a traceback's.
- Nothing is trapped while somebody else profiles the thread.
- The garbage collector rests meanwhile: whose callbacks and finalizers it runs is chance, and none of the workflow's.
  An error that is raised into one of its callbacks has crashed Python 3.11.
"""

from __future__ import annotations

import datetime as dt
import gc
import io
import os
import random
import secrets
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

from runnerq.errors import NondeterminismError
from runnerq.workflow.identity import Drive
from runnerq.workflow.tree import stands_at

P = ParamSpec("P")
R = TypeVar("R")

_NOW, _CHANCE, _WORLD = "ctx.now()", "ctx.random or ctx.uuid()", "a step"
_RANDOM, _UUID = "ctx.random", "ctx.uuid()"

_BUILTINS: dict[Any, tuple[str, str]] = {
    **{
        getattr(time, name): (f"time.{name}()", _NOW)
        for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
    },
    time.sleep: ("time.sleep()", "ctx.sleep()"),
    dt.datetime.now: ("datetime.now()", _NOW),
    dt.datetime.utcnow: ("datetime.utcnow()", _NOW),
    dt.datetime.today: ("datetime.today()", _NOW),
    dt.date.today: ("date.today()", _NOW),
    os.urandom: ("os.urandom()", _CHANCE),
    io.open: ("open()", _WORLD),
    os.open: ("os.open()", _WORLD),
}
_SHARED: Any = random.random.__self__  # type: ignore[attr-defined]  # the generator behind the module's functions
_OF_SHARED = frozenset({"random", "getrandbits", "seed", "setstate", "getstate"})


def _codes(*functions: Any) -> list[CodeType]:
    return [fn.__code__ for fn in functions if hasattr(fn, "__code__")]


_FUNCTIONS: dict[CodeType, tuple[str, str]] = {
    **{
        code: (f"uuid.{code.co_name}()", _UUID)
        for code in _codes(*(getattr(uuid, f"uuid{n}", None) for n in (1, 4, 6, 7)))
    },
    **{
        code: (f"secrets.{code.co_name}()", _CHANCE)
        for code in _codes(secrets.token_bytes, secrets.token_hex, secrets.token_urlsafe, secrets.randbelow)
    },
    **dict.fromkeys(_codes(socket.socket.__init__, socket.create_connection), ("a socket", _WORLD)),
    **dict.fromkeys(_codes(subprocess.Popen.__init__), ("a process", _WORLD)),
    **{code: (f"random.{code.co_name}()", _RANDOM) for code in _codes(*vars(random.Random).values())},
}
# By id: a code object's own hash goes through all that it holds.
_BY_ID = {id(code): found for code, found in _FUNCTIONS.items()}
_LIBRARY = sys.stdlib_module_names | {"runnerq"}
_ITS_OWN = frozenset(
    {"importlib", "_frozen_importlib", "logging", "linecache", "traceback", "warnings", "inspect", "zoneinfo"}
)
"""What may open files on its own account."""


class Traps:
    """Traps for one run's code; ``caught`` is told of what fell into one, before it is raised there."""

    def __init__(self, run_id: str, caught: Callable[[NondeterminismError], None]) -> None:
        self._run_id = run_id
        self._caught = caught

    def around(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it with the traps set."""
        if sys.getprofile() is not None:
            return call(*args, **kwargs)
        collects = gc.isenabled()
        gc.disable()
        # Held here: Python 3.11 keeps no reference of its own while it calls it.
        look = self._look
        sys.setprofile(look)
        try:
            return call(*args, **kwargs)
        finally:
            sys.setprofile(None)
            if collects:
                gc.enable()

    def _look(self, frame: FrameType, event: str, what: Any) -> None:
        # Called at every call and return of what is driven: what is not trapped leaves first.
        if event == "call":
            found = _BY_ID.get(id(frame.f_code))
            if found is None:
                return
            if found[1] is _RANDOM:
                found = _trapped_method(frame, found)
            caller = frame.f_back
        elif event == "c_call":
            found = _trapped_builtin(what)
            caller = frame
        else:
            return
        if found is not None and caller is not None:
            asker = _asker(caller, found[1] == _WORLD)
            if asker is not None:
                self._spring(asker, *found)

    def _spring(self, asker: FrameType, what: str, instead: str) -> None:
        line = stands_at(asker)
        error = NondeterminismError(
            f"run {self._run_id}: the workflow uses {what} at {line}, which will not be the same in a replay: "
            f"use {instead} instead",
            self._run_id,
            line=line,
        )
        self._caught(error)
        raise error


class TrappedDrive:
    """A context in which workflow code is called, with its traps set."""

    def __init__(self, context: Drive, traps: Traps) -> None:
        self._context = context
        self._traps = traps

    def copy(self) -> TrappedDrive:
        return TrappedDrive(self._context.copy(), self._traps)

    def run(self, callable: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: A002 - Context's word
        return self._context.run(self._traps.around, callable, *args, **kwargs)


def _trapped_builtin(called: Any) -> tuple[str, str] | None:
    if called.__self__ is _SHARED and called.__name__ in _OF_SHARED:
        return f"random.{called.__name__}()", _RANDOM
    return _BUILTINS.get(called)


def _trapped_method(frame: FrameType, found: tuple[str, str]) -> tuple[str, str] | None:
    """Of a generator of random numbers: the shared one's methods, and a new one that nobody gave a seed."""
    if frame.f_locals.get("self") is _SHARED:
        return found
    if frame.f_code.co_name == "__init__" and frame.f_locals.get("x") is None:
        return "random.Random() without a seed", _RANDOM
    return None


def _asker(caller: FrameType, through_the_library: bool) -> FrameType | None:
    """The frame outside the library that asks; None if the library asks on its own account, or runnerq does."""
    at: FrameType | None = caller
    while at is not None:
        module = str(at.f_globals.get("__name__")).partition(".")[0]
        if module not in _LIBRARY:
            return None if _imports(at) else at
        if not through_the_library or module in _ITS_OWN or module == "runnerq":
            return None
        at = at.f_back
    return None


def _imports(frame: FrameType) -> bool:
    """Whether it is the code of a module that is being imported."""
    at: FrameType | None = frame
    while at is not None:
        module = str(at.f_globals.get("__name__")).partition(".")[0]
        if module == "runnerq":
            return False
        if module in ("importlib", "_frozen_importlib"):
            return True
        at = at.f_back
    return False
