"""Which source files were saved: the folders are looked through at intervals.

Rules
- A file counts by its name, its size and the time of its last change. Where a save is several writes, or several files,
  it counts once they have settled.
- What no developer edits is not looked at: hidden folders, caches, virtual environments, installed packages.
- Looking costs a twentieth of one core at most, however many files there are; too many are refused.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from runnerq.cli.commands import Refused

Stamps: TypeAlias = Mapping[str, tuple[int, int]]

PAUSE = 0.3
SETTLED = 0.05
SHARE = 20
MOST_FILES = 20_000
_NOT_EDITED = frozenset({"__pycache__", "node_modules", "site-packages"})


class Sources:
    """The Python files below some folders."""

    def __init__(self, folders: Sequence[Path], *, pause: float = PAUSE) -> None:
        self._folders = tuple(folders)
        self._pause = pause
        self._stamps: Stamps = {}

    async def begin(self) -> None:
        """What is there now is not new. Raises Refused, where it is too much."""
        self._stamps, _ = await asyncio.to_thread(self._look)

    async def saved(self) -> list[str]:
        """The files that have changed, come or gone since the last answer, once some have."""
        while True:
            now, took = await asyncio.to_thread(self._look)
            if now != self._stamps:
                now = await self._settled(now)
                before, self._stamps = self._stamps, now
                return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
            await asyncio.sleep(max(self._pause, took * SHARE))

    async def _settled(self, now: Stamps) -> Stamps:
        while True:
            await asyncio.sleep(SETTLED)
            later, _ = await asyncio.to_thread(self._look)
            if later == now:
                return now
            now = later

    def _look(self) -> tuple[Stamps, float]:
        began = time.monotonic()
        stamps: dict[str, tuple[int, int]] = {}
        for folder in self._folders:
            for entry in _python_files(folder):
                try:
                    seen = entry.stat()
                except OSError:
                    continue  # gone meanwhile, as when a save puts another file in its place; or a link to nowhere
                stamps[entry.path] = (seen.st_mtime_ns, seen.st_size)
                if len(stamps) > MOST_FILES:
                    raise Refused(
                        f"there are more than {MOST_FILES:,} Python files below {folder}: name what you edit with "
                        "--watch FOLDER",
                        2,
                    )
        return stamps, time.monotonic() - began


def _python_files(folder: Path) -> Iterator[os.DirEntry[str]]:
    left = [str(folder)]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                listed = list(entries)
        except OSError:
            continue  # gone meanwhile, or not ours to read: then it is not ours to edit either
        if any(entry.name == "pyvenv.cfg" for entry in listed):
            continue
        for entry in listed:
            if entry.name.endswith(".py"):
                yield entry
            elif entry.is_dir(follow_symlinks=False) and not _is_not_edited(entry.name):
                left.append(entry.path)


def _is_not_edited(name: str) -> bool:
    return name.startswith(".") or name in _NOT_EDITED
