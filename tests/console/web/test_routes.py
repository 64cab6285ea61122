"""Walks over every route of the console, pages and API: what each is held to, whoever adds one."""

from __future__ import annotations

import re

import pytest
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from runnerq.client.client import Client
from runnerq.console.access import ALL, PERMISSIONS, Principal
from runnerq.console.api.table import OPERATIONS
from runnerq.console.console import Console
from runnerq.console.table import ACTIONS
from runnerq.console.web.guards import PERMISSION, PUBLIC, STRANGERS, action
from runnerq.errors import ConfigurationError
from tests.console.browsing import Browser, console_of

SAFE = {"GET", "HEAD", "OPTIONS"}
OF_THE_BROWSER_ALONE = {"/login", "/logout", "/theme", "/zone", "/settings/density", "/runs/views"}
"""What changes cookies of who sends it, and nothing else."""
JSON = {"Content-Type": "application/json"}
RUN = "019a0000-0000-7000-8000-000000000001"


def handlers(app: Litestar) -> list[tuple[str, str, HTTPRouteHandler]]:
    """Path, method and handler of every route."""
    return [
        (route.path, method, handler)
        for route in app.routes
        for handler in getattr(route, "route_handlers", ())
        for method in sorted(handler.http_methods)
    ]


def acting(app: Litestar) -> set[tuple[str, str, str]]:
    """Path, method and permission of every route that changes something in the database."""
    return {
        (path, method, handler.opt[PERMISSION])
        for path, method, handler in handlers(app)
        if method not in SAFE and path not in OF_THE_BROWSER_ALONE
    }


def filled(path: str) -> str:
    return re.sub(r"\{(\w+)(:\w+)?\}", lambda found: RUN if "id" in found[1] else "x", path)


@pytest.fixture
def app(client: Client) -> Litestar:
    return Console(client).app()


def test_whatever_changes_something_names_a_permission(app: Litestar) -> None:
    unsafe = [(path, handler.opt.get(PERMISSION)) for path, method, handler in handlers(app) if method not in SAFE]
    assert len(unsafe) > 45
    assert {path for path, permission in unsafe if permission is None} == OF_THE_BROWSER_ALONE
    assert {permission for _, permission in unsafe if permission is not None} <= set(PERMISSIONS)


def test_what_is_answered_to_anybody_is_known(app: Litestar) -> None:
    public = {path for path, _, handler in handlers(app) if handler.opt.get(PUBLIC)}
    assert public == {"/healthz", "/readyz", "/static/{name:path}"}


def test_every_page_answers_head(app: Litestar) -> None:
    methods: dict[str, set[str]] = {}
    for path, method, _ in handlers(app):
        methods.setdefault(path, set()).add(method)
    assert [path for path, allowed in methods.items() if "GET" in allowed and "HEAD" not in allowed] == []


async def test_who_may_only_read_is_refused_by_every_route_that_changes_something(
    app: Litestar, reader: Browser
) -> None:
    await reader.get("/settings")
    wrong = {}
    for path, method, handler in handlers(app):
        permission = handler.opt.get(PERMISSION)
        if method in SAFE or permission is None:
            continue
        answer = await reader.request(method, filled(path), data={"csrf": reader.token})
        if answer.status_code != 403 or permission not in answer.text:
            wrong[f"{method} {path}"] = (answer.status_code, answer.text[:200])
    assert wrong == {}


async def test_who_may_only_read_changes_nothing_and_is_refused_before_a_body_is_read(
    app: Litestar, reader: Browser, client: Client
) -> None:
    for path, method, permission in acting(app):
        answer = await reader.request(method, filled(path), content=b"{", headers=JSON)
        assert (path, answer.status_code) == (path, 403)
        assert permission in answer.text
    assert {row.outcome.partition(":")[0] for row in (await client.audit.list(200)).items} == {"forbidden"}


async def test_each_action_takes_its_own_permission_and_all_others_do_not_help(app: Litestar, client: Client) -> None:
    async with console_of(client, auth=lambda asks: Principal("ada", ALL - {asks.headers["x-lacks"]})) as ada:
        for path, method, permission in acting(app):
            answer = await ada.request(method, filled(path), headers={**JSON, "X-Lacks": permission})
            assert (path, answer.status_code) == (path, 403)
            assert permission in answer.text


def test_every_permission_is_of_use_and_the_api_has_an_operation_for_each_of_its_routes(app: Litestar) -> None:
    assert {permission for _, _, permission in acting(app)} == {spec.permission for spec in ACTIONS.values()} == ALL
    of_table = {(f"/api/v1{re.sub('}', ':str}', each.path)}", each.method, each.permission) for each in OPERATIONS}
    assert {each for each in acting(app) if each[0].startswith("/api/")} == {each for each in of_table if each[2]}


async def test_nothing_is_told_to_somebody_unknown(app: Litestar, client: Client) -> None:
    async with console_of(client, auth=lambda _: None) as stranger:
        for path, method, handler in handlers(app):
            if method != "OPTIONS" and not handler.opt.get(PUBLIC) and not handler.opt.get(STRANGERS):
                answer = await stranger.request(method, filled(path))
                assert (path, answer.status_code) == (path, 401)


async def test_every_action_of_a_browser_takes_the_token_of_a_page(app: Litestar, browser: Browser) -> None:
    await browser.get("/settings")
    assert browser.token
    for path, method, _ in acting(app):
        for sent in ({"data": {"reason": "none"}}, {"content": b"{}", "headers": JSON}):
            answer = await browser.request(method, filled(path), **sent)
            assert (path, answer.status_code) == (path, 403)


async def test_every_answer_carries_what_keeps_others_out_and_none_is_a_fault(app: Litestar, browser: Browser) -> None:
    for path, method, _ in handlers(app):
        if method in ("HEAD", "OPTIONS") or path.endswith(("/stream", "/events")):
            continue
        answer = await browser.request(method, filled(path))
        assert answer.status_code < 500, (path, answer.text[-2000:])
        assert answer.headers["content-security-policy"].startswith("default-src 'none'"), path
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert "access-control-allow-origin" not in answer.headers, path
        assert answer.headers["cache-control"] == "no-store" or path.startswith("/static"), path


async def test_every_route_refuses_what_another_site_sends(app: Litestar, browser: Browser) -> None:
    await browser.get("/settings")
    wrong = {}
    for path, method, _ in handlers(app):
        if method in SAFE:
            continue
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            answer = await browser.request(method, filled(path), data={"csrf": browser.token}, headers=headers)
            if answer.status_code != 403:
                wrong[f"{method} {path}"] = answer.status_code
    assert wrong == {}


def test_a_permission_that_does_not_exist_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ConfigurationError, match="cancle"):
        action("cancle", "/runs/{run_id:str}/cancel")
