"""What a page shows moves by itself, misses nothing, and leaves in place what somebody is about to use."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import BrowserContext, Page, Request, Route, expect

from tests.browser import shop
from tests.browser.looking import ids_of
from tests.browser.patience import PATIENCE
from tests.browser.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def asking(world: World, *questions: str, queue: str = "default") -> list[str]:
    """Ids of runs that wait for ``go-on``."""
    handles = [await world.client.options(queue=queue).start(shop.ask, question) for question in questions]
    if queue == "default":
        for handle in handles:
            await handle.reached("waiting", timeout=PATIENCE)
    return [handle.id for handle in handles]


async def live(page: Page) -> None:
    """Wait until the page's stream is there."""
    await expect(page.locator("#live")).to_have_attribute("data-state", "live")


async def test_a_status_changes_in_place_and_what_is_new_waits_behind_a_pill(page: Page, world: World) -> None:
    first, second = await asking(world, "first", "second")
    await page.goto(world.url("/runs?workflow=ask&queue=default&sort=newest"))
    await live(page)
    await page.locator(f"#run-{first} input[type=checkbox]").check()
    link = page.locator(f"#run-{second} a").first
    await link.focus()
    order = await ids_of(page)
    await world.client.send(second, shop.GO_ON, 2)
    await expect(page.locator(f"#run-{second} .st")).to_have_text("completed")
    [third] = await asking(world, "third")
    await expect(page.locator("#newer")).to_contain_text("1 new")
    assert await ids_of(page) == order
    await expect(page.locator(f"#run-{first} input[type=checkbox]")).to_be_checked()
    await expect(link).to_be_focused()
    await page.locator("#newer").click()
    await expect(page.locator(f"#run-{third}")).to_be_visible()


async def test_open_details_stay_open_when_a_page_is_fetched_again(page: Page, world: World) -> None:
    [run] = await asking(world, "details")
    await page.goto(world.url(f"/runs/{run}/history"))
    await live(page)
    entry = page.locator("main details").first
    await entry.locator("summary").click()
    await expect(entry).to_have_attribute("open", "")
    await world.client.send(run, shop.GO_ON, 1)
    await expect(page.locator("main .st.big")).to_have_text("completed")
    await expect(entry).to_have_attribute("open", "")


async def test_what_is_typed_into_a_form_stays_while_others_act(page: Page, world: World) -> None:
    [run] = await asking(world, "typing")
    await page.goto(world.url(f"/runs/{run}"))
    await live(page)
    await page.locator("#send-value").fill('"half an ans')
    await world.client.send(run, shop.GO_ON, 1)
    await expect(page.locator("#live")).to_have_text("Held: you type")
    await expect(page.locator("#send-value")).to_have_value('"half an ans')
    await page.locator("#send-value").fill("")
    await expect(page.locator("main .st.big")).to_have_text("completed")


async def test_what_changes_before_the_stream_is_there_is_shown_once_it_is(page: Page, world: World) -> None:
    [run] = await asking(world, "gap")
    let_through = asyncio.Event()

    async def held(route: Route) -> None:
        await let_through.wait()
        await route.continue_()

    await page.route("**/stream*", held)
    await page.goto(world.url("/runs?workflow=ask&queue=default"))
    await expect(page.locator(f"#run-{run} .st")).to_have_text("waiting")
    await world.client.send(run, shop.GO_ON, 1)
    await world.client.handle(run).result(timeout=PATIENCE)
    let_through.set()
    await expect(page.locator(f"#run-{run} .st")).to_have_text("completed")


TABS = 8
"""Two more than a browser opens connections to one server."""


class Streams:
    """The streams that the pages of a context hold open."""

    def __init__(self, context: BrowserContext) -> None:
        self.open: set[Request] = set()
        context.on("request", self._begun)
        context.on("requestfinished", self._over)
        context.on("requestfailed", self._over)

    def _begun(self, request: Request) -> None:
        if "/stream" in request.url:
            self.open.add(request)

    def _over(self, request: Request) -> None:
        self.open.discard(request)


async def see(page: Page, how: str) -> None:
    """Have a page believe that its tab is in front, or that it is not; without a screen a browser shows every tab."""
    await page.evaluate(
        """how => {
            Object.defineProperty(document, "hidden", {configurable: true, get: () => how === "hidden"});
            Object.defineProperty(document, "visibilityState", {configurable: true, get: () => how});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        how,
    )


async def test_of_many_tabs_only_the_one_in_front_holds_a_stream(page: Page, world: World) -> None:
    [run] = await asking(world, "tabs")
    streams = Streams(page.context)
    address = world.url("/runs?workflow=ask&queue=default")
    tabs = [page]
    await page.goto(address)
    await live(page)
    for _ in range(TABS - 1):
        await see(tabs[-1], "hidden")
        tab = await page.context.new_page()
        await tab.goto(address)
        await live(tab)
        tabs.append(tab)
    assert len(streams.open) == 1
    await world.client.send(run, shop.GO_ON, 1)
    await expect(tabs[-1].locator(f"#run-{run} .st")).to_have_text("completed")
    await expect(tabs[0].locator(f"#run-{run} .st")).to_have_text("waiting")


async def test_a_tab_that_was_behind_shows_what_it_missed_when_it_comes_to_the_front(page: Page, world: World) -> None:
    [run] = await asking(world, "behind")
    await page.goto(world.url("/runs?workflow=ask&queue=default"))
    await live(page)
    await see(page, "hidden")
    await world.client.send(run, shop.GO_ON, 1)
    await world.client.handle(run).result(timeout=PATIENCE)
    await expect(page.locator(f"#run-{run} .st")).to_have_text("waiting")
    await see(page, "visible")
    await expect(page.locator(f"#run-{run} .st")).to_have_text("completed")


async def test_paused_nothing_moves_until_it_goes_on(page: Page, world: World) -> None:
    [run] = await asking(world, "paused")
    await page.goto(world.url("/runs?workflow=ask&queue=default"))
    await live(page)
    await page.locator("#live").click()
    await expect(page.locator("#live")).to_have_text("Paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await world.client.send(run, shop.GO_ON, 1)
    await world.client.handle(run).result(timeout=PATIENCE)
    await expect(page.locator(f"#run-{run} .st")).to_have_text("waiting")
    assert asked == []
    await page.locator("#live").click()
    await expect(page.locator(f"#run-{run} .st")).to_have_text("completed")


async def test_a_page_that_is_told_nothing_new_says_so_though_its_stream_goes_on(page: Page, world: World) -> None:
    """As while the database is away: the server answers, and knows of nothing."""

    async def away(route: Route) -> None:
        if route.request.headers.get("hx-request"):
            await route.fulfill(status=503, headers={"HX-Reswap": "none"}, body="")
        else:
            await route.continue_()

    [run] = await asking(world, "away")
    await page.goto(world.url("/runs?workflow=ask&queue=default"))
    await live(page)
    await page.route("**/runs*", away)
    await expect(page.locator("#live")).to_have_text("Offline")
    await expect(page.locator(f"#run-{run} .st")).to_have_text("waiting")
    await page.unroute("**/runs*", away)
    await live(page)
