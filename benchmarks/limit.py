"""L, the raw limit: how many rows like the journal's this server takes through asyncpg, with nothing of ours."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import Any

import asyncpg

DDL = """create table journal (
    wf uuid not null, seq int not null, name text not null, payload json, primary key (wf, seq))"""
PAYLOAD = json.dumps({"v": 1, "data": "x" * 80})
ONE = "insert into journal values ($1, $2, $3, $4)"
MANY = "insert into journal select * from unnest($1::uuid[], $2::int[], $3::text[], $4::json[])"


async def measure_limit(dsn: str, connections: int, batch: int, seconds: float) -> float:
    """Rows a second with so many connections, so many rows a statement, each statement a commit."""
    opened = [await asyncpg.connect(dsn) for _ in range(connections)]
    try:
        await opened[0].execute("drop table if exists journal")
        await opened[0].execute(DDL)
        await opened[0].execute("checkpoint")
        began = time.perf_counter()
        counts = await asyncio.gather(*(_insert(each, batch, began + seconds) for each in opened))
        return sum(counts) / (time.perf_counter() - began)
    finally:
        await opened[0].execute("drop table if exists journal")
        for each in opened:
            await each.close()


async def _insert(connection: Any, batch: int, until: float) -> int:
    statement = await connection.prepare(ONE if batch == 1 else MANY)
    count = 0
    while time.perf_counter() < until:
        if batch == 1:
            await statement.fetch(uuid.uuid4(), 1, "step", PAYLOAD)
        else:
            ids = [uuid.uuid4() for _ in range(batch)]
            await statement.fetch(ids, [1] * batch, ["step"] * batch, [PAYLOAD] * batch)
        count += batch
    return count
