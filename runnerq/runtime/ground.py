"""What a journal is opened on: the code that is registered, and what that code sees of the world while it is driven."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from runnerq.runtime.reading import DatabaseTime
from runnerq.runtime.registry import Registry
from runnerq.serialization.codec import Codec
from runnerq.workflow.identity import Drive


class Ground(msgspec.Struct, frozen=True):
    """Enough to start or replay any run of what is registered; nothing is carried out with it.

    ``build_seen`` is when the database first saw the build. ``seed(run_id, generation)`` draws the seed of a
    journal that begins, ``drive(run_id)`` makes the context in which the run's code is called.
    """

    registry: Registry
    codec: Codec
    time: DatabaseTime
    modules: frozenset[str]
    build: str
    build_seen: datetime
    max_depth: int
    seed: Callable[[str, int], str]
    drive: Callable[[str], Drive]
