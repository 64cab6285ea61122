"""Queues, schedules, limits, types and workers, as a browser without scripts has them."""

from __future__ import annotations

import asyncio
import re
from html import escape, unescape

import runnerq as rq
from runnerq.client.client import Client
from runnerq.clock import ManualClock
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import WorkerRow
from tests.console.browsing import Browser, console_of
from tests.console.pages.reading import checkout, link, rows_of, text_of, transfer

NAMES = ("eu/mail", "my queue", "a//b", "/a", "a/", "50%", "a%2Fb", "?x=1#y", "a+b", "..", ".", " a ", "ü")


async def test_a_queue_whose_name_holds_a_slash_is_paused_and_resumed(browser: Browser, client: Client) -> None:
    await client.options(queue="eu/mail").start(checkout, 1)

    told = await browser.send_form("/queues", verb="pause", name="eu/mail", reason="the server moves", back="/queues")
    assert told.status_code == 303
    page = text_of((await browser.get("/queues/eu%252Fmail")).text)
    assert "Nothing of it is taken up" in page
    assert "the server moves" in page

    await browser.send_form("/queues", verb="resume", name="eu/mail", back="/queues")
    assert [queue.paused_at for queue in await client.queues.list()] == [None]


async def test_whatever_the_name_of_a_queue_is_its_links_lead_to_it(browser: Browser, client: Client) -> None:
    for name in NAMES:
        await client.queues.pause(name)
    for path, words in (("/", "Look →"), ("/queues", None)):
        page = (await browser.get(path)).text
        for name in NAMES:
            text = re.escape(escape(words or name))
            row = rf"Queue {re.escape(escape(name))} is paused.*?" if words else ""
            found = re.search(rf'{row}<a [^>]*href="([^"]+)"[^>]*>{text}</a>', page)
            assert found is not None, (path, name)
            led_to = (await browser.get(unescape(found[1]))).text
            assert f"<h1>{escape(name)}</h1>" in led_to
            assert "Nothing of it is taken up" in led_to


async def test_whatever_the_name_of_a_queue_is_its_buttons_are_of_it(browser: Browser, client: Client) -> None:
    for name in NAMES:
        await browser.send_form("/queues", verb="pause", name=name, back="/queues")
    assert {queue.name for queue in await client.queues.list()} == set(NAMES)
    for name in NAMES:
        await browser.send_form("/queues", verb="resume", name=name, back="/queues")
    assert await client.queues.list() == []


async def test_whatever_the_name_of_a_type_or_a_schedule_is_its_links_lead_to_it(
    browser: Browser, client: Client
) -> None:
    for name in NAMES:
        await client.start(name, 1)
        await client.schedules.put(rq.Schedule(name, name, (1,), cron="0 3 * * *"))
    for path in ("/types", "/schedules"):
        page = (await browser.get(path)).text
        for name in NAMES:
            found = link(page, escape(name))
            assert found.startswith(path)
            assert f"<h1>{escape(name)}</h1>" in (await browser.get(found)).text
    for name in NAMES:
        await browser.send_form("/schedules", verb="delete", name=name)
    assert await client.schedules.list() == []


async def test_a_schedule_is_made_in_a_form_which_keeps_what_was_typed_while_it_is_wrong(
    browser: Browser, client: Client
) -> None:
    wrong = await browser.send_form("/schedule", name="nightly", workflow="checkout", args="[42", cron="0 3 * * *")
    assert wrong.status_code == 422
    assert "[42</textarea>" in wrong.text
    assert "this is no JSON" in wrong.text
    for when in ({}, {"cron": "0 3 * * *", "every": "60"}):
        wrong = await browser.send_form("/schedule", {"name": "nightly", "workflow": "checkout", **when})
        assert (wrong.status_code, wrong.text.count("one of the two")) == (422, 1)

    made = await browser.send_form("/schedule", name="nightly", workflow="checkout", args="[42]", cron="0 3 * * *")
    assert made.headers["Location"] == "/schedules/nightly"
    page = text_of((await browser.get("/schedules/nightly")).text)
    assert "0 3 * * *" in page
    assert page.count(" 03:00:00") == 5


async def test_a_new_schedule_replaces_none_that_there_is(browser: Browser, client: Client) -> None:
    await client.schedules.put(rq.Schedule("nightly", "payout", ("7",), every=60))
    typed = {"name": "nightly", "workflow": "checkout", "args": "[42]", "every": "9"}
    body = {"workflow": "checkout", "args": [42], "every": 9, "create_only": True}
    answer = await browser.put("/api/v1/schedules/nightly", json=body)
    assert answer.json()["errors"][0]["field"] == "name"

    refused = await browser.send_form("/schedule", typed)
    assert refused.status_code == 422
    assert link(refused.text, "nightly") == "/schedule?name=nightly"
    assert "[42]" in refused.text
    [kept] = await client.schedules.list()
    assert (kept.workflow, list(kept.args)) == ("payout", ["7"])


async def test_who_edits_a_schedule_that_another_has_changed_is_told_what_it_has_become(
    browser: Browser, client: Client
) -> None:
    await client.schedules.put(rq.Schedule("nightly", "payout", ("7",), every=60))
    stale = {"workflow": "payout", "every": 9, "seen": "2026-01-01T00:00:00Z"}
    answer = await browser.put("/api/v1/schedules/nightly", json=stale)
    assert answer.json()["errors"][0]["field"] == "seen"
    page = (await browser.get("/schedule?name=nightly")).text
    mine = {name: unescape(value) for name, value in re.findall(r'name="([a-z]+)"[^>]* value="([^"]*)"', page)}
    mine = {**mine, "args": '["7"]', "overlap": "skip", "missed": "once", "priority": "", "jitter": "5"}
    await client.schedules.put(rq.Schedule("nightly", "payout", ("8",), every=60))

    told = await browser.send_form("/schedule", mine)
    assert told.status_code == 409
    assert "Somebody has changed this schedule since you opened it" in told.text
    assert "Arguments [&#34;7&#34;] Jitter 5" in " ".join(re.sub(r"<[^>]+>", " ", told.text).split())
    assert re.search(r"<textarea[^>]*>\[\s*&#34;8&#34;\s*\]</textarea>", told.text)
    # Nor does a form that says nothing of what it was made of.
    assert (await browser.send_form("/schedule", {**mine, "seen": "yesterday"})).status_code == 409
    seen = re.search(r'name="seen" value="([^"]+)"', told.text)
    assert seen is not None
    again = {**mine, "args": '["8"]', "seen": unescape(seen[1])}
    assert (await browser.send_form("/schedule", again)).status_code == 303
    [kept] = await client.schedules.list()
    assert (list(kept.args), kept.jitter) == (["8"], 5)


async def test_a_schedule_is_paused_triggered_backfilled_and_deleted(browser: Browser, client: Client) -> None:
    await client.schedules.put(rq.Schedule("hourly", "checkout", (1,), cron="0 * * * *", overlap="allow"))

    async def act(verb: str, **more: str) -> None:
        fields = {"verb": verb, "name": "hourly", "back": "/schedules/hourly", **more}
        told = await browser.send_form("/schedules", fields)
        assert told.status_code == 303, told.text

    await act("pause")
    assert "paused" in (await browser.get("/schedules")).text
    await act("resume")
    await act("trigger")
    assert await client.count() == 1
    await act("backfill", since="2026-01-01 00:00", until="2026-01-01 03:30")
    assert await client.count() > 3
    fields = {"verb": "backfill", "name": "hourly", "since": "2026-01-02 00:00", "until": "2026-01-01 00:00"}
    refused = await browser.send_form("/schedules", fields)
    assert (refused.status_code, refused.text.count("give the earlier one first")) == (400, 1)
    await act("delete")
    assert await client.schedules.list() == []


async def test_selected_schedules_are_asked_about_and_then_paused_or_resumed(browser: Browser, client: Client) -> None:
    for name in ("a/b", "noon", "nightly", "left alone"):
        await client.schedules.put(rq.Schedule(name, "checkout", (1,), every=60))
    await client.schedules.pause("noon")
    page = (await browser.get("/schedules")).text
    assert page.count('form="chosen"') == 4

    chosen = ["a/b", "noon", "nightly", "gone"]
    asked = await browser.send_form("/schedule/many", {"verb": "pause", "id": chosen})
    told = text_of(asked.text)
    assert "Pause 2 schedules" in told
    assert "noon stays as it is: paused already" in told
    assert "gone there is none of this name any more" in told
    assert [info.name for info in await client.schedules.list() if info.paused_at] == ["noon"]

    done = await browser.send_form("/schedule/many", {"verb": "pause", "id": chosen, "sure": "1", "reason": "the move"})
    assert done.headers["Location"] == "/schedules"
    said = text_of((await browser.get("/schedules")).text)
    assert "Paused 2 schedules; paused already: noon; not changed: gone (there is none of this name)" in said
    assert [info.name for info in await client.schedules.list() if info.paused_at] == ["a/b", "nightly", "noon"]
    rows = (await client.audit.list(10)).items
    assert {(row.target, row.reason) for row in rows} == {(name, "the move") for name in chosen}
    assert sorted(row.outcome.partition(":")[0] for row in rows) == ["done", "done", "nothing changed", "refused"]

    await browser.send_form("/schedule/many", {"verb": "resume", "id": chosen[:3], "sure": "1"})
    assert not any(info.paused_at for info in await client.schedules.list())
    none = await browser.send_form("/schedule/many", {"verb": "resume", "id": ["noon"]})
    assert "Resume 0 schedules" in text_of(none.text)
    assert 'class="primary"' not in none.text


async def test_a_form_for_many_schedules_without_any_or_for_something_else_is_told_so(browser: Browser) -> None:
    assert (await browser.send_form("/schedule/many", verb="pause")).headers["Location"] == "/schedules"
    assert "Select some schedules first" in (await browser.get("/schedules")).text
    other = await browser.send_form("/schedule/many", verb="delete", id="noon", sure="1")
    assert (other.status_code, "nothing that is done to many schedules" in unescape(other.text)) == (400, True)


async def test_a_limit_is_set_and_deleted(browser: Browser, client: Client) -> None:
    told = await browser.send_form("/limits", verb="set", scope="stripe", concurrency="5", rate="100", per="60")
    assert told.headers["Location"] == "/limits"
    [limit] = await client.limits.list()
    assert (limit.scope, limit.concurrency) == ("stripe", 5)
    assert "stripe" in (await browser.get("/limits")).text

    wrong = await browser.send_form("/limits", verb="set", scope="stripe", concurrency="many")
    assert wrong.status_code == 400
    nothing = await browser.send_form("/limits", verb="set", scope="stripe")
    assert (nothing.status_code, "Give how many run at once" in nothing.text) == (400, True)

    await browser.send_form("/limits", verb="delete", scope="stripe")
    assert await client.limits.list() == []


async def test_a_worker_is_asked_to_drain_once(browser: Browser, client: Client) -> None:
    row = WorkerRow(id=4711, lease=60, host="web-1", pid=1, build="b", queues=("q",), served=("f",), library="0.0.9")
    await client.storage.register(row, [])
    page = (await browser.get("/workers/4711")).text
    assert 'value="drain"' in page
    assert "0.0.9" in page
    told = await browser.send_form("/workers", verb="drain", worker="4711", back="/workers/4711")
    assert told.headers["Location"] == "/workers/4711"
    page = (await browser.get("/workers/4711")).text
    assert 'value="drain"' not in page
    assert "asked to stop in order" in page
    assert (await browser.send_form("/workers", verb="shoot", worker="4711")).status_code == 400
    assert (await browser.send_form("/workers", verb="drain", worker="12")).status_code == 404


async def test_a_worker_shows_what_it_works_on_and_a_run_who_works_on_it(browser: Browser, client: Client) -> None:
    begun, done = asyncio.Event(), asyncio.Event()

    @rq.activity
    async def long() -> None:
        begun.set()
        await done.wait()

    async with rq.Worker(client, activities=[long]):
        run = await client.options(key="no-42").start(long)
        await begun.wait()
        [worker] = (await client.stats()).workers
        address = f"/workers/{worker.id}"
        assert "no-42" in (await browser.get(address)).text
        for path in ("/runs", f"/runs?worker={worker.id}", f"/runs/{run.id}"):
            page = (await browser.get(path)).text
            assert f'href="{address}">' in page
            assert f"{worker.host}, process {worker.pid}" in page
        done.set()
        await run.result(timeout=30)
        assert "Nothing at this moment" in (await browser.get(address)).text
        assert rows_of((await browser.get(f"/runs?worker={worker.id}")).text) == []


async def test_a_worker_that_has_missed_several_beats_is_silent() -> None:
    clock = ManualClock()
    async with Client(MemoryStorage(clock)) as client, console_of(client) as browser:
        row = WorkerRow(id=4711, lease=60, host="web-1", pid=1, build="b", queues=("q",), served=("f",))
        await client.storage.register(row, [])
        clock.advance(12)
        pages = [text_of((await browser.get(path)).text) for path in ("/workers", "/workers/4711")]
        assert ["silent for 12" in page for page in pages] == [True, True]
        assert "0 alive" in pages[0]
        assert "has missed several beats" in pages[1]
        assert "is silent for 12 s" in text_of((await browser.get("/")).text)


async def test_types_and_workers_show_what_was_registered(browser: Browser, client: Client) -> None:
    async with rq.Worker(client, workflows=[checkout], activities=[transfer], queues=("default", "eu/mail")):
        types = text_of((await browser.get("/types")).text)
        assert "checkout" in types
        assert "transfer" in types
        assert (await browser.get("/types/checkout")).status_code == 200
        workers = (await browser.get("/workers")).text
        assert "1 alive" in workers
        worker = re.search(r'id="worker-(\d+)"', workers)
        assert worker is not None
        page = text_of((await browser.get(f"/workers/{worker[1]}")).text)
        assert "checkout@1" in page
        assert "eu/mail" in page


async def test_what_failed_in_a_day_leads_to_the_runs_that_ended_in_it(
    browser: Browser, client: Client, failed: list[str]
) -> None:
    for path in ("/types", "/"):
        page = (await browser.get(path)).text
        found = re.search(r'<a class="err" href="([^"]+workflow=payout[^"]*)">3</a>', page)
        assert found is not None, path
        assert "ended_since=1d" in found[1]
        assert sorted(rows_of((await browser.get(unescape(found[1]))).text)) == sorted(failed)
