"""The pages over 100,000 runs on Postgres: each is bounded by what it shows, however many runs there are.

``RUNNERQ_TEST_RUNS=1000000 make test ARGS=tests/console/pages/test_many_runs.py`` does it with a million, in minutes.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from html import unescape

import asyncpg
import pytest

from benchmarks.million import FILL
from runnerq.client.connect import connect
from runnerq.persistence.records import LOOK
from tests.console.browsing import Browser, console_of

RUNS = int(os.environ.get("RUNNERQ_TEST_RUNS", "100000"))
FIRST = 1_000_000 - RUNS
"""The newest of the million that the benchmark makes."""
PAGES = (
    "/",
    "/?window=24h",
    "/runs",
    "/dead-letter",
    "/dead-letter?status=failed",
    "/blocked",
    "/queues",
    "/types",
    "/workers",
)


@pytest.fixture
async def many(module_database: str) -> AsyncIterator[Browser]:
    """A console of a database that is filled once."""
    async with connect(module_database) as client:
        if not (await client.list(None, 1)).items:
            await fill(module_database)
        async with console_of(client) as browser:
            yield browser


async def fill(dsn: str) -> None:
    """The runs, and one older than all of them that has a key of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(FILL, FIRST, FIRST + RUNS - 1)
        await connection.execute(
            "update runnerq.run set key = 'needle' where id = (select id from runnerq.run order by id limit 1)"
        )
        await connection.execute("analyze")
    finally:
        await connection.close()


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_over_very_many_runs_is_no_larger_than_what_it_shows(many: Browser, path: str) -> None:
    answer = await many.get(path)
    assert answer.status_code == 200
    assert len(answer.content) < 250_000
    if path == "/runs":
        assert "10,000+" in answer.text
        assert answer.text.count('<tr id="run-') == 50


async def test_a_filter_that_little_fits_looks_at_so_many_runs_at_a_time_and_says_how_far_it_has_come(
    many: Browser,
) -> None:
    path, looks = "/runs?q=needle", 1
    while "needle" not in re.findall(r'<a class="id"[^>]*>([^<]*)</a>', page := (await many.get(path)).text):
        assert "Searched back to" in page
        [older] = re.findall(r'<a class="button" rel="next" href="([^"]*)">', page)
        path, looks = unescape(older), looks + 1
    assert looks == RUNS // LOOK


async def test_a_filter_that_nothing_fits_comes_to_its_end(many: Browser) -> None:
    path, looks = "/api/v1/runs?queue=nothing", 1
    while (cursor := (answer := (await many.get(path)).json())["next_cursor"]) is not None:
        assert (answer["items"], answer["searched_to"] is not None) == ([], True)
        path, looks = f"/api/v1/runs?queue=nothing&cursor={cursor}", looks + 1
    assert answer["items"] == []
    assert looks <= RUNS // LOOK + 1


async def test_of_very_many_failures_the_newest_are_grouped_and_more_when_asked(
    many: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnerq.console.pages.failures.GLANCE", 100)
    page = (await many.get("/dead-letter")).text
    assert "CardDeclined" in page
    assert grouped(page) == 100
    [further] = re.findall(r'<a href="([^"]*)">Look further back</a>', page)
    assert grouped((await many.get(unescape(further))).text) == RUNS // 100


def grouped(page: str) -> int:
    """How many runs the groups of a page have."""
    return sum(int(count.replace(",", "")) for count in re.findall(r"<strong>([\d,]+)</strong>", page))
