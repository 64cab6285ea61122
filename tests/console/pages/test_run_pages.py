"""A run's pages, as a browser without scripts has them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.client.schedule import Schedule
from runnerq.console.models.redaction import Spot
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from tests.console.browsing import Browser, console_of
from tests.console.shop import ACTIVITIES, LARGE, SECRET, WORKFLOWS, checkout, fanned, flaky, mistaken, refused

TABS = ("", "/history", "/history?view=full", "/history?view=json", "/tree", "/signals", "/attempts")


def text_of(page: str) -> str:
    """What is to be read, without markup."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def links_to(page: str, words: str) -> list[str]:
    """Where the links lead that have these words."""
    found = re.findall(r'<a [^>]*href="([^"]+)"[^>]*>(.*?)</a>', page, re.DOTALL)
    return [unescape(to) for to, inner in found if text_of(inner) == words]


@pytest.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    async with Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES, build="tests") as worker:
        yield worker


@pytest.fixture
async def waiting(client: Client, worker: Worker) -> Handle[dict[str, object]]:
    """A checkout that waits for its approval."""
    run = await client.options(key="order-7", metadata={"tenant": "acme"}).start(checkout, {"item": "tea"})
    await run.reached(Status.WAITING, timeout=10)
    return run


async def test_every_page_of_a_run_answers_whatever_it_is_doing(
    client: Client, worker: Worker, browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    failed = await client.start(refused, 1)
    blocked = await client.start(mistaken)
    retrying = await client.start(flaky, 1)
    unserved = await client.start("nobody", {"a": 1})
    await failed.reached(Status.DEAD_LETTER, timeout=10)
    await blocked.reached(Status.BLOCKED, timeout=10)
    await retrying.reached(Status.RETRYING, timeout=10)
    for run in (waiting, failed, blocked, retrying, unserved):
        status = await run.status()
        for tab in TABS:
            answer = await browser.get(f"/runs/{run.id}{tab}")
            assert answer.status_code == 200, f"{status} {tab}"
            assert f"#s-{status}" in answer.text
            assert SECRET not in answer.text


async def test_the_summary_says_what_a_run_waits_for_where_it_stands_and_has_the_form_that_sends_it(
    browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    page = (await browser.get(f"/runs/{waiting.id}")).text
    text = text_of(page)
    assert "Waits for signal 'approval'" in text
    assert "shop.py" in text
    assert "in 59 min" in text
    assert 'id="send-value"' in page
    assert "Send approval" in text
    assert str(LARGE) in page


async def test_the_timeline_has_a_bar_a_command_that_leads_to_its_entry_or_to_its_child(
    client: Client, worker: Worker, browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    await waiting.send("approval", True)
    await waiting.result(10)
    [child] = (await client.tree(waiting.id)).children
    page = (await browser.get(f"/runs/{waiting.id}")).text
    bars = re.findall(r'<a href="([^"]+)" class="gbar ([a-z]+)', page)
    kinds = [kind for _, kind in bars]
    assert kinds == ["work", "wait", "work"]
    targets = [to for to, _ in bars]
    assert targets[0].endswith(f"/runs/{waiting.id}/history?entry=2#ev-2")
    assert targets[2].endswith(f"/runs/{child.id}")


async def test_a_part_of_the_timeline_can_be_looked_at_alone(
    browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    page = (await browser.get(f"/runs/{waiting.id}")).text
    [part] = links_to(page, "part 1") or links_to(page, "first half")
    zoomed = await browser.get(part)
    assert zoomed.status_code == 200
    assert 'class="gbar work' in zoomed.text
    nowhere = await browser.get(f"/runs/{waiting.id}?from=2001-01-01T00:00:00Z&to=2001-01-02T00:00:00Z")
    assert nowhere.text.count("gbar") == page.count("gbar")
    assert (await browser.get(f"/runs/{waiting.id}?from=tomorrow&to=never")).status_code == 200


async def test_a_blocked_run_shows_why_with_its_line(client: Client, worker: Worker, browser: Browser) -> None:
    run = await client.start(mistaken)
    await run.reached(Status.BLOCKED, timeout=10)
    text = text_of((await browser.get(f"/runs/{run.id}")).text)
    assert "Blocked" in text
    assert "LookupError" in text
    assert "shop.py" in text
    assert "with a worker of another build, or by Retry" in text


async def test_what_is_between_two_attempts_says_what_failed(client: Client, worker: Worker, browser: Browser) -> None:
    run = await client.start(flaky, 3)
    await run.reached(Status.RETRYING, timeout=10)
    attempts = text_of((await browser.get(f"/runs/{run.id}/attempts")).text)
    assert "ConnectionError: no answer 3" in attempts


async def test_the_history_is_filtered_ordered_and_searched_by_its_address(
    browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    def names(page: str) -> list[str]:
        return [text_of(each) for each in re.findall(r'<span class="what[^>]*>(.*?)<span class="st', page, re.DOTALL)]

    path = f"/runs/{waiting.id}/history"
    whole = (await browser.get(path)).text
    assert names(whole) == ["started checkout", "step charge", "publish", "signal approval"]
    assert names((await browser.get(f"{path}?order=newest")).text) == names(whole)[::-1]
    assert names((await browser.get(f"{path}?kind=step&kind=signal")).text) == ["step charge", "signal approval"]
    assert names((await browser.get(f"{path}?state=asked")).text) == ["signal approval"]
    assert names((await browser.get(f"{path}?text=CHARGE")).text) == ["step charge"]
    assert "No entry fits" in (await browser.get(f"{path}?kind=undo")).text
    assert (await browser.get(f"{path}?kind=nonsense&page=0&generation=x")).status_code == 200


async def test_a_link_to_an_entry_has_it_open_and_a_fork_may_begin_there(
    browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    page = (await browser.get(f"/runs/{waiting.id}/history?entry=2")).text
    assert page.count("<details open>") == 1
    opened = page[page.index("<details open>") :]
    assert opened.index('id="ev-2"') < opened.index("</details>")
    # An entry is named by its position everywhere else: its address says which number it has.
    assert links_to(page, "Link to it (#ev-2)")[0].endswith(f"/runs/{waiting.id}/history?entry=2#ev-2")
    assert links_to(page, "Fork from here…")[0].endswith(f"/runs/{waiting.id}/fork?entry=1")


async def test_the_tree_shows_all_of_a_small_family_with_this_run_marked(
    client: Client, worker: Worker, browser: Browser
) -> None:
    run = await client.start(fanned, 2, 2)
    await run.result(10)
    node = await client.tree(run.id)
    page = (await browser.get(f"/runs/{node.children[0].id}/tree")).text
    assert page.count('<tr id="node-') == 7
    assert f'<tr id="node-{node.children[0].id}" class="here">' in page
    drawn = (await browser.get(f"/runs/{node.children[0].id}/tree?view=graph")).text
    assert drawn.count('<rect class="back"') == 7
    assert drawn.count("<path d=") >= 6


async def test_a_large_tree_comes_in_pieces(client: Client, worker: Worker, browser: Browser) -> None:
    run = await client.start(fanned, 205, 1)
    await run.result(30)
    page = (await browser.get(f"/runs/{run.id}/tree")).text
    seen = set(re.findall(r'<tr id="node-([0-9a-f-]+)"', page))
    assert len(seen) == 51
    assert "206 completed" in text_of(page)
    more = re.search(r'hx-get="([^"]+)"[^>]*>More', page)
    while more is not None:
        rows = (await browser.get(unescape(more[1]))).text
        assert "<html" not in rows
        seen |= set(re.findall(r'<tr id="node-([0-9a-f-]+)"', rows))
        more = re.search(r'hx-get="([^"]+)"[^>]*>More', rows)
    assert len(seen) == 206


async def test_signals_are_shown_as_awaited_waiting_and_taken(
    browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    await waiting.send("note", {"hello": "there"})
    await waiting.send("note", "x" * 5_000)
    page = (await browser.get(f"/runs/{waiting.id}/signals")).text
    assert (await browser.get(links_to(page, "Download")[0])).json() == "x" * 5_000
    text = text_of((await browser.get(f"/runs/{waiting.id}/signals")).text)
    assert re.search(r"Awaited .* approval", text)
    assert re.search(r'In the mailbox .* note .* \{ "hello": "there" \}', text)
    await waiting.send("approval", {"by": "Grace"})
    await waiting.result(10)
    text = text_of((await browser.get(f"/runs/{waiting.id}/signals")).text)
    assert re.search(r'Taken .* approval .* \{ "by": "Grace" \}', text)


async def test_the_export_is_a_file_without_secrets(browser: Browser, waiting: Handle[dict[str, object]]) -> None:
    answer = await browser.get(f"/runs/{waiting.id}/export")
    assert answer.headers["content-disposition"] == f'attachment; filename="run-{waiting.id}.json"'
    assert json.loads(answer.text)["run_id"] == waiting.id
    assert SECRET not in answer.text


async def test_a_payload_too_long_for_a_page_is_cut_there_and_whole_as_a_file(client: Client, browser: Browser) -> None:
    run = await client.start("import", {"rows": ["x" * 100] * 9_000})
    page = (await browser.get(f"/runs/{run.id}")).text
    assert len(page) < 200_000
    [to] = links_to(page, "Download")
    whole = await browser.get(to)
    assert whole.headers["content-disposition"] == f'attachment; filename="{run.id}-input.json"'
    assert whole.json() == [{"rows": ["x" * 100] * 9_000}]


async def test_no_answer_is_many_times_as_long_as_the_payload_that_it_shows(client: Client, browser: Browser) -> None:
    deep: list[Any] = [1] * 2_000
    for _ in range(400):
        deep = [deep]
    run = await client.start("import", deep)
    stored = len(json.dumps([deep], separators=(",", ":")))
    for path in (
        f"/runs/{run.id}", f"/runs/{run.id}/payload?which=input", f"/runs/{run.id}/history?view=json",
        f"/runs/{run.id}/export", f"/start?like={run.id}", f"/api/v1/runs/{run.id}/payloads/input",
    ):  # fmt: skip
        answer = await browser.get(path)
        assert answer.status_code == 200, path
        assert len(answer.content) < 8 * stored + 150_000, path
    assert (await browser.get(f"/runs/{run.id}/payload?which=input")).json() == [deep]
    assert (await browser.get(f"/api/v1/runs/{run.id}/payloads/input")).json()["value"] == [deep]


@pytest.mark.parametrize("answer", ["not for you", None, 7, ["x"], KeyError("iban")])
async def test_a_redactor_may_answer_with_anything_or_fail(client: Client, answer: object) -> None:
    def redact(_: Spot, __: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    run = await client.options(metadata={"team": "x"}).start("pay", {"iban": "DE-SECRET"})
    await client.schedules.put(Schedule("nightly", "pay", ({"iban": "DE-SECRET"},), every=timedelta(hours=1)))
    async with console_of(client, redact=redact) as browser:
        for path in (
            *(f"/runs/{run.id}{tab}" for tab in TABS), "/schedules", "/schedules/nightly", "/runs", "/types",
            "/api/v1/schedules", f"/api/v1/runs/{run.id}", f"/api/v1/runs/{run.id}/export",
        ):  # fmt: skip
            shown = await browser.get(path)
            assert shown.status_code == 200, path
            assert "DE-SECRET" not in shown.text, path


async def test_a_run_that_there_is_not_is_a_404(browser: Browser) -> None:
    for tab in TABS:
        answer = await browser.get(f"/runs/01a22d2f-3b3f-7000-8000-000000000000{tab}")
        assert answer.status_code == 404, tab
    assert (await browser.get("/runs/nonsense")).status_code == 404


async def test_who_may_only_look_gets_no_buttons(reader: Browser, waiting: Handle[dict[str, object]]) -> None:
    for tab in TABS:
        page = (await reader.get(f"/runs/{waiting.id}{tab}")).text
        assert 'id="send"' not in page
        assert 'popovertarget="do-' not in page
        assert f"/runs/{waiting.id}/fork" not in page
        assert "Reveal" not in page
    assert (await reader.get(f"/runs/{waiting.id}/fork")).status_code == 403
    assert (await reader.get(f"/runs/{waiting.id}/reveal?which=input")).status_code == 403
    assert (await reader.get("/start")).status_code == 403
