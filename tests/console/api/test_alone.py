"""The API by itself: without pages, with its own way to say who asks, and over a database that is not there."""

from __future__ import annotations

import asyncio
import signal

import pytest
from litestar import Litestar

from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.console.console import Console
from runnerq.console.web import opening
from runnerq.console.web.auth import token_auth
from tests.console.api.conftest import ROOT, api_of
from tests.console.browsing import PLACE, Browser, browsing

TOKEN = "a-token-of-a-program"  # noqa: S105 - of a test


async def test_there_are_no_pages_and_nothing_of_a_browser(api: Browser) -> None:
    for path in ("/", "/runs", "/login", "/settings", "/api"):
        assert (path, (await api.get(f"{PLACE}{path}")).status_code) == (path, 404)


async def test_a_program_says_who_it_is_with_a_token_and_is_told_so_where_it_does_not(client: Client) -> None:
    async with api_of(client, auth=token_auth(TOKEN, access={"start"}, name="ci")) as api:
        unknown = await api.get("/runs")
        api.headers["Authorization"] = f"Bearer {TOKEN}"
        me = (await api.get("/me")).json()
        started = await api.post("/runs", json={"workflow": "shop"})
        cancelled = await api.post(f"/runs/{started.json()['run_id']}/cancel", json={})

    assert (unknown.status_code, unknown.headers["www-authenticate"]) == (401, "Bearer")
    assert unknown.headers["content-type"] == "application/problem+json"
    assert me == {"name": "ci", "permissions": ["start"]}
    assert (started.status_code, cancelled.status_code) == (201, 403)
    assert cancelled.json()["permission"] == "cancel"


async def test_addresses_are_right_under_a_prefix_of_the_app_that_has_it(client: Client) -> None:
    console = Console(client, api_only=True)
    async with console.lifespan(), browsing(Litestar([console.router("/tools/rq")]), f"{PLACE}/tools/rq/api/v1") as api:
        started = await api.post("/runs", json={"workflow": "shop"})
        document = await api.get("/openapi.json")
        unknown = await api.get("/runs/none")

    assert started.headers["Location"] == f"/tools/rq/api/v1/runs/{started.json()['run_id']}"
    assert document.url.join(document.json()["servers"][0]["url"]).path == "/tools/rq/api/v1"
    assert unknown.json()["instance"] == "/tools/rq/api/v1/runs/none"


async def test_a_database_that_cannot_be_reached_is_a_problem_that_passes(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PATIENCE", 0.05)
    console = Console(connect(f"postgresql://nobody@/none?host={tmp_path}"), api_only=True)
    async with console.lifespan(), browsing(console.app(), ROOT) as api:
        answer = await api.get("/runs")

    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) > 0


async def test_a_request_that_waits_does_not_hold_up_a_server_that_is_to_stop(
    api: Browser, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await client.start("shop", 1)
    server = _Server()
    monkeypatch.setattr(signal, "getsignal", lambda _: server.handle_exit)
    waiting = asyncio.ensure_future(api.get(f"/runs/{run.id}/result", params={"wait": "60"}))
    await api.get("/me")

    server.should_exit = True
    answer = await waiting

    assert answer.status_code == 503
    assert answer.json()["type"].endswith("stopping")
    assert answer.headers["retry-after"] == "1"


class _Server:
    """What uvicorn looks like to who asks whether it is to stop."""

    should_exit = False

    def handle_exit(self) -> None: ...
