"""One browser, one database and one server for all of these tests, and a context of its own for each.

They share what ``tests/browser/seed.py`` has put in the database and only look at it; what they change they start
themselves. Chromium is the machine's own. Where there is none the tests skip; where $RUNNERQ_TEST_CHROMIUM is
``required``, as in CI, they fail instead. All of it lives on one event loop, that of the session.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.browser.chrome import FLAGS, found
from tests.browser.looking import PATIENCE, Faults, Visit
from tests.browser.world import World, living_world
from tests.postgres import fresh_database

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where it is."""
    path = found()
    if path is None:
        wanting = pytest.fail if os.environ.get("RUNNERQ_TEST_CHROMIUM") == "required" else pytest.skip
        wanting("there is no Chromium on PATH: apt-get install chromium")
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(chromium: str, postgres_dsn: str) -> AsyncIterator[World]:
    """What there is to look at; ``chromium`` first, as nobody looks without one."""
    with fresh_database(postgres_dsn) as dsn:
        async with living_world(dsn) as world:
            yield world


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, world: World) -> AsyncIterator[Visit]:
    """Opens pages; at the end none of them has done what no page may."""
    faults = Faults()
    async with AsyncExitStack() as contexts:

        async def opened(site: str = "open", /, **options: Any) -> Page:
            context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
            contexts.push_async_callback(context.close)
            context.set_default_timeout(PATIENCE)
            await faults.watch(context)
            page = await context.new_page()
            await page.goto(world.sites[site])
            return page

        yield opened
    assert faults.seen == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(visit: Visit) -> Page:
    """The overview of a console that anybody on this machine may use."""
    return await visit()
