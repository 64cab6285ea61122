from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from runnerq.persistence.postgres import PostgresStorage
from tests.end_to_end.serving import Serving
from tests.end_to_end.shop import LOG_VARIABLE
from tests.end_to_end.watching import line_of
from tests.runtime.stage import Stage

ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that steps append to, in this process and in those it starts."""
    path = tmp_path / "side-effects"
    path.touch()
    monkeypatch.setenv(LOG_VARIABLE, str(path))
    return path


@pytest.fixture
def database(migrated_database: str) -> str:
    """With the library's tables in it: no test here is about how they are made."""
    return migrated_database


@pytest.fixture
async def shop(database: str, log: Path) -> AsyncIterator[Stage]:
    """A client and a queue on a fresh database."""
    stage = Stage(PostgresStorage(database))
    async with stage.base:
        yield stage


class Processes:
    """Starts Python modules as processes, and ends what is left of them."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    async def serving(self, serving: Serving) -> subprocess.Popen[str]:
        """A worker process that can claim."""
        process = self.start("tests.end_to_end.serving", msgspec.json.encode(serving).decode())
        await line_of(process, "ready")
        return process


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    for process in made.started:
        process.kill()
        process.communicate()
