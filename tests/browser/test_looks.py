"""How pages look, and to whom they are of use: themes, zones, narrow screens, keyboards, screen readers, no scripts."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser import shop
from tests.browser.looking import Visit, confirm, send
from tests.browser.patience import PATIENCE
from tests.browser.seed import EXACT
from tests.browser.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

BACKGROUND = "() => getComputedStyle(document.documentElement).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(15, 18, 24)"


async def test_a_theme_is_in_the_page_that_comes_and_stays(visit: Visit, world: World) -> None:
    page = await visit()
    await page.get_by_role("button", name="Dark", exact=True).click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert await page.evaluate(BACKGROUND) == DARK
    # It is in the HTML, before any script or style: nothing flashes.
    answer = await page.request.get(world.url("/runs"))
    assert 'data-theme="dark"' in await answer.text()
    await page.goto(world.url("/runs"))
    assert await page.evaluate(BACKGROUND) == DARK
    await page.get_by_role("button", name="Light", exact=True).click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert await page.evaluate(BACKGROUND) == LIGHT
    await expect(page).to_have_url(world.url("/runs"))
    await page.get_by_role("button", name="System", exact=True).click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "system")
    await page.emulate_media(color_scheme="dark")
    assert await page.evaluate(BACKGROUND) == DARK


async def test_an_integer_beyond_what_a_float_holds_is_shown_exactly(page: Page, world: World) -> None:
    await page.goto(world.url(f"/runs/{world.seeded.exact}"))
    await expect(page.locator("main")).to_contain_text(str(EXACT))
    answer = await page.request.get(world.url(f"/api/v1/runs/{world.seeded.exact}"))
    assert str(EXACT) in await answer.text()


async def test_a_zone_changes_all_times(visit: Visit, world: World) -> None:
    page = await visit()
    await page.goto(world.url(f"/runs/{world.seeded.done}"))
    clock = page.locator("main time", has_text=re.compile(r"\d\d:\d\d"))
    before = await clock.all_text_contents()
    assert before
    await page.goto(world.url("/settings"))
    await page.get_by_label("Time zone").select_option("Asia/Kolkata")
    await page.get_by_role("button", name="Use it").click()
    await expect(page.locator(".zone")).to_have_text("Asia/Kolkata")
    await page.goto(world.url(f"/runs/{world.seeded.done}"))
    after = await clock.all_text_contents()
    assert len(after) == len(before)
    assert [pair for pair in zip(before, after, strict=True) if pair[0] == pair[1]] == []


async def test_a_keyboard_alone_finds_opens_and_cancels_a_run(page: Page, world: World) -> None:
    run = await world.client.options(key="by-keyboard").start(shop.ask, "?")
    await run.reached("waiting", timeout=PATIENCE)
    await page.goto(world.url("/"))
    keys = page.keyboard
    await keys.press("/")
    await keys.type("by-keyboard")
    await keys.press("Enter")
    await expect(page.locator(f"#run-{run.id}")).to_be_visible()
    await keys.press("j")
    await keys.press("Enter")
    await expect(page).to_have_url(world.url(f"/runs/{run.id}"))
    await tab_to(page, "Cancel…")
    await keys.press("Enter")
    await tab_to(page, "Cancel the run")
    await keys.press("Enter")
    assert await run.reached("cancelled", timeout=PATIENCE) == "cancelled"
    await expect(page.locator("main .st.big")).to_have_text("cancelled")


async def tab_to(page: Page, name: str) -> None:
    """Press Tab until the focus is on a button of this name."""
    for _ in range(80):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.localName + document.activeElement.textContent.trim()") == (
            f"button{name}"
        ):
            return
    raise AssertionError(f"80 times Tab led to no button {name!r}")


async def test_without_scripts_one_finds_a_run_sends_to_it_and_cancels_another(visit: Visit, world: World) -> None:
    asked = await world.client.options(key="no-scripts-1").start(shop.ask, "?")
    other = await world.client.options(key="no-scripts-2").start(shop.ask, "?")
    await asked.reached("waiting", timeout=PATIENCE)
    page = await visit(java_script_enabled=False)
    await page.locator("#search").fill("no-scripts-")
    await page.locator("#search").press("Enter")
    assert await page.locator("tr[id^='run-']").count() == 2
    await page.locator(f"#run-{asked.id} a").first.click()
    await send(page, "[1, 2]")
    assert await asked.result(timeout=PATIENCE) == [1, 2]
    await page.goto(world.url(f"/runs/{other.id}"))
    await confirm(page.get_by_role("button", name="Cancel…"))
    assert await other.reached("cancelled", timeout=PATIENCE) == "cancelled"
