"""What somebody who sees the console for the first time stumbled on: each says now what it is, or asks first."""

from __future__ import annotations

from datetime import timedelta
from html import unescape

import pytest

from runnerq.client.client import Client
from runnerq.client.schedule import Schedule
from runnerq.console.web.auth import token_auth
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from tests.console.browsing import Browser, console_of
from tests.console.shop import WORKFLOWS

TOKEN = "a token that only the tests have"  # noqa: S105 - and it is of no use elsewhere


async def test_a_pause_is_asked_about_in_a_list_as_well(client: Client, browser: Browser) -> None:
    await client.start("work")
    await client.schedules.put(Schedule("a / b", "work", every=timedelta(days=1)))
    for path, name in (("/queues", "default"), ("/schedules", "a / b")):
        page = unescape((await browser.get(path)).text)
        opener, dialog = page.split('<div class="dialog', 1)
        # Of those that are selected it asks on a page of its own.
        assert 'name="verb" value="pause"' not in opener.replace('value="pause" data-need', "")
        assert f"Pause {name}?" in dialog
        target = opener.split('popovertarget="pause-', 1)[1].split('"', 1)[0]
        assert f'id="pause-{target}"' in dialog


async def test_a_whole_id_leads_to_its_run(client: Client, browser: Browser) -> None:
    run = await client.start("work")
    assert (await browser.get("/runs", params={"q": run.id})).headers["location"] == f"/runs/{run.id}"
    assert (
        await browser.get("/runs", params={"q": run.id[:-1] + ("0" if run.id[-1] != "0" else "1")})
    ).status_code == 200


async def test_of_runs_that_were_selected_those_are_counted_that_can_be_changed(
    client: Client, browser: Browser
) -> None:
    runs = [await client.start("work") for _ in range(3)]
    await runs[0].cancel()
    fields = {"id": [run.id for run in runs], "verb": "cancel"}
    assert "Cancel 2 runs" in unescape((await browser.send_form("/runs/bulk", fields)).text)
    assert "There is nothing to retry" in (await browser.send_form("/runs/bulk", fields | {"verb": "retry"})).text


@pytest.mark.parametrize(
    ("method", "path", "body", "told"),
    [
        ("GET", "/runs?status=dead", None, "pending, running, waiting"),
        ("POST", "/runs", {"name": "work"}, "there are workflow,"),
        ("POST", "/dead-letter/redrive", {}, "where"),
    ],
)
async def test_the_api_says_what_there_is_where_something_else_was_given(
    browser: Browser, method: str, path: str, body: object, told: str
) -> None:
    answer = await browser.request(method, f"/api/v1{path}", json=body)
    assert answer.status_code == 400
    assert told in str(answer.json()["errors"])


async def test_a_redrive_of_all_says_how_many_they_are(client: Client, browser: Browser) -> None:
    answer = (await browser.post("/api/v1/dead-letter/redrive", json={"where": {}})).json()
    assert answer["count"] == {"n": 0, "capped": False}


async def test_a_wrong_token_is_told_from_none() -> None:
    async with Client(MemoryStorage()) as client, console_of(client, auth=token_auth(TOKEN)) as browser:
        wrong = await browser.get("/api/v1/me", headers={"Authorization": "Bearer something else"})
        none = await browser.get("/api/v1/me")
    assert (wrong.status_code, none.status_code) == (401, 401)
    assert "not one of this console" in wrong.json()["detail"]
    assert "sign in first" in none.json()["detail"]


async def test_a_command_that_helps_is_shown_with_what_leads_to_this_database(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = Client(PostgresStorage("postgresql://127.0.0.1:1/x", connect_timeout=0.1))
    async with console_of(away, command_options="--schema shop") as browser:
        page = (await browser.get("/runs")).text
    assert "<code>runnerq migrate --status --schema shop</code>" in page
    assert "the console's database cannot be used" in caplog.text


async def test_a_run_whose_arguments_do_not_fit_says_what_helps(client: Client, browser: Browser) -> None:
    async with Worker(client, workflows=WORKFLOWS, build="tests"):
        run = await client.start("refused")
        await run.reached(Status.BLOCKED, timeout=30)
    page = unescape((await browser.get(f"/runs/{run.id}")).text)
    assert f'href="/start?like={run.id}">start one like this</a>' in page
    assert "it was blocked before its first entry" in page
