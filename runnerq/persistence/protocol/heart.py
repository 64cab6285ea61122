"""The beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runnerq.persistence.records import (
    Details,
    Load,
    Pulse,
)


class Heart(Protocol):
    """The beat's own way to the storage, used in the beating thread and its event loop only."""

    async def open(self) -> None: ...

    async def beat(self, worker_id: int, load: Load, details: Sequence[Details]) -> Pulse:
        """Say that the worker lives; hear which of its runs have mail. The first beat names this connection in the
        worker's row, so that others can see when it is gone. Details of a run that this token no longer holds, or whose
        row somebody holds, are left out; the reply names the latter, whose details are to be sent again. After an
        error it may be called again: a connection that is lost is replaced, one that can be used is kept."""
        ...

    async def close(self) -> None: ...
