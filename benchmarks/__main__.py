"""``python -m benchmarks [WORKLOAD ...] [--peer NAME ...] [--reps N]``: a JSON line a run, and a table each."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

from benchmarks.databases import Place, place_of
from benchmarks.limit import measure_limit
from benchmarks.peers.environment import PEERS, measured_peer, python_of
from benchmarks.tables import LIMITS, show
from benchmarks.workloads import WORKLOADS
from runnerq.persistence.embedded import EmbeddedPostgres
from runnerq.runtime.collector import look_less_often

LIMIT_SECONDS = 3.0


@asynccontextmanager
async def server() -> AsyncIterator[str]:
    """$RUNNERQ_BENCH_DSN, or an embedded server of its own, with durable settings."""
    given = os.environ.get("RUNNERQ_BENCH_DSN")
    if given:
        yield given
        return
    folder = Path("/var/lib/runnerq") if os.geteuid() == 0 else Path(tempfile.gettempdir())
    data = folder / f"bench-{os.getpid()}"
    postgres = EmbeddedPostgres(data)
    dsn = await postgres.open()
    try:
        yield dsn
    finally:
        await postgres.close()
        shutil.rmtree(data)


async def run_once(name: str, place: Place) -> dict[str, Any]:
    result = await WORKLOADS[name](place)
    if name in LIMITS:
        limit = LIMITS[name]
        async with place.fresh() as dsn:
            result["limit_s"] = round(await measure_limit(dsn, limit.connections, limit.batch, LIMIT_SECONDS))
        result["of_limit"] = round(result["steps_s"] / result["limit_s"], 3)
    return result


async def main(arguments: argparse.Namespace) -> None:
    console = Console()
    names = arguments.workloads or list(WORKLOADS)
    peers = {name: await python_of(PEERS[name]) for name in arguments.peer}
    results: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in names}
    look_less_often()  # as `runnerq worker` does
    async with server() as dsn:
        place = await place_of(dsn)
        for rep in range(arguments.reps):
            for name in names:
                for system in ("runnerq", *(peer for peer in peers if name in PEERS[peer].workloads)):
                    if system == "runnerq":
                        result = await run_once(name, place)
                    else:
                        result = await measured_peer(PEERS[system], peers[system], name, dsn)
                    print(json.dumps({"workload": name, "system": system, "rep": rep, **result}), flush=True)
                    results[name].setdefault(system, []).append(result)
    for name, systems in results.items():
        show(console, name, systems)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("workloads", nargs="*", choices=[*WORKLOADS, []], help="all of them, if none is named")
    parser.add_argument("--reps", type=int, default=3, help="runs of each, in alternation (default 3)")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        choices=[*PEERS],
        help="measure this one, too, in alternation, where it has the workload; may be given again",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    uvloop.run(main(parse(sys.argv[1:])))
