"""The venvs that peers are measured in: made on demand, one a peer and Python, under a cache folder."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import msgspec

TOOLS = ("asyncpg", "msgspec", "psutil", "uvloop")
"""What our side of the measurement needs in each of them."""


class Peer(msgspec.Struct, frozen=True):
    """Another system: its module here, what pip is to install, and the workloads that it has."""

    module: str
    packages: tuple[str, ...]
    workloads: tuple[str, ...]


PEERS = {
    "absurd": Peer("benchmarks.peers.absurd", ("absurd-sdk==0.5.1", "absurdctl==0.5.1"), ("W1", "W2", "W3", "W4")),
    "dbos": Peer("benchmarks.peers.dbos", ("dbos==3.4.0",), ("W1", "W2", "W3", "W4")),
    "oban": Peer("benchmarks.peers.oban", ("oban==0.7.0",), ("W2", "W3")),
    "pgqueuer": Peer("benchmarks.peers.pgqueuer", ("pgqueuer[asyncpg]==1.6.0",), ("W2", "W3")),
    "procrastinate": Peer("benchmarks.peers.procrastinate", ("procrastinate==3.10.0",), ("W2", "W3")),
}


def _home() -> Path:
    given = os.environ.get("RUNNERQ_BENCH_CACHE")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "runnerq-bench"


async def python_of(peer: Peer) -> Path:
    """The Python of the peer's venv, which has everything when this returns."""
    name = peer.module.rpartition(".")[2]
    folder = _home() / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    python, complete = folder / "bin" / "python", folder / "complete"
    wanted = "\n".join((*peer.packages, *TOOLS))
    if not complete.exists() or complete.read_text() != wanted:
        print(f"installing {name} into {folder}", file=sys.stderr)
        await _run(sys.executable, "-m", "venv", "--clear", str(folder))
        await _run(str(python), "-m", "pip", "install", "--quiet", *peer.packages, *TOOLS)
        complete.write_text(wanted)
    return python


async def measured_peer(peer: Peer, python: Path, workload: str, dsn: str) -> dict[str, Any]:
    """What the peer's own process measures of itself, on the same server as we."""
    out = await _run(str(python), "-m", peer.module, "measure", workload, dsn)
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


async def _run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)!r} ended with {process.returncode}")
    return out.decode()
