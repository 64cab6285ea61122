"""How a worker's time under one id ended."""

from __future__ import annotations

from enum import Enum, auto


class Over(Enum):
    """STOPPED: in good order. FENCED: its lease may have run out. FAILED: with an error that it cannot go on with."""

    STOPPED = auto()
    FENCED = auto()
    FAILED = auto()
