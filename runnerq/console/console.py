"""``Console``: the one place that puts a console together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from secrets import token_bytes
from typing import Any, cast

from litestar import Litestar, Router

from runnerq.client.client import Client
from runnerq.console import api, pages
from runnerq.console.models.batches import Batches
from runnerq.console.models.cache import Cache
from runnerq.console.models.paging import Cursors
from runnerq.console.models.redaction import Redactor, mask
from runnerq.console.web import choices, files, probes, signing, streams
from runnerq.console.web.auth import TokenAuth
from runnerq.console.web.door import Door
from runnerq.console.web.errors import Answers
from runnerq.console.web.guards import FORM_LIMIT
from runnerq.console.web.headers import Headers
from runnerq.console.web.live import Live
from runnerq.console.web.opening import Opening
from runnerq.console.web.redacting import reliable
from runnerq.console.web.setup import App, Auth, Authorize, Setup
from runnerq.errors import ConfigurationError

SHORTEST_SECRET = 32


class Console:
    """A console over a client, to be had as an ASGI app, as a Litestar router, or through ``RunnerQPlugin``.

    Without ``auth`` it answers this machine alone, and a proxy on it can be taken for that: a console that others can
    reach needs one, and the log says so when it begins. ``auth`` says of a connection who asks: a ``Principal``, or
    None for somebody who is not let in (``token_auth()``, ``basic_auth(...)``, ``forwarded_user(...)``, or a callable
    of yours, sync or async); who is not known is sent to ``login_url``, if there is one. ``authorize`` is asked of a
    principal and each permission that it has, and ``read_only`` takes all of them from everybody. ``redact`` says what
    is shown of payloads: the default masks what has the name of a secret.

    ``base_path`` is what addresses begin with, where that cannot be known: behind a proxy that takes a prefix away and
    does not say so. ``secret`` (32 bytes or more) signs cursors; several processes behind one address share one.
    ``api_only`` leaves out the pages. ``include_in_schema`` puts the API into the host's OpenAPI document.
    ``command_options`` is what ``runnerq`` on the command line has to be given to reach the same database, such as
    ``--schema shop``: pages that name a command show it with them.

    The client may be open or not. One that is not is opened when ``lifespan`` begins, or by the first request, and
    closed when it ends.
    """

    def __init__(
        self,
        client: Client,
        *,
        auth: Auth | None = None,
        authorize: Authorize | None = None,
        read_only: bool = False,
        redact: Redactor | None = None,
        base_path: str | None = None,
        title: str = "runnerq",
        login_url: str | None = None,
        secret: bytes | None = None,
        api_only: bool = False,
        include_in_schema: bool = False,
        command_options: str = "",
    ) -> None:
        if secret is not None and len(secret) < SHORTEST_SECRET:
            raise ConfigurationError(f"secret= has {len(secret)} bytes: give it {SHORTEST_SECRET} random ones or more")
        opening, cache = Opening(client), Cache()
        kept = secret or token_bytes(SHORTEST_SECRET)
        self._setup = Setup(
            opening=opening,
            live=Live(opening, cache.stir),
            cursors=Cursors(kept),
            cache=cache,
            batches=Batches(),
            redact=mask if redact is None else reliable(redact),
            secret=kept,
            title=title,
            auth=auth,
            authorize=authorize,
            signs_in=isinstance(auth, TokenAuth) and not api_only,
            login_url=login_url,
            read_only=read_only,
            base_path=_checked_base(base_path),
            command_options=command_options,
        )
        self._api_only = api_only
        self._include_in_schema = include_in_schema
        self._door = Door(self._setup)
        self._answers = Answers(self._door)

    @property
    def client(self) -> Client:
        """Whose runs it shows."""
        return self._setup.opening.client

    def router(self, path: str = "/") -> Router:
        """All of it under a path, for a Litestar app; the app has to run ``lifespan`` as well."""
        return Router(
            path,
            # The host's own CSRF check knows nothing of our tokens.
            opt={"exclude_from_csrf": True},
            include_in_schema=self._include_in_schema,
            **self._parts(),
        )

    def app(self, path: str = "/") -> App:
        """All of it as an ASGI app, to be served by itself or mounted: ``app.mount("/runnerq", console.app())``.

        It is Litestar's; its type is the one that Starlette and servers have for any app.
        """
        made = Litestar(
            path=path,
            lifespan=[lambda _: self.lifespan()],
            openapi_config=None,
            logging_config=None,
            **self._parts(),
        )
        return cast("App", made)

    def _parts(self) -> dict[str, Any]:
        """What a router and an app take alike."""
        handlers: list[Any] = [*files.HANDLERS, *probes.HANDLERS, *streams.HANDLERS, *api.HANDLERS]
        if not self._api_only:
            handlers += [*pages.HANDLERS, *signing.HANDLERS, *choices.HANDLERS]
        return {
            # Copies: a handler belongs to one router, and would be let in by the door of whichever came last.
            "route_handlers": [copy(handler) for handler in handlers],
            "guards": [self._door.admit],
            "exception_handlers": self._answers.handlers(),
            "middleware": [Headers],
            "request_max_body_size": FORM_LIMIT,
        }

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Within it the console may be asked; at its end everything that it began ends, its live streams as well.

        A mounted app's own lifespan is not run by Starlette and FastAPI: run this one in the host's.
        """
        self._door.warn()
        self._setup.opening.begin()
        try:
            yield
        finally:
            await self._setup.live.close()
            await self._setup.batches.close()
            await self._setup.opening.close()


def _checked_base(base_path: str | None) -> str | None:
    if base_path is None:
        return None
    base = base_path.rstrip("/")
    if base and (not base.startswith("/") or "//" in base or any(char in base for char in "?#\\ ")):
        raise ConfigurationError(f"base_path={base_path!r}: it is a path, such as /tools/runnerq")
    return base
