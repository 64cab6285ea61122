"""The same console wherever it is put: by itself, in Litestar, in FastAPI, under prefixes and behind proxies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import fastapi
import pytest
from litestar import Litestar, Router, get
from litestar.config.csrf import CSRFConfig
from litestar.di import NamedDependency
from litestar.params import FromPath

from runnerq.client.client import Client
from runnerq.console.console import Console
from runnerq.console.plugin import RunnerQPlugin
from runnerq.console.web.auth import token_auth
from runnerq.console.web.headers import ALWAYS
from runnerq.errors import ConfigurationError
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.postgres import PostgresStorage
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.console.browsing import PLACE, Browser, browsing

PAUSE = {"name": "mail", "verb": "pause"}
PAUSED = 'class="note warn"'
"""What is said of it, once."""


@workflow
def greeting(ctx: Context, name: str) -> Flow[str]:
    yield ctx.sleep(0)
    return f"hello {name}"


def by_itself(client: Client) -> tuple[Any, str]:
    return Console(client).app(), ""


def under_a_prefix(client: Client) -> tuple[Any, str]:
    return Console(client).app("/deep/down"), "/deep/down"


def as_a_plugin(client: Client) -> tuple[Any, str]:
    return Litestar([], plugins=[RunnerQPlugin(client, console=Console(client), path="/runnerq")]), "/runnerq"


def in_an_app_with_a_csrf_check_of_its_own(client: Client) -> tuple[Any, str]:
    app = Litestar(
        [],
        plugins=[RunnerQPlugin(client, console=Console(client))],
        csrf_config=CSRFConfig(secret="x" * 32),
        path="/app",
    )
    return app, "/app/runnerq"


def in_routers_of_routers(client: Client) -> tuple[Any, str]:
    inner = Console(client).router("/runnerq")
    return Litestar([Router("/ops", route_handlers=[Router("/tools", route_handlers=[inner])])]), "/ops/tools/runnerq"


def in_fastapi(client: Client) -> tuple[Any, str]:
    app = fastapi.FastAPI()
    app.mount("/runnerq", Console(client).app())
    return app, "/runnerq"


def in_fastapi_behind_a_proxy(client: Client) -> tuple[Any, str]:
    app = fastapi.FastAPI()
    app.mount("/runnerq", Console(client).app())

    async def shop(scope: Any, receive: Any, send: Any) -> None:
        # As a server does that is told of the proxy: uvicorn --root-path /shop.
        await app({**scope, "root_path": "/shop"}, receive, send)

    return shop, "/shop/runnerq"


MOUNTS = [
    by_itself, under_a_prefix, as_a_plugin, in_an_app_with_a_csrf_check_of_its_own, in_routers_of_routers, in_fastapi,
    in_fastapi_behind_a_proxy,
]  # fmt: skip


@pytest.mark.parametrize("mount", MOUNTS)
async def test_pages_files_and_forms_are_all_under_the_prefix(client: Client, mount: Any) -> None:
    app, base = mount(client)
    async with browsing(app) as browser:
        shown = await browser.get(f"{base}/settings")
        assert shown.status_code == 200, shown.text
        found = set(re.findall(r' (?:href|src|action|data-stream)="([^"#]+)"', shown.text))
        assert len(found) > 15
        assert [address for address in found if not address.startswith(f"{base}/")] == []
        files = [await browser.get(address) for address in found if "/static/" in address]
        assert {file.status_code for file in files} == {200}
        assert f'data-base="{base}"' in shown.text

        sent = await browser.post(f"{base}/queues", data={"csrf": browser.token, **PAUSE, "back": f"{base}/settings"})
        assert (sent.status_code, sent.headers["location"]) == (303, f"{base}/settings"), sent.text
        assert PAUSED in (await browser.get(sent.headers["location"])).text
        assert PAUSED not in (await browser.get(sent.headers["location"])).text
        assert {cookie.path for cookie in browser.cookies.jar} == {base or "/"}


async def test_a_proxy_that_takes_the_prefix_away_in_silence_is_told_by_base_path(client: Client) -> None:
    async with browsing(Console(client, base_path="/tools/runnerq/").app()) as browser:
        shown = await browser.get("/settings")
        assert 'href="/tools/runnerq/runs"' in shown.text
        assert 'data-base="/tools/runnerq"' in shown.text
    for wrong in ("tools", "//evil.example", "/a?b", "https://x"):
        with pytest.raises(ConfigurationError, match="base_path"):
            Console(client, base_path=wrong)


async def test_two_consoles_in_one_app_each_have_their_own_door(client: Client) -> None:
    asks = Console(client, auth=token_auth("a-token-of-many-letters")).router("/a")
    answers = Console(client).router("/b")
    async with browsing(Litestar([asks, answers])) as browser:
        assert (await browser.get("/a/api/v1/me")).status_code == 401
        assert (await browser.get("/b/api/v1/me")).status_code == 200


async def test_an_app_of_ours_shows_its_own_page_where_there_is_nothing(client: Client) -> None:
    async with browsing(Console(client).app("/x")) as browser:
        missing = await browser.get("/x/nowhere")
        assert missing.status_code == 404
        assert "There is nothing here" in missing.text
        assert {name: missing.headers.get(name) for name in ALWAYS} == ALWAYS
        assert missing.headers["cache-control"] == "no-store"


async def test_the_api_can_be_had_without_the_pages(client: Client) -> None:
    async with browsing(Console(client, api_only=True).app()) as browser:
        assert (await browser.get("/api/v1/me")).status_code == 200
        assert (await browser.get("/settings")).status_code == 404


async def test_our_routes_are_in_the_hosts_document_only_if_asked(client: Client) -> None:
    quiet = Litestar([], plugins=[RunnerQPlugin(client, console=Console(client))])
    assert quiet.openapi_schema.paths in (None, {})
    told = Litestar([], plugins=[RunnerQPlugin(client, console=Console(client, include_in_schema=True))])
    assert any("/api/v1/runs" in path for path in told.openapi_schema.paths or {})


async def test_a_path_of_two_slashes_leads_to_no_other_host(client: Client) -> None:
    async with browsing(Console(client).app()) as browser:
        missing = await browser.get(f"{PLACE}//evil.example/x")
    assert missing.status_code == 404
    assert '"//evil.example' not in missing.text


async def test_options_of_the_host_do_not_show_through(client: Client) -> None:
    console = Console(client, auth=token_auth("a-token-of-many-letters"))
    opened = {"runnerq_public": True, "runnerq_strangers": True, "runnerq_apart": True}
    async with browsing(Litestar([console.router("/a")], opt=opened)) as browser:
        assert (await browser.get("/a/api/v1/me")).status_code == 401


class TestPlugin:
    async def test_without_a_console_there_is_none(self, client: Client) -> None:
        app = Litestar([], plugins=[RunnerQPlugin(client)])
        async with app.lifespan(), browsing(app) as browser:
            for path in ("/runnerq/", "/runnerq/healthz", "/runnerq/api/v1/me"):
                assert (await browser.get(path)).status_code == 404, path

    async def test_it_opens_the_client_runs_the_worker_and_gives_handlers_the_client(self) -> None:
        client = Client(MemoryStorage())

        @get("/greet/{name:str}")
        async def greet(name: FromPath[str], runnerq: NamedDependency[Client]) -> str:
            return str(await (await runnerq.start(greeting, name)).result(timeout=10))

        plugin = RunnerQPlugin(client, worker=Worker(client, workflows=[greeting]))
        app = Litestar([greet], plugins=[plugin])
        async with app.lifespan(), browsing(app) as browser:
            assert (await browser.get("/greet/ada")).text == "hello ada"
            assert client.opened_on is asyncio.get_running_loop()
        assert client.opened_on is None

    async def test_a_client_that_is_open_is_left_open(self, client: Client) -> None:
        app = Litestar([], plugins=[RunnerQPlugin(client)])
        async with app.lifespan():
            pass
        assert client.opened_on is not None

    def test_what_cannot_be_is_refused(self, client: Client) -> None:
        with pytest.raises(ConfigurationError, match="another client"):
            RunnerQPlugin(client, console=Console(Client(MemoryStorage())))
        with pytest.raises(ConfigurationError, match="dependency 'runnerq'"):
            Litestar([], plugins=[RunnerQPlugin(client), RunnerQPlugin(client)])
        with pytest.raises(ConfigurationError, match="console=Console"):
            RunnerQPlugin(client, path="/other")


class TestOpening:
    async def test_a_client_that_nobody_opened_is_opened_once_and_closed_at_the_end(self) -> None:
        client = Client(MemoryStorage())
        console = Console(client)
        async with console.lifespan(), browsing(console.app()) as browser:
            answers = await asyncio.gather(*(browser.get("/readyz") for _ in range(5)))
            assert {answer.status_code for answer in answers} == {200}
            assert client.opened_on is not None
        assert client.opened_on is None

    async def test_a_database_that_does_not_answer_is_a_page_that_says_so_and_looks_again(self) -> None:
        async with unreachable() as browser:
            shown = await browser.get("/runs")
            assert (shown.status_code, shown.headers["retry-after"]) == (503, "5")
            assert "The database does not answer" in shown.text
            assert "127.0.0.1:1/shop" in shown.text
            assert "s3cret" not in shown.text
            assert '<meta http-equiv="refresh"' in shown.text
            asked = await browser.get("/api/v1/runs")
            assert (asked.status_code, asked.json()["type"]) == (503, "urn:runnerq:problem:unavailable")
            assert (await browser.get("/readyz")).status_code == 503
            assert (await browser.get("/healthz")).status_code == 200
            assert (await browser.get("/login")).status_code == 404


@asynccontextmanager
async def unreachable() -> AsyncIterator[Browser]:
    """A browser at a console whose database is not there."""
    console = Console(Client(PostgresStorage("postgresql://ada:s3cret@127.0.0.1:1/shop", connect_timeout=0.1)))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(console.lifespan())
        yield await stack.enter_async_context(browsing(console.app(), PLACE))
