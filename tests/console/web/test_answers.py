"""What stands above every answer, what errors become, and the files."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from litestar import Response

from runnerq.client.client import Client
from runnerq.console.access import Forbidden
from runnerq.console.console import Console
from runnerq.console.models.filters import BadFields
from runnerq.console.web.assets import assets
from runnerq.console.web.context import Here
from runnerq.console.web.faults import fault_of
from runnerq.console.web.guards import view
from runnerq.console.web.headers import ALWAYS
from runnerq.errors import ReadTimeout, RunNotFound, StorageUnavailable, WrongState
from runnerq.persistence.postgres import PostgresStorage
from tests.console.browsing import Browser, browsing, console_of

RUN = "019a0000-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("path", "status", "words", "to"),
    [
        ("/runs?queue=mail&cursor=gone", 400, "From the beginning", "/runs?queue=mail"),
        ("/blocked?cursor=gone", 400, "From the beginning", "/blocked"),
        (f"/runs/{RUN}/history", 404, "To the runs", "/runs"),
        ("/no/such/page", 404, "To the runs", "/runs"),
        ("/schedules/none", 404, "To the schedules", "/schedules"),
        ("/batches/none", 404, "To the batches", "/batches"),
        ("/workers/none", 404, "To the workers", "/workers"),
        ("/types/none", 404, "To the types", "/types"),
    ],
)
async def test_what_trying_again_cannot_help_leads_to_where_one_goes_on(
    browser: Browser, path: str, status: int, words: str, to: str
) -> None:
    answer = await browser.get(path)
    assert answer.status_code == status
    assert "Try again" not in answer.text
    assert f'href="{to}">{words}</a>' in answer.text


@pytest.mark.parametrize(
    ("to", "fields"),
    [
        ("/limits", {"verb": "set", "scope": "stripe-and-more", "concurrency": "-5"}),
        ("/limits", {"verb": "set", "scope": "stripe-and-more"}),
        ("/schedules", {"verb": "backfill", "name": "nightly", "since": "soon, my dear", "until": "later"}),
        ("/queues", {"verb": "pause", "name": "mail", "reason": "long " * 500}),
    ],
)
async def test_a_form_that_is_refused_leads_back_and_shows_what_was_typed(
    browser: Browser, to: str, fields: dict[str, str]
) -> None:
    refused = await browser.send_form(to, fields, back=f"{to}?look=1")
    assert refused.status_code == 400
    assert f'href="{to}?look=1">Back to the form</a>' in refused.text
    assert "Try again" not in refused.text
    for name, text in fields.items():
        assert (f">{text}</dd>" in refused.text) == (name != "verb"), name
    assert browser.token not in refused.text.partition('class="oops"')[2]


async def test_a_server_that_is_not_well_is_tried_again() -> None:
    storage = PostgresStorage("postgresql://nobody@127.0.0.1:1/none")
    async with console_of(Client(storage)) as browser:
        assert 'href="/runs">Try again</a>' in (await browser.get("/runs")).text


async def test_the_command_of_a_run_has_the_options_of_its_console(client: Client) -> None:
    run = await client.start("nobody_knows")
    async with console_of(client, command_options="--dsn postgresql://db/shop --schema rq") as browser:
        page = (await browser.get(f"/runs/{run.id}")).text
    assert f">runnerq show {run.id} --dsn postgresql://db/shop --schema rq<" in page


class TestHeaders:
    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/settings", 200),
            ("/static/console.css", 200),
            ("/static/none", 404),
            (f"/runs/{RUN}", 404),
            ("/api/v1/runs", 200),
        ],
    )
    async def test_they_stand_above_pages_files_and_errors(self, browser: Browser, path: str, status: int) -> None:
        answer = await browser.get(path)
        assert answer.status_code == status, answer.text
        assert {name: answer.headers.get(name) for name in ALWAYS} == ALWAYS
        assert "HX-Request" in answer.headers["vary"]
        assert "access-control-allow-origin" not in answer.headers

    async def test_a_refused_action_has_them_too(self, browser: Browser) -> None:
        refused = await browser.post("/queues")
        assert refused.status_code == 403
        assert refused.headers["content-security-policy"] == ALWAYS["Content-Security-Policy"]

    async def test_pages_are_kept_nowhere_and_files_for_good(self, browser: Browser) -> None:
        assert (await browser.get("/settings")).headers["cache-control"] == "no-store"
        version = assets()["console.css"].version
        kept = await browser.get(f"/static/console.css?v={version}")
        assert "immutable" in kept.headers["cache-control"]
        assert (await browser.get("/static/console.css?v=old")).headers["cache-control"] == "no-cache"

    async def test_cookies_are_for_this_console_and_no_script(self, browser: Browser) -> None:
        cookie = (await browser.get("/settings")).headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Path=/" in cookie
        assert "Secure" not in cookie

    async def test_over_https_they_are_for_https_alone(self, client: Client) -> None:
        async with console_of(client, place="https://127.0.0.1:8787") as browser:
            assert "Secure" in (await browser.get("/settings")).headers["set-cookie"]


class TestFiles:
    async def test_nothing_that_is_not_a_file_of_ours_is_sent(self, browser: Browser) -> None:
        for name in (
            "VENDOR.toml",
            "../console.py",
            "..%2fconsole.py",
            "%2e%2e/console.py",
            "/etc/passwd",
            "none.css",
            "",
        ):
            assert (await browser.get(f"/static/{name}")).status_code == 404, name

    async def test_kinds_are_told_as_they_are(self, browser: Browser) -> None:
        kinds = {name: (await browser.get(f"/static/{name}")).headers["content-type"] for name in assets()}
        assert kinds["console.css"].startswith("text/css")
        assert kinds["live.js"].startswith("text/javascript")
        assert kinds["icon.svg"] == "image/svg+xml"


class TestErrors:
    async def test_a_browser_gets_a_page_and_a_program_a_problem(self, browser: Browser) -> None:
        shown = await browser.get(f"/runs/{RUN}")
        assert (shown.status_code, shown.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "There is no such run" in shown.text
        told = await browser.get(f"/api/v1/runs/{RUN}")
        assert told.headers["content-type"] == "application/problem+json"
        assert told.json() == {
            "type": "urn:runnerq:problem:run-not-found",
            "title": "There is no such run",
            "status": 404,
            "detail": str(RunNotFound(RUN)),
            "instance": f"/api/v1/runs/{RUN}",
            "run_id": RUN,
        }

    async def test_an_open_page_keeps_its_parts_unless_only_the_whole_page_can_say_why(self, browser: Browser) -> None:
        of_htmx = {"HX-Request": "true"}
        gone = await browser.get(f"/runs/{RUN}", headers=of_htmx)
        assert (gone.status_code, gone.headers["hx-refresh"], gone.text) == (404, "true", "")
        away = Client(PostgresStorage("postgresql://127.0.0.1:1/x", connect_timeout=0.1))
        async with console_of(away) as waiting:
            later = await waiting.get("/runs", headers=of_htmx)
            assert (later.status_code, later.headers["hx-reswap"], later.text) == (503, "none", "")

    async def test_what_nobody_has_foreseen_is_logged_and_not_shown(
        self, client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @view("/faulty")
        async def faulty(here: Here) -> Response[Any]:
            del here
            raise LookupError("a secret of the database")

        monkeypatch.setattr("runnerq.console.console.pages.HANDLERS", [faulty])
        async with browsing(Console(client).app()) as browser:
            with caplog.at_level(logging.ERROR, "runnerq.console"):
                shown = await browser.get("/faulty")
        assert shown.status_code == 500
        assert "a secret" not in shown.text
        assert "a secret of the database" in caplog.text

    async def test_an_address_that_takes_other_methods_says_so(self, browser: Browser) -> None:
        answer = await browser.post("/settings")
        assert (answer.status_code, "This cannot be done here" in answer.text) == (405, True)

    async def test_a_body_that_is_too_large_is_refused_before_it_is_read(self, browser: Browser) -> None:
        await browser.get("/settings")
        large = b"x" * ((4 << 20) + 1)
        answer = await browser.post(
            "/queues", content=large, headers={"Content-Type": "application/x-www-form-urlencoded"}
        )
        assert answer.status_code == 413

    def test_errors_keep_what_a_program_needs(self) -> None:
        assert fault_of(WrongState(RUN, "completed", "cancel")).more == {
            "run_id": RUN,
            "verb": "cancel",
            "run_status": "completed",
        }
        assert fault_of(Forbidden("ada", "cancel")).more == {"permission": "cancel"}
        assert fault_of(BadFields({"since": "no time"})).errors == {"since": "no time"}
        assert fault_of(StorageUnavailable("gone")).retry_in == 5
        assert fault_of(ReadTimeout("slow")).status == 504


class TestChoices:
    async def test_theme_and_zone_are_kept_and_lead_back(self, browser: Browser) -> None:
        sent = await browser.send_form("/theme", theme="dark", back="/settings?x=1")
        assert (sent.status_code, sent.headers["location"]) == (303, "/settings?x=1")
        await browser.send_form("/zone", zone="Asia/Tokyo", back="//evil.example")
        shown = (await browser.get("/settings")).text
        assert 'data-theme="dark"' in shown
        assert "Asia/Tokyo" in shown

    @pytest.mark.parametrize(
        ("path", "fields"),
        [("/theme", {"theme": "pink"}), ("/zone", {"zone": "Mars/Base"}), ("/zone", {"zone": "../../etc/passwd"})],
    )
    async def test_what_is_none_is_refused(self, browser: Browser, path: str, fields: dict[str, str]) -> None:
        assert (await browser.send_form(path, fields)).status_code == 400

    async def test_a_cookie_that_is_nonsense_counts_as_none(self, browser: Browser) -> None:
        await browser.send_form("/theme", theme="dark", back="/settings")
        names = {cookie.name.split("_")[1]: cookie.name for cookie in browser.cookies.jar}
        host = names["theme"].rsplit("_", 1)[1]
        nonsense = f"rq_theme_{host}=x; rq_zone_{host}=../etc; rq_flash_{host}=AAAA; rq_csrf_{host}=y"
        browser.cookies.clear()
        shown = await browser.get("/settings", headers={"Cookie": nonsense})
        assert shown.status_code == 200
        assert 'data-theme="system"' in shown.text
