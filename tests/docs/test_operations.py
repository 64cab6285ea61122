"""What the pages on operations have people type into other programs: into Prometheus, and into psql."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

import runnerq as rq
from runnerq.telemetry.metrics import INSTRUMENTS
from tests.architecture.source import ROOT
from tests.docs.pages import blocks_of

OPERATIONS = ROOT / "docs" / "operations"
ENDS = {"counter": ("_total",), "histogram": ("", "_bucket", "_sum", "_count"), "gauge": ("",)}
ASKED = re.compile(r"\b(runnerq_[a-z_]+)(?:\{(\w+)=)?")


def test_every_metric_that_a_page_asks_for_is_there_with_these_labels() -> None:
    there = {f"runnerq_{each.name}{end}": each.labels for each in INSTRUMENTS for end in ENDS[each.kind]}
    asked = [one for page in OPERATIONS.glob("*.md") for one in ASKED.findall(page.read_text(encoding="utf-8"))]
    assert len(asked) > 10
    assert [name for name, label in asked if name not in there or (label and label not in there[name])] == []


class Roles:
    """The server's administrator, who may be any of the roles of the page; their names are this test's alone."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.mark = uuid4().hex[:8]

    def named(self, statement: str, database: str) -> str:
        named = re.sub(r"\bshop_(owner|app)\b", rf"shop_\1_{self.mark}", statement)
        return re.sub(r"\bdatabase shop\b", f'database "{database}"', named)

    def dsn_of(self, role: str) -> str:
        return f"{self.dsn}{'&' if '?' in self.dsn else '?'}role={role}_{self.mark}"


@pytest.fixture
async def roles(database: str) -> AsyncIterator[Roles]:
    roles = Roles(database)
    yield roles
    connection = await asyncpg.connect(database)
    for role in ("shop_app", "shop_owner"):
        await connection.execute(f"drop owned by {role}_{roles.mark} cascade; drop role {role}_{roles.mark}")
    await connection.close()


async def test_the_roles_of_the_page_are_all_that_a_worker_needs_and_its_other_statements_run(roles: Roles) -> None:
    make, grant, *_ = _statements("index")
    connection = await asyncpg.connect(roles.dsn)
    database = await connection.fetchval("select current_database()")
    await connection.execute(roles.named(make, database))
    async with rq.connect(roles.dsn_of("shop_owner")):
        pass
    with pytest.raises(rq.StorageError):
        await rq.connect(roles.dsn_of("shop_app"), migrate=False).open()
    await connection.execute(f"set role shop_owner_{roles.mark}")
    await connection.execute(roles.named(grant, database))

    async with (
        rq.connect(roles.dsn_of("shop_app"), migrate=False) as client,
        rq.Worker(client, workflows=[noted], retention=rq.Retention(completed=60)),
    ):
        run = await client.options(key="one", limit="all").start(noted, "yes")
        assert await run.result() == "yes"
        await client.schedules.put(rq.Schedule("nightly", noted, ("no",), cron="0 2 * * *"))
        await client.queues.pause("another")
    for statement in [*_statements("disk"), *_statements("backups")]:
        await connection.execute(statement)
    await connection.close()


@rq.workflow
def noted(ctx: rq.Context, text: str) -> rq.Flow[str]:
    yield from ctx.publish(text=text)
    return text


def _statements(page: str) -> list[str]:
    return [block.text for block in blocks_of(OPERATIONS / f"{page}.md") if block.language == "sql"]
