"""Pictures of every page, for the docs and for who designs them.

``python -m tests.browser.pictures FOLDER`` takes all pages in both themes and three widths; with ``--docs`` only those
that docs/guides/console.md shows. It starts a Postgres, a server and a Chromium of its own.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from playwright.async_api import Browser, async_playwright

from runnerq.client.client import Client
from runnerq.persistence.records import Status
from tests.browser import shop
from tests.browser.chrome import FLAGS, found
from tests.browser.past import busy_day
from tests.browser.patience import PATIENCE
from tests.browser.seed import Seeded
from tests.browser.told import told_as
from tests.browser.world import living_world
from tests.postgres import embedded_server, fresh_database

SHOWN_AS = "shop/orders.py"
"""Where the pictures say that the shop's code stands."""
DAY = 12_000
"""Runs that the shop has had in the last day."""
WIDTHS = (1280, 390, 1920)
THEMES = ("light", "dark")


class Shot(msgspec.Struct, frozen=True):
    """One picture: of a page, in a theme, so wide. ``height`` cuts it; None takes all of the page."""

    name: str
    path: str
    theme: str = "light"
    width: int = 1280
    height: int | None = None


def every(pages: Mapping[str, str]) -> Iterator[Shot]:
    """All pages as all may see them."""
    for name, path in pages.items():
        for width in WIDTHS:
            for theme in THEMES if width == 1280 else THEMES[:1]:
                yield Shot(f"{name}-{width}-{theme}", path, theme, width)


def of_docs(seeded: Seeded) -> Sequence[Shot]:
    """What the guide shows."""
    return (
        Shot("overview", "/?window=24h", "light", 1280, 900),
        Shot("overview-dark", "/?window=24h", "dark", 1280, 900),
        Shot("runs", "/runs?queue=default", "light", 1280, 640),
        Shot("run-waiting", f"/runs/{seeded.waiting}", "light", 1280, 900),
        Shot("run-failed-dark", f"/runs/{seeded.failed}", "dark", 1280, 900),
        Shot("history", f"/runs/{seeded.done}/history", "light", 1280, 640),
        Shot("blocked", f"/runs/{seeded.blocked}", "light", 1280, 640),
        Shot("dead-letter", "/dead-letter", "light", 1280, 640),
        Shot("telephone", f"/runs/{seeded.waiting}", "light", 390, 844),
    )


async def take(browser: Browser, shots: Sequence[Shot], base: str, folder: Path) -> None:
    """Take these pictures, each in a context of its own."""
    for shot in shots:
        context = await browser.new_context(
            viewport={"width": shot.width, "height": shot.height or 900},
            color_scheme=shot.theme,
            reduced_motion="reduce",
        )
        page = await context.new_page()
        await page.goto(base + shot.path, wait_until="load")
        await page.screenshot(path=folder / f"{shot.name}.png", full_page=shot.height is None, animations="disabled")
        await context.close()


async def counted(client: Client, runs: int) -> None:
    """Wait until the workers' upkeep has counted so many runs of the last day."""
    while sum(each.completed for each in await client.activity(*_last_day(), span=3600)) < runs // 2:
        await asyncio.sleep(0.5)


async def tidied(client: Client, seeded: Seeded) -> None:
    """Take away what is there for tests alone, and have more than one kind of failure."""
    await client.terminate(seeded.named)
    for run_id in (seeded.named, seeded.markup):
        await client.delete(run_id)
    lost = [await client.start(shop.lose_parcel, f"A-{number}") for number in (1011, 1012)]
    for run in lost:
        await run.reached(Status.DEAD_LETTER, timeout=PATIENCE)


def _last_day() -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - timedelta(days=1), now


async def main(folder: Path, *, docs: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    told_as(SHOWN_AS)
    with embedded_server() as server, fresh_database(server) as dsn:
        async with living_world(dsn, shown_as=SHOWN_AS) as world, async_playwright() as playwright:
            if docs:
                await tidied(world.client, world.seeded)
            await busy_day(dsn, DAY)
            await counted(world.client, DAY)
            browser = await playwright.chromium.launch(executable_path=found(), args=FLAGS)
            shots = of_docs(world.seeded) if docs else list(every(world.pages))
            await take(browser, shots, world.sites["open"], folder)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), docs="--docs" in sys.argv))
