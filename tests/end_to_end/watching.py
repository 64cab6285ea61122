"""How a test waits for what other processes do, and reads what their steps left outside the database."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from tests.postgres import execute

PATIENCE = 60.0
"""Seconds after which what a test waits for is taken to be lost."""


async def line_of(process: subprocess.Popen[str], word: str) -> str:
    """The next line that this process prints and that begins so."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        while not (line := await asyncio.to_thread(process.stdout.readline)).startswith(word):
            assert line, f"the process ended without saying {word!r}"
    return line.strip()


async def ended(process: subprocess.Popen[str]) -> int:
    """The exit code of this process, once it has ended."""
    return await asyncio.wait_for(asyncio.to_thread(process.wait), PATIENCE)


async def until(log: Path, lines: int) -> None:
    """Steps have had so many side effects."""
    async with asyncio.timeout(PATIENCE):
        while len(log.read_text().splitlines()) < lines:
            await asyncio.sleep(0.01)


async def a_lease_goes_by(database: str) -> None:
    """For each worker, since its last beat: without waiting for it, and for none that beats on."""
    await execute(database, "update runnerq.worker set beat_at = beat_at - lease * interval '1 s'")


def ran(log: Path) -> list[str]:
    """The names of the steps that had their side effect, in order."""
    return [line.partition(" ")[0].rpartition(":")[2] for line in log.read_text().splitlines()]


def keys(log: Path) -> list[str]:
    """The idempotency keys of the steps that had their side effect, in order."""
    return [line.partition(" ")[0] for line in log.read_text().splitlines()]


def attempts(log: Path) -> set[int]:
    """The attempts in which steps had their side effect."""
    return {int(line.partition(" ")[2]) for line in log.read_text().splitlines()}
