"""The storage protocol in memory, for tests and as the model that other backends are held against."""

from __future__ import annotations

from runnerq.persistence.memory.storage import MemoryHeart, MemoryStorage

__all__ = ["MemoryHeart", "MemoryStorage"]
