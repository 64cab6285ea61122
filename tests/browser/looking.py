"""A page under test, and what no page of ours may do: throw, break its own security policy, ask somebody else."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Locator, Page, Request

_TELL_VIOLATIONS = """
    addEventListener("securitypolicyviolation", (event) =>
        console.error(`Content Security Policy: ${event.effectiveDirective} ${event.blockedURI}`))
"""


class Visit(Protocol):
    """Opens a page in a fresh context: ``await visit("token")``; options are those of a context."""

    async def __call__(self, site: str = "open", /, **options: Any) -> Page: ...


class Faults:
    """What the pages of a context did that none of ours may."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def watch(self, context: BrowserContext) -> None:
        """Note them from now on, in all pages of this context."""
        await context.add_init_script(_TELL_VIOLATIONS)
        context.on("weberror", lambda error: self.seen.append(f"thrown: {error.error}"))
        context.on("console", self._told)
        context.on("request", self._asked)

    def _told(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.seen.append(message.text)

    def _asked(self, request: Request) -> None:
        where = urlsplit(request.url)
        if where.scheme in {"http", "https", "ws", "wss"} and where.hostname != "127.0.0.1":
            self.seen.append(f"asked somebody else: {request.url}")


async def send(page: Page, text: str) -> None:
    """Fill in the form of the signal that the run of this page waits for, and send it."""
    await page.locator("#send textarea").fill(text)
    await page.locator("#send button.primary").click()


async def confirm(opener: Locator, *, reason: str | None = None) -> None:
    """Press a button that asks first, and the one in the dialog that it opens."""
    dialog = opener.page.locator(f"#{await opener.get_attribute('popovertarget')}")
    await opener.click()
    if reason is not None:
        await dialog.get_by_label("Reason").fill(reason)
    await dialog.locator("button.primary").click()


async def ids_of(page: Page) -> list[str]:
    """The ids of the runs that a list shows, from top to bottom."""
    return await page.locator("tr[id^='run-']").evaluate_all("rows => rows.map(row => row.id.slice(4))")
