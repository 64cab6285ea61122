"""A browser of the console without a screen: HTTP over the ASGI app, with cookies and the token of its pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from runnerq.console.console import Console

PLACE = "http://127.0.0.1:8787"


class Browser(httpx.AsyncClient):
    """``get`` and ``post`` as they are; ``send_form`` sends what a form of the page that is open would send."""

    @property
    def token(self) -> str:
        """The token that this browser's pages carry; empty before the first page."""
        return next((cookie.value or "" for cookie in self.cookies.jar if cookie.name.startswith("rq_csrf_")), "")

    async def send_form(self, path: str, fields: Mapping[str, Any] | None = None, **more: Any) -> httpx.Response:
        """What pressing a button does. The first page is opened for its token, if none was."""
        if not self.token:
            await self.get("/settings")
        return await self.post(path, data={"csrf": self.token, **(fields or {}), **more})


@asynccontextmanager
async def browsing(
    app: Any, place: str = PLACE, *, peer: str = "127.0.0.1", headers: Mapping[str, str] | None = None
) -> AsyncIterator[Browser]:
    """A browser at an ASGI app. Redirects are answers, and not followed."""
    transport = httpx.ASGITransport(app, client=(peer, 50_000))
    async with Browser(transport=transport, base_url=place, headers=headers) as browser:
        yield browser


@asynccontextmanager
async def console_of(
    client: Any, *, place: str = PLACE, peer: str = "127.0.0.1", **options: Any
) -> AsyncIterator[Browser]:
    """A browser at a console of this client."""
    console = Console(client, **options)
    with _routed(console) as app:
        async with console.lifespan(), browsing(app, place, peer=peer) as browser:
            yield browser


_spare: dict[bool, list[tuple[Any, Console]]] = {}
"""Apps that no test uses now, each with the console that it was made for; with pages, and without."""


@contextmanager
def _routed(console: Console) -> Iterator[Any]:
    """This console's app. A hundred routes take Litestar 0.2 s, so that a spare app is taken, and its door made this
    console's."""
    api_only = console._api_only
    spare = _spare.setdefault(api_only, [])
    app, made_for = spare.pop() if spare else (console.app(), console)
    made_for._door._setup = console._setup
    try:
        yield app
    finally:
        spare.append((app, made_for))
