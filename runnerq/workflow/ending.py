"""How a run ends, and what looks like a fault of the code instead (DESIGN section 5, rule 10).

An exception that leaves a workflow ends the run, unless it looks like a fault of the code or the worker and no recorded
failure is in its chain: then the run blocks, so that a bad deploy kills nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from runnerq.errors import Cancelled, PayloadUnreadable, UsageError
from runnerq.serialization.failures import recorded_failure

CODE_FAULTS: tuple[type[BaseException], ...] = (
    AttributeError, NameError, TypeError, LookupError, AssertionError, ImportError,
    RecursionError, MemoryError, UsageError,
)  # fmt: skip
WORKER_FAULTS: tuple[type[BaseException], ...] = (ImportError, MemoryError, PayloadUnreadable)


class Returned(msgspec.Struct, frozen=True):
    """The workflow returned this value; ``text`` is its JSON."""

    value: Any
    text: str


class Raised(msgspec.Struct, frozen=True):
    """The workflow raised this, and all that was to be undone is undone."""

    error: BaseException


class UndoFailed(msgspec.Struct, frozen=True):
    """The workflow raised ``error``, and not all of its undos went well: ``undo`` is what the last of those raised."""

    error: BaseException
    undo: BaseException


class ContinuedAsNew(msgspec.Struct, frozen=True):
    """The workflow goes on in a next generation, with these arguments, as ``Codec.encode_call`` writes them.

    ``lost`` is what its code raised after that, which changes nothing.
    """

    arguments: str
    lost: BaseException | None = None


End: TypeAlias = Returned | Raised | UndoFailed | ContinuedAsNew


class Blocked(BaseException):
    """The run cannot go on with this code: divergence (nothing is written) or a fault of the code.

    A BaseException, and never thrown into user code, so that no ``except`` of a workflow sees it.
    """

    def __init__(
        self,
        message: str,
        *,
        position: str | None = None,
        recorded: str | None = None,
        asked: str | None = None,
        line: str | None = None,
        error: BaseException | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.recorded = recorded
        self.asked = asked
        self.line = line
        self.error = error

    @property
    def by_worker(self) -> bool:
        """Whether it is a fault of this worker rather than of the code: another attempt may do."""
        return isinstance(self.error, WORKER_FAULTS)


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, its causes and contexts, and the members of groups among them; each once.

    What is behind an exception that was made from a record is part of that record, and left out.
    """
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        at = todo.pop()
        if at is None or id(at) in seen:
            continue
        seen.add(id(at))
        yield at
        if recorded_failure(at) is not None:
            continue
        todo += [at.__cause__, at.__context__]
        if isinstance(at, BaseExceptionGroup):
            todo += at.exceptions


def is_code_fault(error: BaseException) -> bool:
    """Whether it looks like a fault of the code or the worker; a group does if all of its members do."""
    return _looks_like_a_fault(error) and not any(recorded_failure(at) is not None for at in chain(error))


def _looks_like_a_fault(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_looks_like_a_fault, error.exceptions))
    return isinstance(error, CODE_FAULTS)


def is_stray(error: BaseException) -> bool:
    """Whether the code itself raised what means the process and not the run, such as SystemExit: nothing is undone."""
    return not isinstance(error, (Exception, Cancelled)) and not any(
        recorded_failure(at) is not None for at in chain(error)
    )


def is_exhausted(error: BaseException) -> bool:
    """Whether a recorded failure of used-up attempts is in the chain: the run is then a dead letter."""
    records = (recorded_failure(at) for at in chain(error))
    return any(record is not None and record.retryable for record in records)
