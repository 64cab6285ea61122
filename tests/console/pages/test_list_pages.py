"""The pages that list things, as a browser without scripts has them. Storage is in memory: what is shown is meant."""

from __future__ import annotations

import re
from html import unescape
from types import SimpleNamespace

import pytest

import runnerq as rq
from runnerq.client.client import Client
from runnerq.console.models.audit import AuditPage
from runnerq.console.pages import exporting
from tests.console.browsing import Browser
from tests.console.pages.reading import NASTY, checkout, link, rows_of, text_of

PAGES = (
    "/", "/runs", "/blocked", "/dead-letter", "/schedules", "/queues", "/limits", "/types", "/workers", "/batches",
    "/batches/new", "/audit", "/settings", "/schedule",
)  # fmt: skip


async def test_every_page_of_an_empty_database_answers_without_inline_styles_or_scripts(browser: Browser) -> None:
    for path in PAGES:
        answer = await browser.get(path)

        assert answer.status_code == 200, path
        assert "style=" not in answer.text, path
        assert "<script>" not in answer.text, path


async def test_the_overview_of_an_empty_database_says_how_to_begin(browser: Browser) -> None:
    page = (await browser.get("/")).text

    assert "Nothing has run here yet" in page
    assert "runnerq worker" in page


async def test_tiles_lead_to_the_list_that_they_count(browser: Browser, client: Client) -> None:
    await client.start(checkout, 1)

    page = (await browser.get("/")).text
    tile = re.search(
        r'<a class="tile" id="tile-ready" href="([^"]+)">.*?<span class="value">([^<]+)</span>', page, re.DOTALL
    )

    assert tile is not None
    assert tile[2] == "1"
    assert len(rows_of((await browser.get(unescape(tile[1]))).text)) == 1


async def test_the_address_says_which_runs_are_listed_and_each_condition_can_be_lifted(
    browser: Browser, client: Client
) -> None:
    mine = await client.options(key="order-42", metadata={"tenant": "acme"}).start(checkout, 1)
    await client.options(key="order-43").start(checkout, 2)

    page = (await browser.get("/runs", params={"q": "order-42", "meta": "tenant=acme", "status": "pending"})).text
    assert rows_of(page) == [mine.id]
    assert page.count('class="chip"') == 2

    lifted = unescape(re.findall(r'<a href="([^"]+)" aria-label="Without', page)[0])
    assert "status=pending" in lifted
    assert len(rows_of((await browser.get("/runs", params={"status": "pending"})).text)) == 2
    assert rows_of((await browser.get("/runs", params={"status": "completed"})).text) == []


async def test_the_form_keeps_the_conditions_that_none_of_its_fields_shows(browser: Browser) -> None:
    page = (await browser.get("/runs?meta=tenant%3Dacme&meta=plan%3Dfree&status=failed&fingerprint=" + "a" * 16)).text

    assert '<input type="hidden" name="meta" value="tenant=acme">' in page
    assert 'name="meta" type="text" value="plan=free"' in page
    assert '<input type="hidden" name="status" value="failed">' in page
    assert f'<input type="hidden" name="fingerprint" value="{"a" * 16}">' in page


async def test_the_empty_fields_of_a_form_are_not_in_the_address(browser: Browser) -> None:
    answer = await browser.get("/runs?q=&workflow=checkout&error=&sort=newest&limit=50")

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/runs?workflow=checkout"


async def test_a_condition_that_cannot_be_read_is_said_beside_its_field_and_kept_as_typed(
    browser: Browser, client: Client
) -> None:
    await client.start(checkout, 1)

    answer = await browser.get("/runs", params={"since": "the other day", "workflow": "checkout"})

    assert answer.status_code == 400
    assert 'value="the other day"' in answer.text
    assert 'id="f-since-d"' in answer.text


async def test_a_condition_that_cannot_be_read_widens_nothing(browser: Browser, failed: list[str]) -> None:
    for wrong in ("since=zzz", "since=999999w", "status=lost", "colour=red", "meta=x", "fingerprint=no+digest"):
        said = " ".join(wrong.replace("+", " ").split("=", 1))
        for path in ("/runs", "/dead-letter"):
            answer = await browser.get(f"{path}?workflow=payout&{wrong}")

            assert answer.status_code == 400
            assert "Nothing is listed until this is right" in answer.text
            assert not any(one in answer.text for one in (*failed, "/batches/new", "export.csv", "export.json"))
            for tag in re.findall(rf'<a [^>]*href="{path}\?[^>]*>', answer.text):
                # What takes it out says so: "Without since zzz", "Clear", or a link to one status of the two.
                says_so = f'aria-label="Without {said}"' in tag or "button plain" in tag
                chooses = path == "/dead-letter" and wrong == "status=lost"
                assert wrong in unescape(tag) or says_so or chooses, tag
        for path in ("/runs/export.csv", "/runs/export.json", "/batches/new", "/api/v1/runs"):
            assert (await browser.get(f"{path}?workflow=payout&{wrong}")).status_code == 400, (path, wrong)


async def test_a_batch_that_nothing_brings_back_says_what_goes_as_well_and_asks_for_its_number_and_a_reason(
    browser: Browser, client: Client, failed: list[str]
) -> None:
    before = await client.count()
    page = (await browser.get("/batches/new?verb=delete")).text
    assert "Delete 3 runs and all below them</button>" in page
    fields = {"verb": "delete", "number": "3", "typed": "2", "reason": ""}
    refused = await browser.send_form("/batches", fields)
    assert refused.status_code == 422
    assert "say why" in refused.text
    assert "type 3 to say" in refused.text
    assert await client.count() == before

    begun = await browser.send_form("/batches", {**fields, "typed": "3", "reason": "a try"})
    assert begun.headers["Location"].startswith("/batches/")
    # Of a few that are picked, and of what code has a say in, no number is asked for.
    assert 'name="typed"' in page
    for path in ("/batches/new?verb=delete&workflow=payout", "/batches/new?verb=cancel", "/batches/new?verb=retry"):
        assert 'name="typed"' not in (await browser.get(path)).text


async def test_redriving_all_is_of_what_the_page_is_narrowed_to(browser: Browser, failed: list[str]) -> None:
    page = (await browser.get("/dead-letter?queue=default&since=1h")).text

    assert link(page, "Redrive all that fit…") == "/batches/new?verb=redrive&status=dead_letter&queue=default&since=1h"
    assert "since=1h" in link(page, "Failed")
    assert '<input type="hidden" name="since" value="1h">' in page
    assert (await browser.get("/dead-letter?status=completed")).status_code == 400


async def test_paging_forth_and_back_shows_each_run_once(browser: Browser, client: Client) -> None:
    ids = [run.id for run in await client.start_many(checkout, [(number,) for number in range(7)])]

    first = (await browser.get("/runs", params={"limit": "3"})).text
    second = (await browser.get(link(first, "Older →"))).text
    third = (await browser.get(link(second, "Older →"))).text

    assert rows_of(first) + rows_of(second) + rows_of(third) == ids[::-1]
    assert rows_of((await browser.get(link(third, "← Newer"))).text) == rows_of(second)


async def test_a_list_fetched_again_keeps_its_rows_and_counts_what_is_new(browser: Browser, client: Client) -> None:
    await client.start(checkout, 1)
    page = (await browser.get("/runs")).text
    again = re.search(r'id="list" hx-get="([^"]+)"', page)
    assert again is not None

    await client.start(checkout, 2)
    fetched = (await browser.get(unescape(again[1]))).text

    assert rows_of(fetched) == rows_of(page)
    assert "1 new" in fetched
    assert len(rows_of((await browser.get(link(fetched, "1 new"))).text)) == 2


async def test_an_open_list_goes_on_after_the_console_was_started_anew(browser: Browser, client: Client) -> None:
    run = await client.start(checkout, 1)
    stale = {"cursor": "of-a-console-that-is-gone"}

    assert (await browser.get("/runs", params=stale)).status_code == 400
    assert rows_of((await browser.get("/runs", params=stale, headers={"HX-Request": "true"})).text) == [run.id]


async def test_selected_runs_are_asked_about_and_then_changed(browser: Browser, client: Client) -> None:
    runs = await client.start_many(checkout, [(number,) for number in range(3)])

    asked = await browser.send_form("/runs/bulk", verb="cancel", id=[run.id for run in runs[:2]], back="/runs")
    assert asked.status_code == 200
    assert "Cancel 2 runs" in asked.text
    assert {str(await run.status()) for run in runs} == {"pending"}

    begun = await browser.send_form("/batches", verb="cancel", id=[run.id for run in runs[:2]], reason="a mistake")
    assert begun.status_code == 303
    await runs[1].reached(rq.Status.CANCELLED, timeout=10)
    assert str(await runs[0].status()) == "cancelled"
    assert str(await runs[2].status()) == "pending"
    assert "a mistake" in (await browser.get(begun.headers["Location"])).text


async def test_all_that_fit_are_counted_before_anything_is_changed(browser: Browser, client: Client) -> None:
    await client.start_many(checkout, [(number,) for number in range(12)])

    page = (await browser.get("/batches/new", params={"verb": "cancel", "workflow": "checkout"})).text

    assert "Cancel 12 runs" in page
    assert 'name="workflow" value="checkout"' in page
    assert await client.count(rq.RunFilter(status=rq.Status.PENDING)) == 12


async def test_pressing_a_bulk_button_with_nothing_selected_says_so(browser: Browser) -> None:
    answer = await browser.send_form("/runs/bulk", verb="cancel", back="/runs")

    assert answer.headers["Location"] == "/runs"
    assert "Select some runs first" in (await browser.get("/runs")).text


async def test_dead_letters_that_failed_alike_stand_together(browser: Browser, failed: list[str]) -> None:
    page = (await browser.get("/dead-letter")).text

    assert page.count('id="group-') == 1
    assert "<strong>3</strong>" in page
    listed = (await browser.get(link(page, "<strong>3</strong>"))).text
    assert sorted(rows_of(listed)) == sorted(failed)
    asked = (await browser.get(link(page.replace("<strong>3</strong>", ""), "Redrive…"))).text
    assert "Redrive 3 runs" in asked


async def test_markup_in_errors_and_names_is_shown_as_text(browser: Browser, client: Client, failed: list[str]) -> None:
    await client.options(key=NASTY, metadata={NASTY: NASTY}, queue=f"q{NASTY}").start(checkout, 1)

    for path in ("/runs", "/dead-letter", "/queues", f"/runs?q={NASTY}", f"/audit?principal={NASTY}"):
        page = (await browser.get(path)).text
        assert "<img" not in page
        assert "</script>" not in re.sub(r"<script src=[^>]+></script>", "", page)


async def test_a_blocked_run_shows_what_is_recorded_against_what_was_asked(browser: Browser, client: Client) -> None:
    @rq.workflow(name="changed")
    def before(ctx: rq.Context) -> rq.Flow[None]:
        yield ctx.signal("first")

    @rq.workflow(name="changed")
    def after(ctx: rq.Context) -> rq.Flow[None]:
        yield ctx.signal("second")

    run = await client.start("changed")
    async with rq.Worker(client, workflows=[before], build="a"):
        await run.reached(rq.Status.WAITING, timeout=10)
    async with rq.Worker(client, workflows=[after], build="b", cache=0):
        await run.send("first", 1)
        await run.reached(rq.Status.BLOCKED, timeout=10)

    page = text_of((await browser.get("/blocked")).text)
    assert "first" in page
    assert "second" in page


async def test_what_people_did_is_in_the_audit(browser: Browser, client: Client) -> None:
    run = await client.start(checkout, 1)
    await browser.send_form("/batches", verb="cancel", id=[run.id], reason="a test order")
    await run.reached(rq.Status.CANCELLED, timeout=10)

    assert "a test order" in text_of((await browser.get("/audit")).text)
    wrong = await browser.get("/audit?run=none&principal=ann")
    assert wrong.status_code == 400
    assert 'value="ann"' in wrong.text
    assert "none" in text_of(wrong.text)
    table = (await browser.get("/audit/export.csv")).text
    assert table.startswith("id,at,principal,action")
    assert "a test order" in table


async def test_a_list_is_kept_as_a_file_in_which_no_text_is_a_formula(browser: Browser, client: Client) -> None:
    await client.options(key="=1+1").start(checkout, 1)

    answer = await browser.get("/runs/export.csv", params={"workflow": "checkout"})

    assert answer.headers["Content-Disposition"] == 'attachment; filename="runs.csv"'
    assert ',"\'=1+1",' in answer.text
    kept = (await browser.get("/runs/export.json")).json()
    assert (kept["items"][0]["key"], kept["cut"]) == ("=1+1", None)


@pytest.mark.parametrize("path", ["/runs/export.csv?workflow=checkout", "/audit/export.csv?action=start"])
async def test_a_file_of_a_list_has_so_many_rows_and_says_if_there_are_more(
    browser: Browser, client: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for nth in range(3):
        await browser.post("/api/v1/runs", json={"workflow": "checkout", "args": [nth]})
    [stem] = re.findall(r"^/(\w+)", path)

    monkeypatch.setattr(exporting, "MOST_EXPORTED", 2)
    few = await browser.get(path)
    assert few.headers["Content-Disposition"] == f'attachment; filename="{stem}-newest-2.csv"'
    assert len(few.text.splitlines()) == 1 + 2


async def test_a_search_that_finds_nothing_page_after_page_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "PATIENCE", 3.0)
    # Each look takes a second.
    monkeypatch.setattr(exporting, "time", SimpleNamespace(monotonic=lambda: float(looks)))
    looks = 0

    async def nothing(_: str | None) -> AuditPage:
        nonlocal looks
        looks += 1
        return AuditPage(rows=(), next=str(looks))

    found = await exporting.gathered(nothing)
    assert (found.rows, found.cut) == ([], "time")
    assert found.file_name("audit", "csv") == "audit-newest-0-time-was-up.csv"
    assert looks == 4


async def test_another_time_zone_changes_the_times_of_every_page(browser: Browser, client: Client) -> None:
    await client.schedules.put(rq.Schedule("noon", "checkout", (1,), cron="0 12 * * *"))
    assert " 12:00:00" in (await browser.get("/schedules/noon")).text

    await browser.send_form("/zone", zone="Asia/Tokyo", back="/schedules/noon")

    page = (await browser.get("/schedules/noon")).text
    assert " 21:00:00" in page
    assert " 12:00:00" not in page
    # The menu of a telephone says so, where the bar has no room.
    assert "local · times in Asia/Tokyo · system theme" in text_of(page)


async def test_rows_are_as_roomy_as_the_browser_has_chosen(browser: Browser) -> None:
    assert 'data-density="compact"' in (await browser.get("/runs")).text

    await browser.send_form("/settings/density", density="roomy", back="/settings")

    assert 'data-density="roomy"' in (await browser.get("/runs")).text


async def test_who_may_only_look_is_offered_nothing_else(reader: Browser, client: Client) -> None:
    await client.options(queue="mail").start(checkout, 1)
    await client.schedules.put(rq.Schedule("noon", "checkout", (1,), cron="0 12 * * *"))
    await client.limits.set("stripe", concurrency=1)

    paths = ("/runs", "/queues", "/queues/mail", "/schedules", "/schedules/noon", "/limits", "/dead-letter", "/types")
    for path in paths:
        page = (await reader.get(path)).text
        forms = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]+)"', page)
        assert set(forms) <= {"/theme", "/zone", "/settings/density", "/runs/views"}, (path, forms)
    assert (await reader.get("/schedule")).status_code == 403
