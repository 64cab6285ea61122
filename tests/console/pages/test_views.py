"""Views of /runs: conditions with a name, of which each browser keeps its own."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from html import unescape
from urllib.parse import parse_qsl

import pytest

from runnerq.client.client import Client
from runnerq.console.models.filters import parse_query
from runnerq.console.pages.views import BUILT_IN, MOST
from tests.console.browsing import Browser, console_of
from tests.console.pages.reading import checkout, link, rows_of

NAME = "<b>Ada's & all"


def shown(page: str) -> list[str]:
    """The views that are marked as the one that is looked at."""
    nav = page.split('aria-label="Views"', 1)[1].split("</nav>", 1)[0]
    return [unescape(name) for name in re.findall(r'<a [^>]*aria-current="true">([^<]*)</a>', nav)]


async def test_views_that_are_always_there_are_links(browser: Browser, client: Client) -> None:
    run = await client.start(checkout, 1)
    page = (await browser.get("/runs")).text
    assert (shown(page), "Save this view" in page) == ([], False)
    for view in BUILT_IN:
        opened = await browser.get(link(page.split('aria-label="Views"', 1)[1], view.name))
        assert (opened.status_code, shown(opened.text)) == (200, [view.name])
        assert rows_of(opened.text) == ([run.id] if view.name == "Open" else [])
        assert parse_query(view.params).to_params() == list(view.params)


async def test_the_conditions_of_a_list_are_kept_under_a_name_opened_replaced_and_removed(
    browser: Browser, client: Client
) -> None:
    page = (await browser.get("/runs?queue=eu%2Fmail&meta=a%3Db%26c&status=failed&since=2h")).text
    query = re.search(r'name="query" value="([^"]*)"', page)
    assert query is not None
    saved = await browser.send_form("/runs/views", name=f" {NAME} ", query=unescape(query[1]))
    address = saved.headers["Location"]
    assert sorted(parse_qsl(address.partition("?")[2])) == [
        ("meta", "a=b&c"), ("queue", "eu/mail"), ("since", "2h"), ("status", "failed"),
    ]  # fmt: skip
    opened = (await browser.get(address)).text
    assert (shown(opened), "Save this view" in opened) == ([NAME], False)
    assert "<b>Ada" not in opened

    await browser.send_form("/runs/views", name=NAME, query="queue=other")
    elsewhere = (await browser.get("/runs")).text
    assert elsewhere.count('class="toggle own"') == 1
    assert "/runs?queue=other" in elsewhere
    removed = await browser.send_form("/runs/views", verb="remove", name=NAME, back="/runs?queue=other")
    assert removed.headers["Location"] == "/runs?queue=other"
    assert 'class="toggle own"' not in (await browser.get("/runs")).text
    # The address is what it was.
    assert (await browser.get(address)).status_code == 200


async def test_who_may_only_look_keeps_views_as_well_and_another_browser_does_not_see_them(
    reader: Browser, client: Client
) -> None:
    await reader.send_form("/runs/views", name="mine", query="queue=mail")
    assert 'class="toggle own"' in (await reader.get("/runs")).text
    async with console_of(client) as other:
        assert 'class="toggle own"' not in (await other.get("/runs")).text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": " ", "query": "queue=a"}, "give the view a name"),
        ({"name": "n" * 41, "query": "queue=a"}, "give the view a name"),
        ({"name": "n", "query": "since=zzz"}, "neither so long ago"),
        ({"name": "n", "query": "colour=red"}, "no such parameter"),
        ({"name": "n", "query": "&".join(f"meta={n}={'v' * 900}" for n in range(4))}, "too long"),
    ],
)
async def test_what_is_no_view_is_refused_with_why(browser: Browser, fields: dict[str, str], said: str) -> None:
    refused = await browser.send_form("/runs/views", fields)
    assert (refused.status_code, said in unescape(refused.text).lower()) == (400, True)
    assert 'class="toggle own"' not in (await browser.get("/runs")).text


async def test_so_many_views_are_kept_and_no_more(browser: Browser) -> None:
    for number in range(MOST):
        assert (await browser.send_form("/runs/views", name=f"{number}", query="queue=a")).status_code == 303
    assert (await browser.send_form("/runs/views", name="one more", query="queue=a")).status_code == 400
    assert (await browser.send_form("/runs/views", name="0", query="queue=b")).status_code == 303
    assert (await browser.get("/runs")).text.count('class="toggle own"') == MOST


async def test_a_cookie_that_holds_no_views_is_passed_over(browser: Browser) -> None:
    await browser.send_form("/runs/views", name="mine", query="queue=a")
    [cookie] = [cookie for cookie in browser.cookies.jar if cookie.name.startswith("rq_views_")]
    for value in ("!", "\x7f", "e30", urlsafe_b64encode(b'[["a","b"]]').decode(), urlsafe_b64encode(b"[[").decode()):
        answer = await browser.get("/runs", headers={"Cookie": f"{cookie.name}={value}"})
        assert (answer.status_code, 'class="toggle own"' in answer.text) == (200, False)
