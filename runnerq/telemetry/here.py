"""What run is being worked on right here: what every log record of a workflow or a step is marked with.

Rules
- One context variable. It is set in the context that a step's function is called in, and in the one that a workflow's
  code is called in; helpers, tasks and threads that copy that context see it, and nothing else does.
- It lies on this floor because logging reads it, and the runtime above sets it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

import msgspec


class Here(Protocol):
    """An attempt of a step, or a workflow's code. ``workflow`` is the name of the run's function, ``name`` that of the
    step; in the workflow's own code both are the same. ``attempt`` counts from 1."""

    @property
    def run_id(self) -> str: ...

    @property
    def workflow(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def attempt(self) -> int: ...


class InWorkflow(msgspec.Struct, frozen=True):
    """A workflow's own code. ``attempt`` is how many workers have had the run since its last answer: a crash counts."""

    run_id: str
    workflow: str
    attempt: int

    @property
    def name(self) -> str:
        """The same as ``workflow``: no step is under way."""
        return self.workflow


HERE: ContextVar[Here | None] = ContextVar("runnerq_here", default=None)
