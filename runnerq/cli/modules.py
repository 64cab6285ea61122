"""The modules that a command is given: what of them a worker registers, and what is said of one that is broken."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from runnerq.cli.commands import Refused
from runnerq.cli.telling import say
from runnerq.errors import ConfigurationError
from runnerq.workflow.declare import ActivityDeclaration, WorkflowDeclaration, declaration_of

_NOT_THEIRS = (str(Path(__file__).parents[1]), str(Path(importlib.__file__).parent), "<frozen importlib")
"""Where files are whose frames say nothing to a user."""


class Found(msgspec.Struct, frozen=True):
    """What a worker registers."""

    workflows: tuple[Callable[..., Any], ...]
    activities: tuple[Callable[..., Any], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What they claim by: ``checkout@1``, and an activity's bare name."""
        return tuple(
            f"{declared.name}@{declared.version}" if isinstance(declared, WorkflowDeclaration) else declared.name
            for fn in (*self.workflows, *self.activities)
            if (declared := declaration_of(fn)) is not None
        )

    def __str__(self) -> str:
        return ", ".join(self.names)


def find(modules: Sequence[str]) -> Found:
    """Every workflow and activity in these modules' namespaces, each once."""
    # As `python -m` has it: modules of the folder one stands in can be named.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    workflows: dict[int, Callable[..., Any]] = {}
    activities: dict[int, Callable[..., Any]] = {}
    for name in modules:
        for value in vars(_imported(name)).values():
            declared = declaration_of(value) if callable(value) and not isinstance(value, type) else None
            if isinstance(declared, WorkflowDeclaration):
                workflows[id(value)] = value
            elif isinstance(declared, ActivityDeclaration):
                activities[id(value)] = value
    if not workflows and not activities:
        raise ConfigurationError(
            f"there is no workflow and no activity in {', '.join(modules)}: "
            "decorate functions with @workflow or @activity"
        )
    return Found(tuple(workflows.values()), tuple(activities.values()))


def _imported(name: str) -> Any:
    if name.startswith(".") or "/" in name:
        raise Refused(f"{name!r} is no name of a module: {_advice(name)}", 2)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only the module that was named; what it fails to import itself deserves its own stack.
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _broken(name, error) from error
        raise Refused(f"there is no module {name!r} to be imported: {_advice(name)}", 2) from error
    except Exception as error:
        raise _broken(name, error) from error


def _advice(name: str) -> str:
    file = Path(name)
    if file.suffix == ".py" and file.is_file() and not file.is_absolute():
        return f"name it as in `import {'.'.join(file.with_suffix('').parts)}`, without .py"
    return f"name it as in `import {name}`, from the folder it is in"


def _broken(name: str, error: Exception) -> Refused:
    """The user's part of the stack is told at once; what is raised says in a line what to look for there."""
    told = traceback.TracebackException.from_exception(error)
    for each in _with_causes(told):
        each.stack = traceback.StackSummary.from_list(
            [frame for frame in each.stack if not frame.filename.startswith(_NOT_THEIRS)]
        )
    say("".join(told.format()).rstrip())
    return Refused(f"module {name!r} cannot be imported: {type(error).__name__}, see above", 1)


def _with_causes(told: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    while told is not None:
        yield told
        told = told.__cause__ or told.__context__
