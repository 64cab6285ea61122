"""A run as its contexts see it: time and chance that replay gives again, and a note of every command that is made.

Rules
- ``uuid`` and ``random`` come from the seed, the last command asked for in the branch, and a count since it.
- While parked generators are closed it is inert: making a command raises three times, then does nothing, so that no
  loop of user code can hang the closing. ``replaying`` is then true, so that the log is silent.
- It refers to no generator but while one advances, so that dropping a run leaves no cycle behind.
- A workflow that has continued as new has ended, whatever its code does then.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from datetime import datetime
from logging import LoggerAdapter, getLogger
from random import Random
from typing import Any, NoReturn
from uuid import UUID

import msgspec

from runnerq.errors import Cancelled, EncodingError, UsageError
from runnerq.workflow.chance import draw_random, draw_uuid
from runnerq.workflow.commands import Command
from runnerq.workflow.identity import Info
from runnerq.workflow.prepare import Preparation
from runnerq.workflow.recorder import Recorder
from runnerq.workflow.tree import Branch

_OURS = frozenset({"runnerq.workflow.commands", "runnerq.workflow.context"})
_REFUSALS = 3
_PARKED = "this run is being parked: nothing is asked for any more"


class Inert(BaseException):
    """Raised by ``ctx`` while its parked generator is being closed."""


class ContinueAsNew(BaseException):
    """Raised by ``ctx.continue_as_new`` to leave the workflow. Nothing depends on its coming through."""


class Driver:
    """What a context needs of its run. ``branch`` is the one that advances now.

    ``undos`` are those that were registered, in that order. ``continued`` is what the next generation is called with,
    once the workflow has ended this one.
    """

    def __init__(self, info: Info, recorder: Recorder, preparation: Preparation) -> None:
        self.seed = ""
        self.branch: Branch | None = None
        self.undos: list[Command[Any]] = []
        self.continued: str | None = None
        self._info = info
        self._recorder = recorder
        self._preparation = preparation
        self._made: dict[int, Command[Any]] = {}
        self._inert = False
        self._refused = 0

    # --- what the context asks ----------------------------------------------------------------------------------------

    @property
    def replaying(self) -> bool:
        return self._recorder.replaying or self._inert

    def now(self) -> datetime:
        return self._recorder.at

    def uuid(self) -> UUID:
        return draw_uuid(self.seed, self.branch)

    def random(self) -> Random:
        return draw_random(self.seed, self.branch)

    def info(self) -> Info:
        return msgspec.structs.replace(self._info, entries=self._recorder.place)

    def patched(self, change: object) -> bool:
        if not isinstance(change, str) or not change.isprintable() or not change:
            raise UsageError(f"ctx.patched takes the name of a change, a printable str, not {change!r}")
        if self._inert:
            return True
        return self._recorder.patched(change, self._running("patched").place)

    def compensate(self, undo: Command[Any]) -> None:
        """Register an undo. Raises UsageError or EncodingError for one that could never run."""
        if self._inert:
            return
        self.asked_for(undo)
        self._preparation.prepare(undo, self._running("compensate"))
        self.undos.append(undo)

    def continue_as_new(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        if self._inert:
            raise Inert(_PARKED)
        branch = self._running("continue_as_new")
        if self.continued is None:
            if branch.parent is not None:
                raise UsageError(
                    f"ctx.continue_as_new was called in the branch at {branch.position}: return from it, and continue "
                    "in the workflow's own function"
                )
            if branch.pending:
                # The cancel that waited for the last answer: this is where the workflow would go on.
                branch.pending = False
                raise Cancelled(branch.reason)
            if branch.cancelled:
                raise UsageError("ctx.continue_as_new was called in a run that was cancelled: let it end")
            if self.undos:
                raise UsageError(
                    f"ctx.continue_as_new would lose what is to be undone, {self.undos[-1]!r} last: what a generation "
                    "began, it has to finish"
                )
            try:
                self.continued = self._preparation.arguments(args, kwargs)
            except (UsageError, EncodingError) as error:
                # Told at the user's line, wherever it was found.
                raise error.with_traceback(None)  # noqa: B904 - it is the one that was caught
            # Whatever it yields now is not asked for.
            branch.pending = True
        raise ContinueAsNew("the workflow goes on in its next generation: nothing more can be asked for in this one")

    def _running(self, what: str) -> Branch:
        if self.branch is None:
            raise UsageError(f"ctx.{what} was called while the workflow does not run: call it in the workflow's code")
        return self.branch

    # --- commands -----------------------------------------------------------------------------------------------------

    def made(self, command: Command[Any]) -> None:
        """Note a new command and the line that made it."""
        if self._inert:
            self._refused += 1
            if self._refused <= _REFUSALS:
                raise Inert(_PARKED)
            return
        frame = sys._getframe(2)  # noqa: SLF001 - the line is wanted of every command, and a traceback would be dear
        while frame.f_back is not None and frame.f_globals.get("__name__") in _OURS:
            frame = frame.f_back
        command.code = frame.f_code
        command.lineno = frame.f_lineno
        self._made[id(command)] = command

    def asked_for(self, command: Command[Any]) -> None:
        """It was yielded."""
        self._made.pop(id(command), None)

    def never_yielded(self) -> tuple[Command[Any], ...]:
        """Commands that were made and not asked for, without those that were made for one of these."""
        inside = {id(member) for command in self._made.values() for member in command.members}
        return tuple(command for command in self._made.values() if id(command) not in inside)

    def close(self) -> None:
        """From now on, be inert."""
        self._inert = True
        self._made.clear()
        self.undos.clear()


class RunLog(LoggerAdapter[Any]):
    """The run's logger: silent in replay, so that a line is written once."""

    def __init__(self, driver: Driver | None) -> None:
        info = None if driver is None else driver.info()
        extra = {} if info is None else {"run_id": info.id, "workflow": info.workflow}
        super().__init__(getLogger("runnerq.workflow"), extra)
        self._driver = driver

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        # Before Python 3.13 an adapter's extra takes the place of what the caller gives.
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name in logging
        return (self._driver is None or not self._driver.replaying) and super().isEnabledFor(level)
