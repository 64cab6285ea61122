"""Overview and lists: what they count, how they are narrowed, how one walks through them."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.async_api import Page, expect

from runnerq.persistence.records import RunFilter, Status
from tests.browser import shop
from tests.browser.looking import ids_of
from tests.browser.patience import PATIENCE
from tests.browser.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_each_tile_of_the_overview_leads_to_the_runs_that_it_counts(page: Page, world: World) -> None:
    await page.goto(world.url("/"))
    tiles = await page.locator("main a.tile").evaluate_all(
        "tiles => tiles.map(tile => [tile.id, tile.href, tile.querySelector('.value').textContent.trim()])"
    )
    counted = {address: value for _, address, value in tiles if urlsplit(address).path == "/runs"}
    statuses = {value for address in counted for name, value in parse_qsl(urlsplit(address).query) if name == "status"}
    assert statuses >= {"running", "waiting", "retrying", "failed", "dead_letter"}
    stats = await (await page.request.get(world.url("/api/v1/stats"))).json()
    told = {f"tile-{tile['name']}": f"{tile['count']['n']:,}" for tile in stats["tiles"]}
    assert told.items() <= {name: value for name, _, value in tiles}.items()
    for address, value in counted.items():
        if value[0].isdigit() and value[-1] != "s":
            listed = await (await page.request.get(address)).text()
            assert re.search(rf'id="count">[^<]*\b{re.escape(value)}\b', listed), address


async def test_filters_are_the_url_and_go_back_and_forward_with_it(page: Page, world: World) -> None:
    await page.goto(world.url("/runs"))
    await page.get_by_label("Workflow or activity").fill("pay_supplier")
    await page.get_by_role("button", name="Filter").first.click()
    await expect(page).to_have_url(re.compile(r"workflow=pay_supplier"))
    assert await ids_of(page) == [world.seeded.failed]
    await page.get_by_label("Workflow or activity").fill("checkout")
    await page.get_by_role("button", name="Filter").first.click()
    await expect(page).to_have_url(re.compile(r"workflow=checkout"))
    both = await ids_of(page)
    assert both == [world.seeded.waiting, world.seeded.done]
    await page.go_back()
    assert await ids_of(page) == [world.seeded.failed]
    await page.go_forward()
    await page.reload()
    assert await ids_of(page) == both


@pytest.mark.parametrize("by", ["id", "key", "metadata"])
async def test_a_run_is_found_by_the_beginning_of_its_id_or_key_and_by_metadata(
    page: Page, world: World, by: str
) -> None:
    if by == "metadata":
        await page.goto(world.url("/runs?meta=team%3Dfinance"))
    else:
        await page.goto(world.url("/settings"))
        await page.locator("#search").fill({"id": world.seeded.failed[:-3], "key": "payout-"}[by])
        await page.locator("#search").press("Enter")
    await expect(page.locator(f"#run-{world.seeded.failed}")).to_be_visible()
    assert await ids_of(page) == [world.seeded.failed]


async def test_pages_show_each_run_once_both_ways_while_others_are_started(page: Page, world: World) -> None:
    where = RunFilter(workflow="greet", status=(Status.COMPLETED,))
    everything = [run.id for run in (await world.client.list(where, limit=1000)).items]
    await page.goto(world.url("/runs?workflow=greet&status=completed&limit=20"))
    first = await ids_of(page)
    await (await world.client.start(shop.greet, "somebody else")).result(timeout=PATIENCE)
    await page.get_by_role("link", name="Older").click()
    await expect(page.locator(f"#run-{first[-1]}")).to_have_count(0)
    second = await ids_of(page)
    await page.get_by_role("link", name="Older").click()
    await expect(page.locator(f"#run-{second[-1]}")).to_have_count(0)
    third = await ids_of(page)
    assert first + second + third == everything[:60]
    await page.get_by_role("link", name="Newer").click()
    await expect(page.locator(f"#run-{second[0]}")).to_be_visible()
    assert await ids_of(page) == second
