"""``python -m benchmarks [WORKLOAD ...] [--reps N]``: measure, print a JSON line a run, and a table each."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.limit import measure_limit
from benchmarks.meter import median
from benchmarks.workloads import WORKLOADS
from runnerq.persistence.embedded import EmbeddedPostgres
from runnerq.runtime.collector import look_less_often

LIMITS = {"W1": ("L 50 a statement, 1 connection", 1, 50), "W6": ("L single rows, 1 connection", 1, 1)}
GOALS = {"W1": 0.2, "W6": 0.5}
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


@asynccontextmanager
async def database(dsn: str) -> AsyncIterator[str]:
    """A fresh database, right after a checkpoint."""
    name = f"bench_{os.getpid()}"
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"create database {name}")
    await connection.execute("checkpoint")
    parts = urlsplit(dsn)
    try:
        yield parts._replace(path=f"/{name}").geturl()
    finally:
        await connection.execute(f"drop database {name} with (force)")
        await connection.close()


async def postmaster_of(dsn: str) -> int | None:
    """The server's process id, where it runs on this machine: the parent of a backend of ours."""
    connection = await asyncpg.connect(dsn)
    try:
        backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
        return backend.ppid() if "postgres" in backend.name() else None
    except psutil.NoSuchProcess:
        return None
    finally:
        await connection.close()


async def run_once(name: str, dsn: str, rep: int) -> dict[str, Any]:
    async with database(dsn) as fresh:
        result = await WORKLOADS[name](fresh, await postmaster_of(fresh))
    line: dict[str, Any] = {"workload": name, "rep": rep, **result}
    if name in LIMITS:
        _, connections, batch = LIMITS[name]
        async with database(dsn) as fresh:
            line["limit_s"] = round(await measure_limit(fresh, connections, batch, LIMIT_SECONDS))
        line["of_limit"] = round(line["steps_s"] / line["limit_s"], 3)
    return line


def show(console: Console, name: str, lines: list[dict[str, Any]]) -> None:
    """The medians of a workload's runs, with the ratio to L where there is one."""
    table = Table(title=f"{name}: {(WORKLOADS[name].__doc__ or '').strip()}")
    fields = [field for field in lines[0] if field not in ("workload", "rep")]
    for field in fields:
        table.add_column(field, justify="right")
    table.add_row(*(f"{median(lines, field):g}" for field in fields))
    console.print(table)
    if name in LIMITS:
        reached, goal = median(lines, "of_limit"), GOALS[name]
        verdict = "reached" if reached >= goal else "MISSED"
        console.print(f"  {LIMITS[name][0]}: {reached:.2f} of it, goal {goal}: {verdict}")


async def main(arguments: argparse.Namespace) -> None:
    console = Console()
    names = arguments.workloads or list(WORKLOADS)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    look_less_often()  # as `runnerq worker` does
    async with server() as dsn:
        for rep in range(arguments.reps):
            for name in names:
                line = await run_once(name, dsn, rep)
                results[name].append(line)
                print(json.dumps(line), flush=True)
    for name in names:
        show(console, name, results[name])


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("workloads", nargs="*", choices=[*WORKLOADS, []], help="all of them, if none is named")
    parser.add_argument("--reps", type=int, default=3, help="runs of each, in alternation (default 3)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(parse(sys.argv[1:])))
