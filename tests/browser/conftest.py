"""One browser, one database and one server for all of these tests.

They share what ``tests/browser/seed.py`` has put in the database and only look at it; what they change they start
themselves. Chromium is the machine's own. Where there is none the tests skip; where $RUNNERQ_TEST_CHROMIUM is
``required``, as in CI, they fail instead. All of it lives on one event loop, that of the session.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.browser.chrome import FLAGS, found
from tests.browser.looking import Faults, Visit
from tests.browser.patience import LONGEST, PATIENCE
from tests.browser.world import World, living_world
from tests.postgres import fresh_database

HERE = Path(__file__).parent

expect.set_options(timeout=1000 * PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of these tests waits for the world as well."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(LONGEST))


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where it is."""
    path = found()
    if path is None:
        wanting = pytest.fail if os.environ.get("RUNNERQ_TEST_CHROMIUM") == "required" else pytest.skip
        wanting("there is no Chromium on PATH: apt-get install chromium-headless-shell")
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=1000 * PATIENCE)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(chromium: str, postgres_dsn: str) -> AsyncIterator[World]:
    """What there is to look at; ``chromium`` first, as nobody looks without one."""
    with fresh_database(postgres_dsn) as dsn:
        async with living_world(dsn) as world:
            yield world


@pytest.fixture(scope="session")
def faults() -> Faults:
    return Faults()


@pytest.fixture
def faultless(faults: Faults) -> Any:
    """At the end of a test no page has done what none may."""
    yield
    seen, faults.seen = faults.seen, []
    assert seen == []


async def _context(browser: Browser, faults: Faults, **options: Any) -> BrowserContext:
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(1000 * PATIENCE)
    await faults.watch(context)
    return context


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, world: World, faults: Faults, faultless: None) -> AsyncIterator[Visit]:
    """Opens pages, each as in a browser that was never here."""
    async with AsyncExitStack() as contexts:

        async def opened(site: str = "open", /, **options: Any) -> Page:
            context = await _context(browser, faults, **options)
            contexts.push_async_callback(context.close)
            page = await context.new_page()
            await page.goto(world.sites[site])
            return page

        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def desk(browser: Browser, faults: Faults) -> AsyncIterator[BrowserContext]:
    """What the tabs of ``page`` have in common: cookies, and the process that draws them."""
    context = await _context(browser, faults)
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(desk: BrowserContext, world: World, faultless: None) -> AsyncIterator[Page]:
    """An empty tab of one browser: what it chooses for itself, as a theme, is there in the next test as well."""
    page = await desk.new_page()
    yield page
    await page.close()
