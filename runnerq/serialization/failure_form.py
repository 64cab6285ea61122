"""An exception as data."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runnerq.errors import StepError

ORIGIN = "__runnerq_failure__"
"""Where a rebuilt exception keeps its record, in its ``__dict__``."""

_ALWAYS = frozenset({"builtins", "runnerq.errors"})


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recorded exception.

    ``type`` is the class's qualified name inside ``module``; ``args`` are JSON builtins: what the class is made from.
    ``stack`` is the traceback's text without runnerq's own frames. ``members`` are those of an exception group.
    ``attempts`` is how many a step or activity had made when it failed for good with this; 0 elsewhere.
    ``rebuilt`` says that the exception is raised again as its own class, with ``attributes`` set where its constructor
    does not set them; else it is raised as StepError.
    """

    type: str
    module: str
    message: str
    args: tuple[Any, ...] = ()
    cause: Failure | None = None
    notes: tuple[str, ...] = ()
    stack: str = ""
    retryable: bool = True
    members: tuple[Failure, ...] = ()
    rebuilt: bool = False
    attributes: Mapping[str, Any] = {}
    attempts: int = 0

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def recorded_failure(exc: BaseException) -> Failure | None:
    """The record that this exception was made from; None for one that was raised here and now."""
    found = exc.failure if isinstance(exc, StepError) else None
    if found is None:
        found = exc.__dict__.get(ORIGIN)
    return found if isinstance(found, Failure) else None


def find_class(module: str, qualified: str, modules: frozenset[str]) -> type[Exception] | None:
    """The exception class of this name, if its module is one of ``modules`` and loaded. Nothing is imported."""
    if module not in modules and module not in _ALWAYS:
        return None
    found: Any = sys.modules.get(module)
    for part in qualified.split("."):
        # Through __dict__: a module's or class's own __getattr__ could import, or make things up.
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def construct(
    cls: type[Exception], args: Sequence[Any], members: Sequence[BaseException], attributes: Mapping[str, Any]
) -> Exception:
    """An instance from its recorded parts; raises whatever the class's constructor raises."""
    exc = cls(*args, members) if members else cls(*args)
    if "args" in attributes:
        BaseException.args.__set__(exc, tuple(attributes["args"]))  # type: ignore[attr-defined]
    # Past __setattr__: the class may be a frozen dataclass.
    exc.__dict__.update({name: value for name, value in attributes.items() if name != "args"})
    return exc
