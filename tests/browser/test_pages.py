"""What is true of every page: it keeps its policy, fits every screen in both themes, and can be read by everybody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import BrowserContext, Page

from tests.browser.looking import Visit
from tests.browser.walks import MAIN, PAGES
from tests.browser.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDTHS = (390, 1920, 1280)
THEMES = ("dark", "light")
RULES: dict[str, dict[str, Any]] = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
"""What differs between the themes is the colours alone."""
LOOK = """
    async (rules) => (await axe.run(document, {resultTypes: ["violations"], iframes: false, preload: false, ...rules}))
        .violations.map(found => [found.id, ...found.nodes.slice(0, 3).map(node => node.html.slice(0, 200))])
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def walker(desk: BrowserContext) -> AsyncIterator[Page]:
    """One tab for all pages."""
    page = await desk.new_page()
    yield page
    await page.close()


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_keeps_its_policy_and_fits_every_screen(
    walker: Page, world: World, faultless: None, name: str
) -> None:
    answer = await walker.goto(world.url(world.pages[name]))
    assert answer is not None
    assert "default-src 'none'" in (await answer.header_value("content-security-policy") or "")
    assert await too_wide(walker) == {}
    if name in MAIN:
        assert await hard_to_read(walker) == {}


async def test_the_page_to_sign_in_at_fits_every_screen(visit: Visit) -> None:
    page = await visit("token")
    assert await too_wide(page) == {}
    assert await hard_to_read(page) == {}


WIDEST = """
    () => Math.max(document.documentElement.scrollWidth,
        ...[...document.querySelectorAll("main :has(> .list)")].map(of => innerWidth + of.scrollWidth - of.clientWidth))
"""
"""How wide the screen would have to be for the page, and for each list on it, not to be moved sideways."""


async def too_wide(page: Page) -> dict[tuple[int, str], int]:
    """How wide it is on the screens and in the themes in which one has to move it, or a list on it, sideways."""
    found = {}
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        for theme in THEMES:
            await page.emulate_media(color_scheme=theme)
            if (wide := await page.evaluate(WIDEST)) > width:
                found[width, theme] = wide
    return found


async def hard_to_read(page: Page) -> dict[str, list[list[str]]]:
    """What axe finds, by theme."""
    await page.evaluate(AXE_SCRIPT)
    found = {}
    for theme in THEMES:
        await page.emulate_media(color_scheme=theme)
        if violations := await page.evaluate(LOOK, RULES[theme]):
            found[theme] = violations
    return found
