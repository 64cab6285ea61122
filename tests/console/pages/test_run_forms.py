"""What the forms of a run's pages do, sent as a browser without scripts sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.console.models.redaction import MASK
from runnerq.persistence.records import Priority, Status
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context as Ctx
from runnerq.workflow.declare import workflow
from tests.console.browsing import Browser
from tests.console.shop import ACTIVITIES, LARGE, SECRET, WORKFLOWS, charge, checkout, refused


@pytest.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    async with Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES, build="tests") as worker:
        yield worker


@pytest.fixture
async def waiting(client: Client, worker: Worker) -> Handle[dict[str, object]]:
    """A checkout that waits for its approval."""
    run = await client.start(checkout, {"item": "tea", "card": SECRET})
    await run.reached(Status.WAITING, timeout=10)
    return run


async def test_a_signal_sent_from_the_page_completes_the_run_with_its_numbers_exact(
    browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    sent = await browser.send_form(
        f"/runs/{waiting.id}/send", {"channel": "approval", "value": f'{{"n": {LARGE}}}', "back": f"/runs/{waiting.id}"}
    )
    assert (sent.status_code, sent.headers["location"]) == (303, f"/runs/{waiting.id}")
    assert (await waiting.result(10))["decision"] == {"n": LARGE}


async def test_a_value_that_is_no_json_is_shown_again_with_what_is_wrong(
    browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    for tab in ("", "/signals"):
        sent = await browser.send_form(
            f"/runs/{waiting.id}/send",
            {"channel": "approval", "value": '{"ok": tr', "back": f"/runs/{waiting.id}{tab}"},
        )
        page = unescape(sent.text)
        assert sent.status_code == 422
        assert '{"ok": tr</textarea>' in page
        assert "this is no JSON" in page
        # Nothing that is fetched behind its back may take the message away, and it can be sent again from here.
        assert "hx-trigger" not in page
        assert f'name="back" value="/runs/{waiting.id}{tab}"' in page
    assert await waiting.status() == Status.WAITING


async def test_an_empty_value_is_asked_for_and_null_is_sent_where_it_is_written(
    browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    sent = await browser.send_form(f"/runs/{waiting.id}/send", {"channel": "approval", "value": ""})
    assert (sent.status_code, "null where there is none" in sent.text) == (422, True)
    assert await waiting.status() == Status.WAITING
    sent = await browser.send_form(f"/runs/{waiting.id}/send", {"channel": "approval", "value": "null"})
    assert sent.status_code == 303


async def test_of_two_who_act_on_one_run_the_second_is_told_what_it_has_become(
    browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    first = await browser.send_form(f"/runs/{waiting.id}/terminate", {"reason": "not wanted"})
    second = await browser.send_form(f"/runs/{waiting.id}/send", {"channel": "approval", "value": "true"})
    assert (first.status_code, second.status_code) == (303, 303)
    page = (await browser.get(second.headers["location"])).text
    assert 'class="note fail"' in page
    assert "cancelled" in page
    assert "not wanted" in page


async def test_each_verb_does_what_it_says(client: Client, worker: Worker, browser: Browser) -> None:
    async def send(run: Handle[object], verb: str, **fields: str) -> None:
        sent = await browser.send_form(f"/runs/{run.id}/{verb}", fields)
        assert sent.status_code == 303, sent.text

    later = await client.options(delay=timedelta(days=1)).start(charge, {})
    await send(later, "priority", priority="critical")
    assert (await later.info()).priority == Priority.CRITICAL
    await send(later, "reschedule", at="2w")
    due = (await later.info()).due_at
    assert due is not None
    assert due - await client.storage.now() > timedelta(days=13)
    await send(later, "run-now")
    await later.result(10)
    await send(later, "delete")
    assert (await browser.get(f"/runs/{later.id}")).status_code == 404

    dead = await client.start(refused, 1)
    for verb in ("retry", "redrive"):
        await dead.reached(Status.DEAD_LETTER, timeout=10)
        await send(dead, verb)
    await dead.reached(Status.DEAD_LETTER, timeout=10)

    parked = await client.start(checkout, {})
    await parked.reached(Status.WAITING, timeout=10)
    await send(parked, "cancel", reason="no more tea")
    await parked.reached(Status.CANCELLED, timeout=10)
    assert (await parked.info()).reason == "no more tea"


@workflow(name="priced")
def priced(ctx: Ctx) -> Flow[None]:
    yield ctx.step(charge, {"cents": 1})
    yield ctx.signal("go")


@workflow(name="priced")
def priced_otherwise(ctx: Ctx) -> Flow[None]:
    yield ctx.step(charge, {"cents": 2})
    yield ctx.signal("go")


@workflow(name="priced")
def renamed(ctx: Ctx) -> Flow[None]:
    yield ctx.signal("go")


@pytest.mark.parametrize(("after", "accepts"), [(priced_otherwise, True), (renamed, False)])
async def test_a_retry_of_a_blocked_run_says_that_it_blocks_again_and_takes_other_arguments_where_those_differ(
    client: Client, browser: Browser, after: Any, accepts: bool
) -> None:
    async with Worker(client, workflows=[priced], activities=[charge], build="1"):
        run = await client.start(priced)
        await run.reached(Status.WAITING, timeout=10)
    await run.send("go", None)
    async with Worker(client, workflows=[after], activities=[charge], build="2"):
        await run.reached(Status.BLOCKED, timeout=10)
    opened, name = (await browser.get(f"/runs/{run.id}")).text, "do-retry-blocked" + ("-arguments" if accepts else "")
    assert f'popovertarget="{name}">Retry' in opened
    listed = (await browser.get("/blocked")).text
    assert f'popovertarget="retry-{run.id}">Retry' in listed
    for page, of in ((opened, name), (listed, f"retry-{run.id}")):
        dialog = page.partition(f'id="{of}" popover')[2].partition("</form>")[0]
        assert "blocks again unless that has changed" in dialog
        assert ('name="accept"' in dialog, 'name="reason"' in dialog) == (accepts, True)
    fields = {"reason": "it is the same price", **({"accept": "arguments"} if accepts else {})}
    assert (await browser.send_form(f"/runs/{run.id}/retry", fields)).status_code == 303
    async with Worker(client, workflows=[after], activities=[charge], build="2"):
        await run.reached(Status.COMPLETED if accepts else Status.BLOCKED, timeout=10)


async def test_a_time_that_is_none_leaves_a_run_as_it_is(client: Client, browser: Browser) -> None:
    later = await client.options(delay=timedelta(days=1)).start(charge, {})
    before = await later.info()
    for at in ("", "soon", "9999999w"):
        fields = {"at": at, "reason": "the bank is closed", "back": f"/runs/{later.id}"}
        sent = await browser.send_form(f"/runs/{later.id}/reschedule", fields)
        assert sent.status_code == 400
        # Nothing that was typed is lost: it stands on the page, which leads back.
        assert "the bank is closed</dd>" in sent.text
        assert at in sent.text
        assert f'href="/runs/{later.id}">Back to the form</a>' in sent.text
    assert await later.info() == before


async def test_a_fork_begins_at_the_entry_and_links_back(
    client: Client, browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    asked = await browser.get(f"/runs/{waiting.id}/fork?entry=3")
    assert 'name="entry" type="text" value="3"' in asked.text
    sent = await browser.send_form(f"/runs/{waiting.id}/fork", {"entry": "3", "reason": "try again"})
    fork = sent.headers["location"].rpartition("/")[2]
    assert fork != waiting.id
    assert f"/runs/{waiting.id}" in (await browser.get(f"/runs/{fork}")).text
    wrong = await browser.send_form(f"/runs/{waiting.id}/fork", {"entry": "99"})
    assert wrong.status_code == 422
    assert "99" in wrong.text


async def test_what_is_masked_is_shown_for_a_reason_and_the_audit_has_it(
    client: Client, browser: Browser, waiting: Handle[dict[str, object]]
) -> None:
    assert SECRET not in (await browser.get(f"/runs/{waiting.id}")).text
    without = await browser.send_form(f"/runs/{waiting.id}/reveal", {"which": "input"})
    assert without.status_code == 422
    assert SECRET not in without.text
    given = await browser.send_form(f"/runs/{waiting.id}/reveal", {"which": "input", "reason": "ticket 12"})
    assert SECRET in given.text
    asked = await browser.get(f"/runs/{waiting.id}/reveal?which=entry&entry=2")
    assert 'name="entry" value="2"' in asked.text
    entry = {"which": "entry", "entry": "2", "reason": "ticket 13"}
    assert SECRET in (await browser.send_form(f"/runs/{waiting.id}/reveal", entry)).text
    audited = (await browser.get(f"/runs/{waiting.id}")).text
    assert "ticket 12" in audited
    assert "reveal" in audited


async def test_a_run_is_started_from_the_form_with_all_that_it_was_given(client: Client, browser: Browser) -> None:
    sent = await browser.send_form(
        "/start",
        {
            "name": "imports", "arguments": '{"args": [1], "kwargs": {"b": [2]}}', "key": "k-1", "queue": "bulk",
            "priority": "high", "at": "2h", "timeout": "5m", "limit": "bank/7", "metadata": "tenant=acme\nregion = eu",
            "reason": "by hand",
        },
    )  # fmt: skip
    assert sent.status_code == 303
    info = await client.info(sent.headers["location"].rpartition("/")[2])
    assert (info.workflow, info.key, info.queue, info.priority) == ("imports", "k-1", "bulk", Priority.HIGH)
    assert info.metadata == {"tenant": "acme", "region": "eu"}
    assert info.limit is not None
    assert (info.limit.scope, info.limit.key) == ("bank", "7")
    assert info.due_at is not None
    exported = await client.export(info.id)
    assert exported["arguments"] == {"args": [1], "kwargs": {"b": [2]}}
    again = await browser.send_form("/start", {"name": "imports", "key": "k-1"})
    assert again.headers["location"] == sent.headers["location"]


async def test_all_that_is_wrong_with_a_start_is_said_at_once_and_nothing_is_lost(
    client: Client, browser: Browser
) -> None:
    fields = {
        "name": "", "arguments": f'[{{"card": "{MASK}"}}]', "at": "soon", "timeout": "long", "metadata": "nonsense",
    }  # fmt: skip
    sent = await browser.send_form("/start", fields)
    page = unescape(sent.text)
    assert sent.status_code == 422
    assert page.count('class="wrong"') == len(fields)
    assert fields["arguments"] in page
    for wrong, why in (
        ({"arguments": "{"}, "this is no JSON"),
        ({"arguments": '["\\ud800"]'}, "half of a surrogate pair"),
        ({"arguments": '"text"'}, "arguments are an array"),
        ({"arguments": '{"args": 1, "kwargs": {}}'}, "arguments are an array"),
        ({"at": "9999-12-31 23:59"}, "too far off"),
        ({"at": "999999999w"}, "too far off"),
    ):
        sent = await browser.send_form("/start", {"name": "x", **wrong})
        assert (sent.status_code, why in unescape(sent.text)) == (422, True), wrong
    assert await client.count() == 0


async def test_start_one_like_this_fills_in_the_form(
    browser: Browser, waiting: Handle[dict[str, object]], worker: Worker
) -> None:
    page = unescape((await browser.get(f"/start?like={waiting.id}")).text)
    assert 'value="checkout"' in page
    assert '"item": "tea"' in page
    assert MASK in page
    assert SECRET not in page
