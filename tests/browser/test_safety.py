"""Who is let in, what they may do, and what a page never does: leak, run what is in a payload, ask somebody else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect

from tests.browser import shop
from tests.browser.looking import Visit, confirm
from tests.browser.patience import PATIENCE
from tests.browser.seed import MARKUP, SECRET
from tests.browser.server import TOKEN
from tests.browser.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_one_signs_in_with_a_token_and_out_again(visit: Visit, world: World) -> None:
    page = await visit("token")
    await expect(page).to_have_url(re.compile("/login"))
    await page.get_by_label("Token").fill("a guess")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.goto(world.url(f"/runs/{world.seeded.failed}", "token"))
    await page.get_by_label("Token").fill(TOKEN)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(world.url(f"/runs/{world.seeded.failed}", "token"))
    await page.get_by_role("button", name="Sign out").click()
    await expect(page).to_have_url(re.compile("/login"))
    await page.goto(world.url("/runs", "token"))
    await expect(page).to_have_url(re.compile("/login"))


async def test_read_only_shows_no_action_and_refuses_each(page: Page, world: World) -> None:
    offered = {name: await actions_at(page, world.url(path, "reader")) for name, path in world.pages.items()}
    assert {name: acting for name, acting in offered.items() if acting} == {}
    acting = await actions_at(page, world.url(f"/runs/{world.seeded.waiting}"))
    assert {urlsplit(form).path.rpartition("/")[2] for form in acting} >= {"send", "cancel", "terminate"}
    for form in acting:
        answer = await page.request.post(world.url(form, "reader"), form={"value": "1"}, max_redirects=0)
        assert (form, answer.status) == (form, 403)
        assert "needs the permission" in await answer.text()


async def actions_at(page: Page, address: str) -> list[str]:
    """Where the forms of a page go that change something beside the browser's own choices."""
    forms = Forms()
    forms.feed(await (await page.request.get(address)).text())
    return [form for form in forms.posted if form.rpartition("/")[2] not in {"theme", "zone", "density", "views"}]


class Forms(HTMLParser):
    """The forms of a page that are sent by POST."""

    def __init__(self) -> None:
        super().__init__()
        self.posted: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form" and given.get("method") == "post":
            self.posted.append(given["action"] or "")


async def test_a_form_of_another_site_or_without_its_token_is_refused(page: Page, world: World) -> None:
    run = await world.client.start(shop.ask, "?")
    await run.reached("waiting", timeout=PATIENCE)
    await page.goto(world.url("/settings"))
    address = world.url(f"/runs/{run.id}/cancel")
    sent = await page.request.post(address, form={}, headers={"Origin": world.sites["open"]}, max_redirects=0)
    assert sent.status == 403
    csrf = await page.locator("input[name=csrf]").first.input_value()
    foreign = await page.request.post(
        address, form={"csrf": csrf}, headers={"Origin": "http://evil.example"}, max_redirects=0
    )
    assert foreign.status == 403
    # A page of another site, in the very browser that holds the cookie and with the token that it cannot know.
    await page.goto("about:blank")
    form = f'<form method="post" action="{address}"><input name="csrf" value="{csrf}"><button>Go</button></form>'
    await page.set_content(form)
    async with page.expect_response(address) as answered:
        await page.get_by_role("button").click()
    assert (await answered.value).status == 403
    assert await run.status() == "waiting"


@pytest.mark.parametrize("part", ["", "/history?view=full"])
async def test_markup_in_a_payload_is_text(page: Page, world: World, part: str) -> None:
    await page.goto(world.url(f"/runs/{world.seeded.markup}{part}"))
    await expect(page.locator("main")).to_contain_text("</script>")
    assert "broken" not in await page.title() or MARKUP in await page.title()
    assert await page.locator("main img").count() == 0


async def test_markup_in_lists_titles_and_messages_is_text(page: Page, world: World) -> None:
    for path in ("/runs?workflow=parse", "/dead-letter"):
        await page.goto(world.url(path))
        assert await page.locator("main img").count() == 0
        assert await page.title() != "broken"
    await page.goto(world.url(f"/runs?q={MARKUP}"))
    assert await page.locator("main img").count() == 0
    run = await world.client.options(key=f"{MARKUP} too").start(shop.ask, MARKUP)
    await page.goto(world.url(f"/runs/{run.id}"))
    await confirm(page.get_by_role("button", name="Cancel…"), reason=MARKUP)
    await expect(page.locator("main .toasts")).not_to_be_empty()
    assert await page.locator("img").count() == 0
    await page.goto(world.url("/audit"))
    await expect(page.locator("main")).to_contain_text(MARKUP)
    assert await page.locator("img").count() == 0


async def test_a_secret_is_in_no_answer(page: Page, world: World) -> None:
    runs = [f"/runs/{run}{part}" for run in (world.seeded.secret, world.seeded.sleeping) for part in ("", "/history")]
    runs += [f"{run}?view={view}" for run in runs[1::2] for view in ("full", "json")]
    for run in (world.seeded.secret, world.seeded.sleeping):
        runs += [f"/api/v1/runs/{run}{part}" for part in ("", "/history", "/export", "/signals", "/attempts")]
    runs += ["/runs", "/api/v1/runs", "/api/v1/audit"]
    leaking = []
    for path in runs:
        answer = await page.request.get(world.url(path))
        assert (path, answer.status) == (path, 200)
        leaking += [path] * (SECRET in await answer.text())
    assert leaking == []


async def test_nothing_is_left_in_the_browser(page: Page, world: World) -> None:
    for path in ("/runs?queue=default", f"/runs/{world.seeded.waiting}"):
        await page.goto(world.url(path))
    await page.go_back()
    kept = await page.evaluate("() => [JSON.stringify({...localStorage}), JSON.stringify({...sessionStorage})]")
    assert kept == ["{}", "{}"]
