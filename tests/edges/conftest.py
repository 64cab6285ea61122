from __future__ import annotations

from tests.runtime.conftest import memory, plain_stage, shared_database, stage, stage_in_memory

__all__ = ["memory", "plain_stage", "shared_database", "stage", "stage_in_memory"]
