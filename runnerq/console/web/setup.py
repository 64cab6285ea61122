"""What all requests to one console share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from runnerq.console.access import Principal
from runnerq.console.models.batches import Batches
from runnerq.console.models.cache import Cache
from runnerq.console.models.paging import Cursors
from runnerq.console.models.redaction import Redactor
from runnerq.console.web.live import Live
from runnerq.console.web.opening import Opening

if TYPE_CHECKING:
    from litestar.connection import ASGIConnection

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
"""An ASGI app, as everybody but Litestar writes its type."""

Auth: TypeAlias = "Callable[[ASGIConnection[Any, Any, Any, Any]], Awaitable[Principal | None] | Principal | None]"
"""Says who asks; None for somebody who is not to be let in."""
Authorize: TypeAlias = Callable[[Principal, str], bool | Awaitable[bool]]
"""Says whether somebody may do something, beyond what their access says."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """One console: what it was told, and what it keeps between requests.

    ``signs_in`` says that it has a page of its own to sign in at, ``login_url`` where else that is done, and
    ``command_options`` how the command line reaches the same database.
    """

    opening: Opening
    live: Live
    cursors: Cursors
    cache: Cache
    batches: Batches
    redact: Redactor
    secret: bytes
    title: str
    auth: Auth | None = None
    authorize: Authorize | None = None
    signs_in: bool = False
    login_url: str | None = None
    read_only: bool = False
    base_path: str | None = None
    command_options: str = ""
