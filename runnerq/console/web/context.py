"""``here``: one request to the console. Every handler takes ``here: Here``."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.exceptions import HTTPException

from runnerq.console.access import Principal
from runnerq.console.models.context import Context
from runnerq.console.web.assets import asset_url
from runnerq.console.web.auth import TokenAuth
from runnerq.console.web.cookies import Flash, cookie_name, flash_of
from runnerq.console.web.setup import Setup

Ask: TypeAlias = Request[Any, Any, Any]
Connection: TypeAlias = ASGIConnection[Any, Any, Any, Any]
Theme: TypeAlias = Literal["system", "light", "dark"]

THEMES: dict[str, Theme] = {"system": "system", "light": "light", "dark": "dark"}
"""By the words that a browser sends."""
THEME_COOKIE = "theme"
ZONE_COOKIE = "zone"

MOST_FIELDS = 2_000
"""Fields of a form: a thousand runs may be named in one."""

_TYPED = re.compile(r":\w+}")
_PLAIN = "!$'()*+,;:@/~"
"""What stays as it is in a path."""


class Here:
    """One request: who asks, where the console is mounted, and what pages and actions need of it.

    ``signed_in`` is False on the page that asks who it is. ``context`` is what the read models and actions take,
    ``sent`` the form that came, once it was read.
    """

    def __init__(self, request: Ask, setup: Setup, principal: Principal | None) -> None:
        self.request = request
        self.setup = setup
        self.principal = principal or Principal("nobody")
        self.signed_in = principal is not None
        self.now = datetime.now(UTC)
        self.base = base_of(request, setup.base_path)
        self.sent: Form | None = None

    # --- for handlers -------------------------------------------------------------------------------------------------

    @cached_property
    def context(self) -> Context:
        """What the read models and actions are given."""
        setup = self.setup
        return Context(
            client=setup.opening.client,
            principal=self.principal,
            cursors=setup.cursors,
            cache=setup.cache,
            batches=setup.batches,
            redact=setup.redact,
            zone=self.zone,
        )

    async def form(self) -> Form:
        """The fields of the form that was sent. HTTPException if it has more than any page of ours sends."""
        # Litestar bounds the parts of the other kind of form, and not these: reading some millions takes seconds.
        if self.request.content_type[0].lower() == "application/x-www-form-urlencoded":
            body = await self.request.body()
            if body.count(b"&") >= MOST_FIELDS:
                raise HTTPException(status_code=413, detail=f"This form has more than {MOST_FIELDS:,} fields.")
        fields = await self.request.form()
        # Files are not asked for anywhere: one that comes all the same is passed over.
        self.sent = Form({name: [text for text in fields.getall(name) if isinstance(text, str)] for name in fields})
        return self.sent

    @cached_property
    def query(self) -> Form:
        """The parameters of the address."""
        params = self.request.query_params
        return Form({name: params.getall(name) for name in params})

    @property
    def is_api(self) -> bool:
        """Whether it is the API that was asked: errors are JSON then."""
        return self.path.startswith("/api/v")

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks for a part of the page, to put it into one that is open."""
        return self.request.headers.get("HX-Request") == "true"

    # --- for templates ------------------------------------------------------------------------------------------------

    def url(self, path: str = "/", params: Iterable[tuple[str, Any]] = (), **more: Any) -> str:
        """The address of something in this console, under whatever prefix.

        A parameter that is None, empty or False is left out; one with several values is given several times.
        """
        given: list[tuple[str, str]] = []
        for name, value in (*params, *more.items()):
            several = value if isinstance(value, list | tuple | set | frozenset) else (value,)
            said = (one for one in several if one is not None and one is not False and one != "")
            given += [(name, "1" if one is True else str(one)) for one in said]
        # Of two slashes at its beginning a browser takes what follows for a host.
        within = quote(f"/{path.lstrip('/')}", safe=_PLAIN)
        return f"{self.base}{within}{f'?{urlencode(given)}' if given else ''}"

    @cached_property
    def address(self) -> str:
        """The address of this very page, with its query."""
        query = bytes(self.request.scope["query_string"]).decode("latin-1")
        return f"{self.url(self.path)}{f'?{query}' if query else ''}"

    def static(self, name: str) -> str:
        """The address of a file in ``static/``; it changes when the file does."""
        return f"{self.base}{asset_url(name)}"

    @cached_property
    def path(self) -> str:
        """What was asked for within the console: ``/runs/{id}/history``."""
        path: str = self.request.scope["path"]
        root = str(self.request.scope.get("root_path", "")).rstrip("/")
        inner = mount_of(self.request)
        for prefix in (root, inner or self.setup.base_path):
            if prefix and (path == prefix or path.startswith(f"{prefix}/")):
                path = path[len(prefix) :]
        return path or "/"

    @property
    def section(self) -> str:
        """The first part of the path, for the navigation: ``runs``, ``dead-letter``; empty on the overview."""
        return self.path.strip("/").partition("/")[0]

    @property
    def title(self) -> str:
        """What this console is called."""
        return self.setup.title

    @property
    def place(self) -> str:
        """Where the runs are, for people: host, port and database, never a password."""
        return self.setup.opening.client.place

    @property
    def read_only(self) -> bool:
        """Whether nobody may change anything here."""
        return self.setup.read_only

    def may(self, permission: str) -> bool:
        """Whether the asker has this permission."""
        return self.principal.may(permission)

    @property
    def can_sign_out(self) -> bool:
        """Whether there is something to sign out of."""
        return self.signed_in and self.setup.signs_in

    @property
    def stream_url(self) -> str:
        """Where the live channel is."""
        return self.url("/stream")

    @cached_property
    def theme(self) -> Theme:
        """What the browser has chosen."""
        return THEMES.get(self.cookie(THEME_COOKIE) or "", "system")

    @cached_property
    def zone(self) -> str:
        """The name of the time zone that times are shown in, and meant in."""
        named = self.cookie(ZONE_COOKIE)
        return named if named and zone_named(named) is not None else "UTC"

    @property
    def tz(self) -> ZoneInfo:
        """The time zone that times are shown in."""
        return ZoneInfo(self.zone)

    @cached_property
    def csrf(self) -> str:
        """What a form carries in its field ``csrf``, so that it is known to come from a page of this console."""
        kept = self.csrf_kept
        return kept if kept and len(kept) == 43 else secrets.token_urlsafe(32)

    @cached_property
    def csrf_kept(self) -> str | None:
        """What a form of this browser has to carry: made of its session if it has signed in, else what its cookie has;
        None where no page was opened yet."""
        auth, session = self.setup.auth, self.session
        if session is not None and isinstance(auth, TokenAuth):
            return auth.form_token(session)
        return self.cookie("csrf")

    @cached_property
    def session(self) -> str | None:
        """The session of this browser, if it has signed in. It is a secret."""
        auth, session = self.setup.auth, self.cookie("session")
        return session if isinstance(auth, TokenAuth) and auth.signed_in(session) is not None else None

    @cached_property
    def flash(self) -> Flash | None:
        """What the last action has to say, once."""
        return flash_of(self.cookie("flash"), self.setup.secret)

    # --- cookies ------------------------------------------------------------------------------------------------------

    def cookie(self, kind: str) -> str | None:
        """The value of a cookie of this very console."""
        return self.request.cookies.get(self.cookie_name(kind))

    def cookie_with(self, kind: str, value: str, max_age: int | None = None) -> Cookie:
        """A cookie of this console, for its answer. Without an age it goes with the browser, with 0 at once."""
        return Cookie(
            key=self.cookie_name(kind),
            value=value,
            max_age=max_age,
            path=self.base or "/",
            httponly=True,
            samesite="lax",
            secure=_is_https(self.request),
        )

    def cookie_name(self, kind: str) -> str:
        """Its name: of this console alone, as cookies of a host are seen by all of its ports."""
        return cookie_name(kind, self.request.headers.get("host", ""), self.base)


class Form(msgspec.Struct, frozen=True):
    """Fields, each with the values that it came with."""

    fields: Mapping[str, list[str]]

    def get(self, name: str, default: str = "") -> str:
        """The last value of a field, without white space around it."""
        values = self.fields.get(name)
        return values[-1].strip() if values else default

    def exactly(self, name: str) -> str:
        """The last value of a field as it came: a name may begin or end with a blank."""
        values = self.fields.get(name)
        return values[-1] if values else ""

    def all(self, name: str) -> list[str]:
        """All values of a field, empty ones left out."""
        return [value for value in self.fields.get(name, ()) if value]

    def __contains__(self, name: object) -> bool:
        return name in self.fields


def _is_https(request: Ask) -> bool:
    """Whether the browser came by https, also where a proxy took that off. Anybody may say so: what a cookie is kept
    from by it is only to be sent without."""
    said = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    by_https = request.headers.get("origin", "").startswith("https://")
    return request.scope.get("scheme") == "https" or said == "https" or by_https


def zone_named(name: str) -> ZoneInfo | None:
    """The time zone; None if there is none of this name."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        # There is none, it is a folder, or it is no name at all.
        return None


def mount_of(connection: Connection) -> str:
    """Where the app has the console, known by the route that was taken; empty where none was."""
    template = connection.scope.get("path_template")
    if not template:
        return ""
    handler = connection.scope["route_handler"]
    own = sorted((_TYPED.sub("}", path) for path in handler.paths), key=len, reverse=True)
    for path in own:
        if path != "/" and template.endswith(path):
            return str(template[: -len(path)])
    return str(template.rstrip("/"))


def base_of(connection: Connection, base_path: str | None) -> str:
    """What the console's addresses begin with, seen from outside: root path and mount, or what was said it is."""
    if base_path is not None:
        return base_path
    return str(connection.scope.get("root_path", "")).rstrip("/") + mount_of(connection)
