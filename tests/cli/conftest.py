"""The command line, called in this process, and a worker, started as one starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from runnerq.cli import main
from tests.cli.counter import Counter

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dsn(module_database: str) -> str:
    """A database of this module's own, with the schema."""
    done = CliRunner().invoke(main, ["migrate", "--dsn", module_database])
    assert done.exit_code == 0, done.output
    return module_database


@pytest.fixture
def runnerq(dsn: str) -> Callable[..., Result]:
    """Call a command on that database: ``runnerq("list", "-o", "json")``."""

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments, env={"RUNNERQ_DSN": dsn}, catch_exceptions=False)

    return call


@pytest.fixture
def answer(runnerq: Callable[..., Result]) -> Callable[..., Any]:
    """Call a command that must work, and read the JSON that it prints."""

    def call(*arguments: str) -> Any:
        done = runnerq(*arguments)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    return call


@pytest.fixture(scope="module")
def worker(dsn: str) -> Iterator[subprocess.Popen[str]]:
    """``runnerq worker tests.cli.flows``, a process; it serves when this is entered."""
    process = subprocess.Popen(
        [sys.executable, "-m", "runnerq", "worker", "tests.cli.flows"],
        env={**os.environ, "RUNNERQ_DSN": dsn},
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "serves" in process.stderr.readline()
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture
def counter() -> Counter:
    """The command line on an empty storage in memory."""
    return Counter()
