"""How a worker works, as checked from what it was given."""

from __future__ import annotations

import os
import socket

import msgspec

from runnerq.runtime.retention import Retention
from runnerq.runtime.slots import Kept


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations are seconds. ``served`` are the names that it claims by; ``kept`` what some slots are kept for."""

    queues: tuple[str, ...]
    served: tuple[str, ...]
    max_workers: int
    max_steps: int
    max_threads: int
    lease: float
    beat: float
    poll_interval: float
    reaper_interval: float
    reaper_batch: int
    shutdown_grace: float
    max_depth: int
    cache: int
    build: str
    host: str = msgspec.field(default_factory=socket.gethostname)
    pid: int = msgspec.field(default_factory=os.getpid)
    kept: Kept | None = None
    retention: Retention | None = None
