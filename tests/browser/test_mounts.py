"""The same console wherever it is mounted, and in a process of its own from start to end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import randrange

import pytest
from playwright.async_api import Page, expect

from runnerq.client.connect import connect
from tests.browser import shop
from tests.browser.looking import send
from tests.browser.patience import PATIENCE
from tests.browser.world import Started, World, process
from tests.postgres import fresh_database

pytestmark = pytest.mark.asyncio(loop_scope="session")

MOUNTS = ("open", "fastapi", "litestar", "nested", "proxied")


@pytest.mark.parametrize("mount", MOUNTS)
async def test_every_link_and_form_works_under_this_mount(page: Page, world: World, mount: str) -> None:
    await page.goto(world.sites[mount])
    inside = re.compile("^" + re.escape(world.sites[mount]))
    await page.get_by_role("navigation", name="Console").get_by_role("link", name="Runs").click()
    await page.locator("#search").fill("payout-311")
    await page.locator("#search").press("Enter")
    await page.locator(f"#run-{world.seeded.failed} a").first.click()
    await expect(page).to_have_url(world.url(f"/runs/{world.seeded.failed}", mount))
    links = await page.locator("a[href]").evaluate_all(
        "links => links.map(link => new URL(link.getAttribute('href'), document.baseURI).href)"
    )
    assert [link for link in links if not inside.match(link)] == []
    run = await world.client.start(shop.ask, mount)
    await run.reached("waiting", timeout=PATIENCE)
    await page.goto(world.url(f"/runs/{run.id}", mount))
    await send(page, json.dumps({"from": mount}))
    await expect(page).to_have_url(inside)
    assert await run.result(timeout=PATIENCE) == {"from": mount}


# --- as a process -----------------------------------------------------------------------------------------------------


def a_port() -> int:
    """A port that is free, so that a console can come back on it: none of those that the system gives to who calls."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", randrange(20_000, 30_000))) as listener:
            return int(listener.getsockname()[1])


@asynccontextmanager
async def command(
    dsn: str, port: int, path: Path | None = None, program: tuple[str, ...] = ("-m", "runnerq")
) -> AsyncIterator[Started]:
    """``runnerq console`` once it answers; ``path`` is where its package is."""
    environment = {**os.environ, "RUNNERQ_DSN": dsn} | ({} if path is None else {"PYTHONPATH": str(path)})
    arguments = (*program, "console", "--port", str(port))
    async with process(*arguments, environment=environment, folder=path) as started:
        await started.within(answering(port), "listen")
        yield started


async def answering(port: int) -> None:
    """Return once somebody listens there."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


PATIENT = (
    "-c",
    "from runnerq.cli import main; from runnerq.console.web import serving; serving.GRACE = 86_400; main()",
)
"""``runnerq`` that would wait a day for answers under way."""


async def test_a_console_that_comes_back_is_live_again_and_then_stops_by_itself_though_a_page_is_open(
    page: Page, world: World
) -> None:
    run = await world.client.start(shop.ask, "restart")
    await run.reached("waiting", timeout=PATIENCE)
    port = a_port()
    async with command(world.dsn, port) as console:
        await page.goto(f"http://127.0.0.1:{port}/runs?workflow=ask&queue=default")
        await expect(page.locator("#live")).to_have_attribute("data-state", "live")
        console.process.kill()
        await expect(page.locator("#live")).to_have_attribute("data-state", "offline")
    await run.send(shop.GO_ON, 1)
    await run.result(timeout=PATIENCE)
    async with command(world.dsn, port, program=PATIENT) as console:
        await expect(page.locator("#live")).to_have_attribute("data-state", "live")
        await expect(page.locator(f"#run-{run.id} .st")).to_have_text("completed")
        console.process.send_signal(signal.SIGTERM)
        await console.ended()


async def test_an_installed_wheel_serves_its_pages_with_their_styles_and_scripts(
    page: Page, world: World, wheel: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(there)
    port = a_port()
    async with command(world.dsn, port, there):
        await page.goto(f"http://127.0.0.1:{port}/runs/{world.seeded.waiting}")
        await expect(page.locator("main .st.big")).to_have_text("waiting")
        await expect(page.locator("#live")).to_have_attribute("data-state", "live")
        assert await page.evaluate("getComputedStyle(document.querySelector('.nav')).position") == "sticky"


async def test_an_empty_database_says_what_to_do_first(page: Page, postgres_dsn: str) -> None:
    port = a_port()
    with fresh_database(postgres_dsn) as dsn:
        async with command(dsn, port):
            await page.goto(f"http://127.0.0.1:{port}/")
            await expect(page.locator("main")).to_contain_text("runnerq migrate")
            # It looks again by itself, every few seconds.
            async with connect(dsn):
                await expect(page.locator("main")).to_contain_text("Nothing has run here yet")
            await page.goto(f"http://127.0.0.1:{port}/runs")
            await expect(page.locator("main")).to_contain_text("No run has been started yet")


async def test_a_database_that_cannot_be_reached_is_a_page_that_names_it_and_tries_again(page: Page) -> None:
    port = a_port()
    async with command(f"postgresql://somebody:secret@127.0.0.1:{a_port()}/shop", port):
        answer = await page.goto(f"http://127.0.0.1:{port}/runs")
        assert answer is not None
        assert answer.status == 503
        await expect(page.locator("main")).to_contain_text("shop")
        assert "secret" not in await page.content()
        assert await page.locator("meta[http-equiv=refresh]").count() == 1
