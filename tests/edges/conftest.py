from __future__ import annotations

import pytest

from tests.runtime.conftest import (
    made_plain_stage,
    made_stage,
    memory,
    module_stage,
    plain_stage,
    pytest_itemcollected,
    shared_database,
    stage,
    stage_in_memory,
)
from tests.runtime.stage import Stage

__all__ = [
    "made_plain_stage", "made_stage", "memory", "module_stage", "plain_stage", "pytest_itemcollected",
    "shared_database", "stage", "stage_in_memory",
]  # fmt: skip


@pytest.fixture
def on_postgres(module_stage: Stage) -> Stage:
    """Where a behaviour is shown that only a database can have."""
    return module_stage.beside()
