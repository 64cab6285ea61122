"""The page of one run: what it shows, and what one does from it."""

from __future__ import annotations

import re
from base64 import b64encode

import pytest
from playwright.async_api import Page, expect

from tests.browser import shop
from tests.browser.looking import Visit, confirm, send
from tests.browser.patience import PATIENCE
from tests.browser.seed import BIG, CHILDREN, LONG
from tests.browser.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

STATUS = "main .st.big"


async def test_a_waiting_run_says_for_what_since_when_and_until_when(visit: Visit, world: World) -> None:
    page = await visit()
    await page.clock.install()
    await page.goto(world.url(f"/runs/{world.seeded.waiting}"))
    await expect(page.locator(STATUS)).to_have_text("waiting")
    panel = page.locator(".waits")
    await expect(panel).to_contain_text("approval")
    await expect(panel).to_contain_text(re.compile(r"shop\.py:\d+"))
    countdown = page.locator("#countdown")
    before = await countdown.inner_text()
    await page.clock.fast_forward("30:00:00")
    await expect(countdown).not_to_have_text(before)
    await expect(page.locator("main")).to_contain_text("Grace Hopper")


async def test_a_failed_run_shows_its_error_with_what_caused_it(page: Page, world: World) -> None:
    await page.goto(world.url(f"/runs/{world.seeded.failed}"))
    await expect(page.locator(STATUS)).to_have_text("failed")
    error = page.locator("main .error")
    await expect(error.first).to_contain_text("payout of 1299.00 EUR")
    await expect(error.first).to_contain_text("PaymentProviderError")
    await expect(error.first).to_contain_text("pay_out")


async def test_a_signal_that_is_sent_from_the_page_completes_the_run_on_it(page: Page, world: World) -> None:
    run = await world.client.start(shop.ask, "shall we?")
    await run.reached("waiting", timeout=PATIENCE)
    await page.goto(world.url(f"/runs/{run.id}"))
    await send(page, '{"yes": true}')
    await expect(page.locator(STATUS)).to_have_text("completed")
    await expect(page.locator("main")).to_contain_text('"yes": true')
    assert await run.result(timeout=PATIENCE) == {"yes": True}


async def test_a_signal_that_is_no_json_is_refused_beside_its_field_and_kept(page: Page, world: World) -> None:
    run = await world.client.start(shop.ask, "shall we?")
    await run.reached("waiting", timeout=PATIENCE)
    await page.goto(world.url(f"/runs/{run.id}"))
    await send(page, '{"yes": tru')
    await expect(page.locator(".wrong")).to_contain_text("JSON")
    await expect(page.locator("#send textarea")).to_have_value('{"yes": tru')
    assert await run.status() == "waiting"


async def test_a_cancel_asks_first_and_escape_keeps_the_run(page: Page, world: World) -> None:
    run = await world.client.start(shop.ask, "shall we?")
    await run.reached("waiting", timeout=PATIENCE)
    await page.goto(world.url(f"/runs/{run.id}"))
    opener = page.get_by_role("button", name="Cancel…")
    await opener.click()
    await expect(page.locator("#do-cancel")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("#do-cancel")).not_to_be_visible()
    assert await run.status() == "waiting"
    await confirm(opener, reason="no longer needed")
    await expect(page.locator(STATUS)).to_have_text("cancelled")
    await expect(page.locator("main")).to_contain_text("no longer needed")


async def test_a_fork_from_an_entry_is_a_new_run_that_leads_back(page: Page, world: World) -> None:
    run = await world.client.start(shop.count_up, 4)
    await run.result(timeout=PATIENCE)
    await page.goto(world.url(f"/runs/{run.id}/history"))
    await page.locator(".entry", has=page.locator("#ev-3")).locator("summary").click()
    await page.locator("#ev-3").get_by_role("link", name="Fork from here…").click()
    await page.locator("main form button.primary").click()
    await expect(page).to_have_url(re.compile(rf"/runs/(?!{run.id})[0-9a-f-]{{36}}$"))
    await expect(page.locator(STATUS)).to_have_text("completed")
    await page.locator(f".crumbs a[href$='{run.id}']").click()
    await expect(page).to_have_url(world.url(f"/runs/{run.id}"))


async def test_a_retry_goes_on_at_once(page: Page, world: World) -> None:
    run = await world.client.start(shop.fail_with, "once more")
    await run.reached("failed", timeout=PATIENCE)
    await page.goto(world.url(f"/runs/{run.id}"))
    began = (await run.info()).ended_at
    await confirm(page.get_by_role("button", name="Retry…"), reason="the printer has paper")
    await expect(page.locator("main")).to_contain_text("the printer has paper")
    await expect(page.locator(STATUS)).to_have_text("failed")
    again = await run.reached("failed", timeout=PATIENCE)
    assert again == "failed"
    assert (await run.info()).ended_at != began


async def test_a_delayed_run_is_run_now(page: Page, world: World) -> None:
    run = await world.client.options(delay=3600).start(shop.greet, "early bird")
    await page.goto(world.url(f"/runs/{run.id}"))
    await page.get_by_role("button", name="Run now").first.click()
    await expect(page.locator(STATUS)).to_have_text("completed")


async def test_history_is_shown_in_three_ways_and_narrowed(page: Page, world: World) -> None:
    address = world.url(f"/runs/{world.seeded.wide}/history")
    await page.goto(f"{address}?state=failed")
    [failed] = await page.locator("main .entry").all_inner_texts()
    assert "product-0042.jpg is not an image" in failed
    await page.goto(world.url(f"/runs/{world.seeded.done}/history"))
    for view, shown in (("compact", "charge_card"), ("full", "answered"), ("json", '"entries"')):
        await page.get_by_role("link", name=view, exact=True).click()
        await expect(page.locator("main")).to_contain_text(shown)


async def test_a_deep_link_opens_its_entry_and_scrolls_to_it(page: Page, world: World) -> None:
    await page.goto(world.url(f"/runs/{world.seeded.wide}/history#ev-90"))
    entry = page.locator(".entry", has=page.locator("#ev-90"))
    await expect(entry.locator("details")).to_have_attribute("open", "")
    await expect(page.locator("#ev-90")).to_be_in_viewport()


async def test_a_history_of_20000_entries_comes_in_pages(page: Page, world: World) -> None:
    await page.goto(world.url(f"/runs/{world.seeded.long}/history"))
    assert 100 < await page.locator("main [id^='ev-']").count() < 3000
    await expect(page.locator("main")).to_contain_text(f"{LONG:,}")
    assert await page.evaluate("document.querySelectorAll('*').length") < 30_000
    assert len(await page.content()) < 2_000_000


async def test_the_gantt_has_a_bar_a_command_in_their_order_and_folds_what_is_idle(page: Page, world: World) -> None:
    await page.goto(world.url(f"/runs/{world.seeded.done}"))
    gantt = page.locator("svg.gantt-chart")
    bars = gantt.locator("a")
    history = await world.client.history(world.seeded.done)
    commands = [entry for entry in history if entry.kind not in {"started", "publish"}]
    assert await bars.count() >= len(commands)
    lefts = [box["x"] for n in range(await bars.count()) if (box := await bars.nth(n).bounding_box())]
    assert lefts == sorted(lefts)
    await expect(gantt).to_contain_text(re.compile(r"3 d"))
    await bars.first.click()
    await expect(page).to_have_url(re.compile(r"/history.*#ev-"))


async def test_the_gantt_is_the_same_drawing_in_the_colours_of_either_theme(page: Page, world: World) -> None:
    await page.goto(world.url(f"/runs/{world.seeded.done}"))
    gantt = page.locator("svg.gantt-chart")
    blank = await page.context.new_page()
    drawn, painted = set(), {}
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        drawn.add(await gantt.evaluate("svg => svg.outerHTML"))
        picture = await gantt.screenshot(animations="disabled")
        painted[theme] = set(await blank.evaluate(COLOURS, b64encode(picture).decode()))
    await blank.close()
    assert len(drawn) == 1
    # Both have their own ground, and what is drawn on it is in no colour of the other.
    assert ("255,255,255" in painted["light"], "15,18,24" in painted["dark"]) == (True, True)
    assert min(map(len, painted.values())) > 10
    assert len(painted["light"] & painted["dark"]) < min(map(len, painted.values())) / 2


COLOURS = """
    async png => {
        const image = new Image();
        image.src = `data:image/png;base64,${png}`;
        await image.decode();
        const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
        canvas.drawImage(image, 0, 0);
        const {data} = canvas.getImageData(0, 0, image.width, image.height);
        const seen = new Set();
        for (let at = 0; at < data.length; at += 4) seen.add(data.slice(at, at + 3).join());
        return [...seen];
    }
"""
"""The colours of a picture, as ``r,g,b``."""


async def test_a_tree_shows_what_was_started_below_level_by_level(page: Page, world: World) -> None:
    await page.goto(world.url(f"/runs/{world.seeded.done}/tree"))
    for name in ("checkout", "ship", "book_courier"):
        await expect(page.locator("main")).to_contain_text(name)
    await page.goto(world.url(f"/runs/{world.seeded.wide}/tree"))
    nodes = page.locator("tr[id^='node-']")
    before = await nodes.count()
    assert before <= CHILDREN
    # The rest comes into its place when it is asked for.
    await page.locator(f"#more-{world.seeded.wide} a").click()
    await expect(nodes.nth(before)).to_be_visible()
    await expect(page).to_have_url(world.url(f"/runs/{world.seeded.wide}/tree"))


async def test_a_large_payload_is_cut_on_the_page_and_whole_where_it_leads(page: Page, world: World) -> None:
    await page.goto(world.url(f"/runs/{world.seeded.big}"))
    assert len(await page.content()) < 400_000
    async with page.expect_download() as given:
        await page.locator(".payload", has=page.locator("#result")).get_by_role("link", name="Download").click()
    whole = (await (await given.value).path()).read_bytes()
    assert len(whole) > BIG
