"""What is masked stays so: in searches, in forms that are filled in with it, in files."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

import runnerq as rq
from runnerq.client.client import Client
from runnerq.client.schedule import ScheduleOptions
from runnerq.console.models.redaction import MASK
from tests.console.browsing import Browser

SECRET = "hunter2-4711"  # noqa: S105 - what must not be lost, nor shown


@rq.activity(retry=1)
async def pay(order: dict[str, str]) -> None:
    raise ValueError(f"password={SECRET} was refused")


@pytest.fixture
async def failed(client: Client) -> str:
    """A run whose error quotes a secret."""
    async with rq.Worker(client, activities=[pay]):
        run = await client.start(pay, {})
        with pytest.raises(rq.RunFailed):
            await run.result(timeout=10)
    return run.id


@pytest.mark.parametrize("path", ["/runs", "/dead-letter"])
async def test_who_may_not_see_what_is_masked_is_offered_no_search_for_it(
    browser: Browser, reader: Browser, failed: str, path: str
) -> None:
    assert 'name="error"' in (await browser.get(path)).text
    assert 'name="error"' not in (await reader.get(path)).text
    for piece in ("password=h", "password=x"):
        answer = await reader.get(path, params={"error": piece})
        assert "needs the permission" in answer.text


@pytest.mark.parametrize(
    "path", ["/runs/export.csv", "/runs/export.json", "/api/v1/runs", "/api/v1/runs?count=1", "/api/v1/dead-letter"]
)
async def test_no_list_tells_by_what_it_finds_what_is_masked(reader: Browser, failed: str, path: str) -> None:
    told = set()
    for piece in ("password=h", "password=x"):
        answer = await reader.get(f"{path}{'&' if '?' in path else '?'}error={piece}")
        told.add((answer.status_code, "payload.reveal" in answer.text, failed in answer.text))
    assert told == {(400, True, False)}


def fields_of(page: str) -> dict[str, str]:
    """What a browser would send of the form for a schedule, as it came; line ends are a form's."""
    form = page[page.index('<form class="form narrow"') :]
    fields = {
        unescape(name): unescape(value)
        for name, value in re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', form)
    }
    area = re.search(r'<textarea[^>]*name="args"[^>]*>(.*?)</textarea>', form, re.DOTALL)
    assert area is not None
    args = unescape(area[1]).replace("\n", "\r\n")
    return {**fields, "args": args, "overlap": "skip", "missed": "once"}


async def test_a_schedule_that_is_edited_keeps_its_secrets_and_what_the_form_does_not_show(
    browser: Browser, client: Client
) -> None:
    options: ScheduleOptions = {"metadata": {"team": "x"}, "timeout": 5}
    long = {"password": SECRET, "rows": ["x" * 70_000]}
    await client.schedules.put(rq.Schedule("nightly", "pay", ({"password": SECRET},), every=60, options=options))
    await client.schedules.put(rq.Schedule("long", "pay", (long,), every=60))
    for name in ("nightly", "long"):
        fields = fields_of((await browser.get(f"/schedule?name={name}")).text)
        assert MASK in fields["args"]
        assert (await browser.send_form("/schedule", {**fields, "every": "3600"})).status_code == 303
    nightly, cut = await client.schedules.get("nightly"), await client.schedules.get("long")
    assert nightly is not None
    assert cut is not None
    assert (nightly.every, nightly.args) == (3600, [{"password": SECRET}])
    assert nightly.options == {"metadata": {"team": "x"}, "timeout": 5.0}
    assert cut.args == [long]


async def test_a_schedule_is_not_saved_with_what_stands_for_a_secret(browser: Browser, client: Client) -> None:
    await client.schedules.put(rq.Schedule("nightly", "pay", ({"password": SECRET},), every=60))
    masked = (await browser.get("/api/v1/schedules/nightly")).json()["args"]["value"]
    api = await browser.put("/api/v1/schedules/nightly", json={"workflow": "pay", "args": masked, "every": 9})
    assert api.status_code == 400
    fields = fields_of((await browser.get("/schedule?name=nightly")).text)
    args = json.dumps([{"password": MASK, "more": 1}], ensure_ascii=False)

    refused = await browser.send_form("/schedule", {**fields, "args": args})

    assert refused.status_code == 422
    assert "write what is meant instead" in refused.text
    kept = await client.schedules.get("nightly")
    assert kept is not None
    assert kept.args == [{"password": SECRET}]
    meant = await browser.send_form("/schedule", {**fields, "args": '[{"password": "new"}]'})
    assert meant.status_code == 303
    changed = await client.schedules.get("nightly")
    assert changed is not None
    assert changed.args == [{"password": "new"}]


@pytest.mark.parametrize("key", ["a;=1+cmd", "\n=1+1", " =1+1", "\ufeff=1+1", "\uff1d1+1", "=1+1"])
async def test_no_text_of_a_table_is_a_formula_or_two_cells(browser: Browser, client: Client, key: str) -> None:
    await client.options(key=key).start(pay, {})

    table = (await browser.get("/runs/export.csv")).text

    assert f'"{key}"' not in table or ";" in key
    assert re.search(rf'"\'?{re.escape(key)}"', table), "a cell of its own"
