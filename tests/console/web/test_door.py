"""Who is let in, and what they may do: the door of every handler."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from runnerq.client.client import Client
from runnerq.console.access import ALL, READ_ONLY, Principal
from runnerq.console.console import Console
from runnerq.console.web.auth import GUESSES, basic_auth, forwarded_user, network_of, token_auth
from runnerq.errors import ConfigurationError
from tests.console.browsing import PLACE, Browser, browsing, console_of

TOKEN = "a-token-of-forty-letters-that-nobody-knows"  # noqa: S105 - of these tests alone


@pytest.fixture
async def signed(client: Client) -> AsyncIterator[Browser]:
    """A browser at a console with a token, signed in."""
    async with console_of(client, auth=token_auth(TOKEN)) as browser:
        await sign_in(browser, TOKEN)
        await browser.get("/settings")  # the page that one is led to, with a form of this session
        yield browser


async def sign_in(browser: Browser, token: str) -> httpx.Response:
    await browser.get("/login")
    return await browser.post("/login", data={"csrf": browser.token, "token": token, "next": "/runs"})


async def paused(client: Client) -> list[str]:
    return [queue.name for queue in await client.queues.list() if queue.paused_at is not None]


PAUSE = {"name": "mail", "verb": "pause"}
"""The smallest action: it needs a permission and no run."""


def pause(browser: Browser, *, data: dict[str, str] | None = None, **options: Any) -> Any:
    return browser.post("/queues", data={**PAUSE, **(data or {})}, **options)


class TestWithoutAuth:
    async def test_this_machine_is_answered(self, browser: Browser) -> None:
        for host in ("127.0.0.1:8787", "localhost:1", "LOCALHOST", "[::1]:9"):
            assert (await browser.get("/settings", headers={"Host": host})).status_code == 200, host

    async def test_another_machine_is_not(self, client: Client) -> None:
        async with console_of(client, peer="10.0.0.7") as browser:
            answer = await browser.get("/settings")
        assert answer.status_code == 403
        assert "answers this machine alone" in answer.text

    async def test_a_page_that_has_a_name_lead_here_is_not(self, browser: Browser) -> None:
        for host in ("evil.example", "evil.example:8787", "localhost.evil.example", "127.0.0.1.nip.io", ""):
            assert (await browser.get("/settings", headers={"Host": host})).status_code == 403, host

    async def test_who_forwards_what_others_ask_is_not(self, browser: Browser) -> None:
        for header in (
            "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Server", "X-Forwarded", "X-Real-IP", "Via",
            "X-Original-Forwarded-For", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP", "X-Envoy-External-Address",
            "X-Rewrite-URL", "Client-IP", "X-Scheme", "X-Nginx-Proxy", "X-Request-Start", "CF-Ray", "CDN-Loop",
            "Fly-Client-IP", "DO-Connecting-IP", "X-Azure-ClientIP", "X-Azure-FDID", "X-Vercel-Id", "X-Appengine-City",
            "X-ProxyUser-Ip", "Ali-CDN-Real-IP", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context", "Fly-Region", "X-Host",
        ):  # fmt: skip
            assert (await browser.get("/settings", headers={header: "for=127.0.0.1"})).status_code == 403, header

    async def test_what_nginx_sends_if_told_nothing_is_not(self, client: Client) -> None:
        console = Console(client).app()

        async def nginx(scope: Any, receive: Any, send: Any) -> None:
            await console({**scope, "http_version": "1.0"}, receive, send)

        async with browsing(nginx) as browser:
            assert (await browser.get("/settings")).status_code == 403
            assert (await browser.post("/api/v1/queues/mail/pause", json={})).status_code == 403
        assert await paused(client) == []

    async def test_a_page_that_is_somewhere_else_is_not_though_it_is_asked_for_as_localhost(
        self, client: Client, browser: Browser
    ) -> None:
        own = {"Sec-Fetch-Site": "same-origin"}
        for headers in (
            {"Origin": "https://console.example"},
            {"Origin": "https://console.example", **own},
            {"Origin": "null"},
            {"Referer": "https://console.example/runs", **own},
            {"Referer": "http://console.example/runs"},
            {"Referer": "http://[/"},
        ):
            assert (await browser.get("/settings", headers=headers)).status_code == 403, headers
            assert (await pause(browser, data={"csrf": browser.token}, headers=headers)).status_code == 403, headers
        assert await paused(client) == []
        led = {"Referer": "https://wiki.example/", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert (await browser.get("/settings", headers=led)).status_code == 200
        assert (await browser.get("/settings", headers={"Referer": f"{PLACE}/runs", **own})).status_code == 200

    async def test_a_host_that_no_browser_sends_is_not(self, browser: Browser) -> None:
        for hosts in ([("Host", "evil@localhost")], [("Host", "localhost"), ("Host", "localhost")]):
            assert (await browser.get("/settings", headers=hosts)).status_code == 403, hosts

    async def test_that_there_is_no_auth_is_said_once_when_it_begins_or_is_asked(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        for console, said in ((Console(client), 1), (Console(client, auth=token_auth(TOKEN)), 0)):
            caplog.clear()
            for _ in range(2):
                async with console.lifespan(), browsing(console.app()) as browser:
                    await browser.get("/settings")
            assert len([line for line in caplog.messages if "has no auth" in line]) == said
        caplog.clear()
        async with browsing(Console(client).app()) as browser:
            await browser.get("/settings")
        assert "a proxy on this machine can make strangers look local" in caplog.text

    async def test_a_server_that_listens_on_another_address_answers_nobody(self, client: Client) -> None:
        async with console_of(client, place="http://10.0.0.1:8787") as browser:
            assert (await browser.get("/settings", headers={"Host": "localhost"})).status_code == 403

    async def test_probes_and_files_are_answered_to_anybody(self, client: Client) -> None:
        async with console_of(client, place="http://pod.example", peer="10.0.0.7") as browser:
            for path in ("/healthz", "/readyz", "/static/console.css"):
                assert (await browser.get(path)).status_code == 200, path


class TestToken:
    async def test_a_page_leads_to_the_sign_in_and_the_sign_in_back(self, client: Client) -> None:
        async with console_of(client, auth=token_auth(TOKEN)) as browser:
            turned = await browser.get("/runs?status=failed")
            assert (turned.status_code, turned.headers["location"]) == (303, "/login?next=%2Fruns%3Fstatus%3Dfailed")
            asked = await browser.get(turned.headers["location"])
            assert 'value="/runs?status=failed"' in asked.text
            entered = await sign_in(browser, TOKEN)
            assert (entered.status_code, entered.headers["location"]) == (303, "/runs")
            assert (await browser.get("/settings")).status_code == 200

    async def test_a_wrong_token_is_said_and_no_session_given(self, client: Client) -> None:
        async with console_of(client, auth=token_auth(TOKEN)) as browser:
            refused = await sign_in(browser, "not-the-token")
            assert refused.status_code == 401
            assert "not-the-token" not in refused.text
            assert (await browser.get("/settings")).status_code == 303

    async def test_signing_out_ends_the_session_also_for_who_has_a_copy_of_its_cookie(self, signed: Browser) -> None:
        copied = httpx.Cookies(signed.cookies)
        assert (await signed.send_form("/logout")).headers["location"] == "/login"
        assert (await signed.get("/settings")).status_code == 303
        signed.cookies = copied
        assert (await signed.get("/settings")).status_code == 303

    async def test_what_was_typed_when_the_session_had_ended_is_shown_and_no_open_page_goes_away(
        self, signed: Browser
    ) -> None:
        fields = {"verb": "pause", "name": "mail", "reason": "the bank is closed", "back": "/queues"}
        await signed.send_form("/logout")
        for site, kept in (("same-origin", True), ("cross-site", False)):
            refused = await signed.post("/queues", data=fields, headers={"Sec-Fetch-Site": site})
            assert refused.status_code in (401, 403)
            assert ("the bank is closed" in refused.text) == kept
            assert ('href="/queues">Back to the form</a>' in refused.text) == kept
        part = await signed.get("/queues", headers={"HX-Request": "true"})
        assert (part.status_code, part.headers.get("HX-Refresh"), part.headers["HX-Reswap"]) == (401, None, "none")

    async def test_a_form_is_of_the_session_whose_page_it_is_on(self, client: Client, signed: Browser) -> None:
        planted = "A" * 43
        for cookie in signed.cookies.jar:
            if cookie.name.startswith("rq_csrf_"):
                cookie.value = planted
        sent = await signed.post("/queues", data={"verb": "pause", "name": "mail", "csrf": planted})
        assert sent.status_code == 403
        assert await paused(client) == []

    async def test_behind_a_proxy_that_takes_https_off_cookies_are_for_https_alone(self, client: Client) -> None:
        async with console_of(client, auth=token_auth(TOKEN)) as browser:
            plain = await browser.get("/login")
            browser.cookies.clear()
            behind = await browser.get("/login", headers={"X-Forwarded-Proto": "https"})
        assert "secure" not in plain.headers["set-cookie"].lower()
        assert "secure" in behind.headers["set-cookie"].lower()

    async def test_a_session_of_another_token_or_a_made_up_one_is_none(self, client: Client, signed: Browser) -> None:
        async with console_of(client, auth=token_auth(TOKEN[::-1])) as other:
            other.cookies = signed.cookies
            assert (await other.get("/settings")).status_code == 303
        name = next(cookie.name for cookie in signed.cookies.jar if cookie.name.startswith("rq_session_"))
        signed.cookies.clear()
        for made_up in ("", ".", "9999999999.", "9999999999.00", "1.5.9", "٣.x"):
            answer = await signed.get("/settings", headers={"Cookie": f"{name}={made_up}".encode()})
            assert answer.status_code == 303, made_up

    async def test_a_session_ends_by_itself(self, signed: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("runnerq.console.web.auth.time.time", lambda: 4e9)
        assert (await signed.get("/settings")).status_code == 303

    async def test_a_bearer_of_the_token_needs_no_cookie_and_no_page(self, client: Client) -> None:
        async with console_of(client, auth=token_auth(TOKEN)) as browser:
            assert (await pause(browser, headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 303
        assert await paused(client) == ["mail"]

    async def test_a_program_without_it_gets_401_and_no_page(self, client: Client) -> None:
        async with console_of(client, auth=token_auth(TOKEN)) as browser:
            for headers in ({}, {"Authorization": "Bearer x"}):
                answer = await browser.get("/api/v1/runs", headers=headers)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert answer.headers["content-type"] == "application/problem+json"

    async def test_who_guesses_is_held_up_and_who_is_signed_in_is_not(self, client: Client) -> None:
        app = Console(client, auth=token_auth(TOKEN)).app()
        async with browsing(app) as browser, browsing(app, peer="10.0.0.9") as elsewhere:
            await sign_in(browser, TOKEN)
            for nth in range(GUESSES):
                assert (await sign_in(elsewhere, f"guess {nth}")).status_code == 401
            held = await sign_in(elsewhere, "one more")
            assert held.status_code == 429
            assert 0 < int(held.headers["retry-after"]) <= 60
            assert (await browser.get("/settings")).status_code == 200

    async def test_who_guesses_does_not_keep_those_out_who_know_it(self, client: Client) -> None:
        app = Console(client, auth=token_auth(TOKEN)).app()
        async with browsing(app) as guesser, browsing(app) as browser:
            for nth in range(GUESSES + 1):
                answer = await guesser.get("/api/v1/me", headers={"Authorization": f"Bearer {nth}"})
            assert answer.status_code == 429
            assert (await browser.get("/api/v1/me", headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 200
            assert (await sign_in(browser, TOKEN)).status_code == 303

    async def test_a_network_of_ipv6_addresses_guesses_as_one(self, client: Client) -> None:
        app = Console(client, auth=token_auth(TOKEN)).app()
        statuses = []
        for nth in range(GUESSES + 1):
            async with browsing(app, peer=f"2001:db8::{nth}") as guesser:
                statuses.append((await guesser.get("/api/v1/me", headers={"Authorization": "Bearer x"})).status_code)
        assert statuses == [401] * GUESSES + [429]
        assert network_of("2001:db8:0:1::1") != network_of("2001:db8:0:2::1")
        assert network_of("::ffff:10.0.0.1") == network_of("10.0.0.1") == "10.0.0.1"
        assert network_of("fe80::1%eth0") == "fe80::/64"
        assert network_of("a local socket") == "a local socket"

    async def test_who_is_held_up_is_not_told_where_the_database_is(self, client: Client) -> None:
        async with console_of(client, auth=token_auth(TOKEN)) as browser:
            for nth in range(GUESSES + 1):
                held = await sign_in(browser, f"guess {nth}")
        assert held.status_code == 429
        assert client.place not in held.text

    async def test_where_one_goes_after_signing_in_is_within_the_console(self, signed: Browser) -> None:
        outside = (
            "https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/\nx", "x", "//[",
            "http://[", "/runs/../..", "/runs/%2e%2e/x", "/runs\\..\\..",
        )  # fmt: skip
        for way_out in outside:
            await signed.get("/settings")
            fields = {"csrf": signed.token, "token": TOKEN, "next": way_out}
            assert (await signed.post("/login", data=fields)).headers["location"] == "/", way_out

    async def test_an_address_that_no_header_can_hold_is_written_so_that_one_can(self, signed: Browser) -> None:
        for given, to in (("/runs?q=€", "/runs?q=%E2%82%AC"), ("/runs?q=a%2Fb c", "/runs?q=a%2Fb%20c")):
            await signed.get("/settings")
            fields = {"csrf": signed.token, "token": TOKEN, "next": given}
            assert (await signed.post("/login", data=fields)).headers["location"] == to

    def test_a_token_that_can_be_guessed_or_is_not_there_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("RUNNERQ_CONSOLE_TOKEN", raising=False)
        with pytest.raises(ConfigurationError, match=r"\$RUNNERQ_CONSOLE_TOKEN"):
            token_auth()
        with pytest.raises(ConfigurationError, match="can be guessed"):
            token_auth("secret")


class TestOtherWays:
    async def test_basic_names_and_passwords(self, client: Client) -> None:
        auth = basic_auth({"ada": "lovelace", "bob": "b"}, access={"ada": ALL, "bob": READ_ONLY})
        async with console_of(client, auth=auth) as browser:
            asked = await browser.get("/settings")
            assert (asked.status_code, asked.headers["www-authenticate"].split(" ")[0]) == (401, "Basic")
            for pair, status in (("ada:lovelace", 200), ("ada:b", 401), ("eve:", 401), ("ada", 401)):
                answer = await browser.get("/settings", headers=basic(pair))
                assert answer.status_code == status, pair

    async def test_who_guesses_passwords_is_held_up_and_those_who_were_in_are_not(self, client: Client) -> None:
        async with console_of(client, auth=basic_auth({"ada": "lovelace", "bob": "boole"})) as browser:
            assert (await browser.get("/settings", headers=basic("ada:lovelace"))).status_code == 200
            for nth in range(GUESSES + 1):
                answer = await browser.get("/settings", headers=basic(f"bob:{nth}"))
            assert answer.status_code == 429
            assert (await browser.get("/settings", headers=basic("bob:boole"))).status_code == 429
            assert (await browser.get("/settings", headers=basic("ada:lovelace"))).status_code == 200

    async def test_a_password_that_the_browser_adds_by_itself_is_no_proof_of_our_page(self, client: Client) -> None:
        async with console_of(client, auth=basic_auth({"ada": "lovelace"})) as browser:
            assert (await pause(browser, headers=basic("ada:lovelace"))).status_code == 403
            assert await paused(client) == []

    async def test_a_proxy_is_believed_and_nobody_else(self, client: Client) -> None:
        auth = forwarded_user("X-User", trusted_proxies=["10.0.0.0/8"], access=READ_ONLY)
        app = Console(client, auth=auth).app()
        for peer, headers, status in (
            ("10.1.2.3", [("X-User", "ada")], 200),
            ("::ffff:10.1.2.3", [("X-User", "ada")], 200),
            ("192.168.0.1", [("X-User", "ada")], 401),
            ("10.1.2.3", [], 401),
            ("10.1.2.3", [("X-User", "")], 401),
            ("10.1.2.3", [("X-User", "eve"), ("X-User", "ada")], 401),
        ):
            async with browsing(app, peer=peer) as browser:
                assert (await browser.get("/settings", headers=headers)).status_code == status, (peer, headers)
        with pytest.raises(ConfigurationError, match="trusted_proxies"):
            forwarded_user("X-User", trusted_proxies=[])

    @pytest.mark.parametrize("way", ["sync", "async"])
    async def test_a_callable_of_ones_own_says_who_it_is(self, client: Client, way: str) -> None:
        def who(connection: Any) -> Principal | None:
            return Principal("ada", ALL) if connection.headers.get("x-team") == "blue" else None

        async def who_at_last(connection: Any) -> Principal | None:
            return who(connection)

        auth: Callable[..., Any] = who if way == "sync" else who_at_last
        async with console_of(client, auth=auth, login_url="https://id.example/login") as browser:
            assert (await browser.get("/settings")).headers["location"] == "https://id.example/login"
            shown = await browser.get("/settings", headers={"X-Team": "blue"})
            assert shown.status_code == 200
            assert "ada" in shown.text

    @pytest.mark.parametrize("answer", [True, "ada", 7, {"name": "ada"}])
    async def test_one_that_answers_with_nobody_is_a_page_that_says_so(self, client: Client, answer: object) -> None:
        async with console_of(client, auth=lambda _: answer) as browser:
            shown = await browser.get("/settings")
            told = await browser.get("/api/v1/me")
        assert (shown.status_code, told.status_code) == (500, 500)
        for text in (shown.text, told.text):
            assert f"has answered with a {type(answer).__name__}" in text

    async def test_an_error_whose_page_cannot_be_made_is_told_all_the_same(
        self, browser: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("runnerq.console.web.errors.page", lambda *_, **__: 1 / 0)
        answer = await browser.get("/runs/nonsense")
        assert answer.status_code == 404
        assert "There is no such run" in answer.text


class TestPermissions:
    async def test_who_may_not_is_told_which_permission_it_needs(self, client: Client) -> None:
        auth = token_auth(TOKEN, access={"cancel"})
        async with console_of(client, auth=auth) as browser:
            answer = await pause(browser, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 403
        assert "queue.write" in answer.text
        assert await paused(client) == []

    async def test_read_only_takes_every_permission(self, client: Client, reader: Browser) -> None:
        assert (await reader.send_form("/queues", PAUSE)).status_code == 403
        assert await paused(client) == []

    async def test_who_tries_what_they_may_not_stands_in_the_audit_once(self, client: Client, reader: Browser) -> None:
        for nth in range(3):
            assert (await reader.post(f"/api/v1/runs/{nth}/cancel", json={})).status_code == 403
        [row] = (await client.audit.list(10)).items
        assert (row.principal, row.action, row.target) == ("local", "cancel", "POST /api/v1/runs/{run_id:str}/cancel")
        assert "needs the permission 'cancel'" in row.outcome

    async def test_what_another_site_sends_in_somebodys_name_is_no_try_of_theirs(
        self, client: Client, reader: Browser
    ) -> None:
        await reader.get("/settings")
        token = {"csrf": reader.token}
        for data, headers in ((token, {"Sec-Fetch-Site": "cross-site"}), (token, {"Origin": "null"}), ({}, {})):
            assert (await reader.post("/runs/x/delete", data=data, headers=headers)).status_code == 403
        assert not (await client.audit.list(10)).items

    @pytest.mark.parametrize("way", ["sync", "async"])
    async def test_authorize_is_asked_of_each_permission(self, client: Client, way: str) -> None:
        asked = set()

        def may(principal: Principal, permission: str) -> bool:
            asked.add((principal.name, permission))
            return permission != "queue.write"

        async def may_at_last(principal: Principal, permission: str) -> bool:
            return may(principal, permission)

        async with console_of(client, authorize=may if way == "sync" else may_at_last) as browser:
            assert (await browser.send_form("/queues", PAUSE)).status_code == 403
        assert ("local", "queue.write") in asked


class TestForms:
    async def test_another_site_may_lead_here_and_not_have_it_as_a_part(self, browser: Browser) -> None:
        for site in ("cross-site", "same-site"):
            for mode, status in (("navigate", 200), ("cors", 403), ("no-cors", 403)):
                headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
                assert (await browser.get("/settings", headers=headers)).status_code == status, (site, mode)

    async def test_a_script_of_another_site_reads_nothing_also_where_the_browser_says_no_more_than_its_origin(
        self, client: Client
    ) -> None:
        async with console_of(client, auth=lambda _: Principal("ada", ALL)) as browser:
            for origin, status in (("http://evil.example", 403), (PLACE, 200)):
                assert (await browser.get("/api/v1/me", headers={"Origin": origin})).status_code == status, origin

    async def test_a_form_of_a_page_of_ours_is_taken(self, client: Client, browser: Browser) -> None:
        assert (await browser.send_form("/queues", PAUSE)).status_code == 303
        assert await paused(client) == ["mail"]

    async def test_the_token_may_come_as_a_header(self, client: Client, browser: Browser) -> None:
        await browser.get("/settings")
        assert (await pause(browser, headers={"X-CSRF-Token": browser.token})).status_code == 303

    async def test_one_of_another_site_is_not_even_with_the_token(self, client: Client, browser: Browser) -> None:
        await browser.get("/settings")
        for headers in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
        ):
            answer = await pause(browser, data={"csrf": browser.token}, headers=headers)
            assert answer.status_code == 403, headers
        assert await paused(client) == []

    async def test_one_without_the_token_is_not(self, client: Client, browser: Browser) -> None:
        await browser.get("/settings")
        for data in ({}, {"csrf": ""}, {"csrf": "made-up"}, {"csrf": "x" * 43}, {"csrf": "ü" * 43}):
            answer = await pause(browser, data=data, headers={"Sec-Fetch-Site": "same-origin"})
            assert answer.status_code == 403, data
        assert await paused(client) == []

    async def test_a_token_with_no_cookie_that_says_the_same_is_none(self, client: Client, browser: Browser) -> None:
        assert (await pause(browser, data={"csrf": ""})).status_code == 403
        assert (await pause(browser, data={"csrf": "x" * 43})).status_code == 403
        assert await paused(client) == []

    async def test_a_program_on_this_machine_needs_none(self, browser: Browser) -> None:
        assert (await browser.post("/api/v1/queues/mail/pause", json={})).status_code == 200

    async def test_a_program_that_deletes_needs_no_content_type(self, client: Client, browser: Browser) -> None:
        run = await client.start("pay", 1)
        await client.terminate(run.id)
        browser.cookies.clear()
        path = f"/api/v1/runs/{run.id}"
        assert (await browser.delete(path, headers={"Origin": "http://evil.example"})).status_code == 403
        assert (await browser.delete(path, headers={"Cookie": "a=b"})).status_code == 403
        assert (await browser.delete(path)).status_code == 200

    async def test_a_form_with_more_fields_than_a_page_has_is_not_read(self, client: Client, browser: Browser) -> None:
        await browser.get("/settings")
        head = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await browser.post("/queues", content=f"csrf={browser.token}" + "&a" * 100_000, headers=head)
        assert answer.status_code == 413
        assert "more than 2,000 fields" in answer.text

    async def test_a_body_that_a_form_can_send_is_no_programs(self, client: Client, browser: Browser) -> None:
        sent = {"content": "{}", "headers": {"Content-Type": "text/plain"}}
        assert (await browser.post("/api/v1/queues/mail/pause", **sent)).status_code == 403
        assert (await browser.post("/api/v1/queues/mail/pause")).status_code == 403
        assert await paused(client) == []


def basic(pair: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
