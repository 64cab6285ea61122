"""What stands above every answer of the console, errors and files included."""

from __future__ import annotations

from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; worker-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Nothing from elsewhere, nothing inline, and nobody may show us in a frame."""

ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}

OF_PAGES = {"Cache-Control": "no-store", "Vary": "HX-Request"}
"""A page holds what runs hold; and a part of it that htmx asks for has the page's address."""


class Headers:
    """A middleware of the console's router: an option of Litestar's would leave out errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what the app sends, with our headers."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableScopeHeaders.from_message(message)
                for name, value in ALWAYS.items():
                    headers[name] = value
                for name, value in OF_PAGES.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)
