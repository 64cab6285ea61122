"""The door: everything that has to be true before a handler runs.

Who asks, whether they may, whether a page of ours sent it, and whether the database is there; in this order, and before
anything of the body is given to anybody.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any, Self

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from runnerq.console.access import ALL, Forbidden, Principal
from runnerq.console.actions.doing import forbidden
from runnerq.console.web.auth import TokenAuth
from runnerq.console.web.context import Ask, Here
from runnerq.console.web.guards import APART, HERE, PERMISSION, PUBLIC, STRANGERS
from runnerq.console.web.origin import ForeignForm, check_local, check_not_embedded, check_ours
from runnerq.console.web.setup import Setup
from runnerq.errors import RunnerQError

_log = logging.getLogger("runnerq.console")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Unknown(RunnerQError):
    """Nobody is known to ask: they have to say who they are. ``given``: they did, and it is wrong."""

    def __init__(self, *, given: bool = False) -> None:
        wrong = "the token or password that was sent with Authorization is not one of this console"
        super().__init__(wrong if given else "sign in first, or send Authorization: nobody is known to ask this")


class NoPrincipal(RunnerQError):
    """The console's auth has answered with something that is nobody."""

    def __init__(self, answer: object) -> None:
        super().__init__(
            f"the console's auth= has answered with a {type(answer).__name__}: it is to answer with a Principal, or "
            "None for somebody who is not let in"
        )


MOST_KEPT = 1 << 16
"""Bytes of a form that are read of somebody who is not let in."""


class Door:
    """Lets requests in, as a guard of all handlers, and gives them their ``here``."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._warned = False

    def __deepcopy__(self, _: object) -> Self:
        """Litestar copies routers with whatever they hold; this is one and the same for all copies."""
        return self

    async def admit(self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        """Return if the handler may run.

        Raises:
            NotFromHere: there is no auth, and it is not this machine that asks.
            NoPrincipal: the auth has a fault.
            Unknown: nobody is known to ask.
            Forbidden: they may not.
            ForeignForm: another site has sent it, or asks for it.
            StorageUnavailable, SchemaError: there is no database to ask.
        """
        request: Ask = connection  # type: ignore[assignment] # only HTTP handlers are ours
        if handler.opt.get(PUBLIC):
            request.scope["state"][HERE] = Here(request, self._setup, None)
            return
        check_not_embedded(request)
        principal = await self._asker(request)
        if principal is None and not handler.opt.get(STRANGERS):
            await self._keep_typed(request)
            raise Unknown(given="authorization" in request.headers)
        here = request.scope["state"][HERE] = Here(request, self._setup, principal)
        if request.method not in _SAFE:
            permission = handler.opt.get(PERMISSION)
            if permission is not None and not here.may(permission):
                await self._refuse(here, permission, handler)
            await check_ours(here, bearer=self._by_token(request))
        if not handler.opt.get(APART):
            await self._setup.opening.ready()

    def warn(self) -> None:
        """Say once in the log that there is no auth, if there is none.

        A mounted app may not be told when it begins: its first request is what says it then.
        """
        if self._setup.auth is None and not self._warned:
            self._warned = True
            _log.warning(
                "this console has no auth: it answers this machine alone, with every permission, and a proxy on this "
                "machine can make strangers look local. Give it one wherever others can reach this app: "
                "Console(client, auth=token_auth())"
            )

    def here_of(self, request: Ask) -> Here:
        """The ``here`` of a request that was let in; of one that was not, one of nobody."""
        here: Here | None = request.scope["state"].get(HERE)
        return here if here is not None else Here(request, self._setup, None)

    async def _keep_typed(self, request: Ask) -> None:
        """Read a form of a page of ours whose session has ended, so that the answer can show what was typed."""
        length = request.headers.get("content-length", "")
        is_short = length.isdecimal() and int(length) <= MOST_KEPT
        if request.method == "POST" and is_short and request.headers.get("sec-fetch-site") == "same-origin":
            here = request.scope["state"][HERE] = Here(request, self._setup, None)
            if not here.is_api:
                await here.form()

    async def _refuse(self, here: Here, permission: str, handler: BaseRouteHandler) -> None:
        """Raise Forbidden, and have it written down that somebody tried. ``target`` is the route and no address: of
        these anybody could make as many as they like."""
        refused = Forbidden(here.principal.name, permission)
        try:
            await check_ours(here, bearer=self._by_token(here.request))
        except ForeignForm:
            # What another site has them send is nothing that they have tried.
            raise refused from None
        await forbidden(here.context, refused, permission, target=f"{here.request.method} {min(handler.paths)}")
        raise refused

    async def _asker(self, request: Ask) -> Principal | None:
        setup = self._setup
        if setup.auth is None:
            self.warn()
            check_local(request)
            principal: Principal | None = Principal("local", ALL)
        else:
            answer = await _settled(setup.auth(request))
            if answer is not None and not isinstance(answer, Principal):
                raise NoPrincipal(answer)
            principal = answer
            if principal is None and isinstance(setup.auth, TokenAuth):
                principal = setup.auth.signed_in(Here(request, setup, None).cookie("session"))
        if principal is None:
            return None
        if setup.read_only:
            return Principal(principal.name)
        if setup.authorize is not None:
            may = [one for one in sorted(principal.access) if await _settled(setup.authorize(principal, one))]
            return Principal(principal.name, frozenset(may))
        return principal

    def _by_token(self, request: Ask) -> bool:
        return isinstance(self._setup.auth, TokenAuth) and self._setup.auth(request) is not None


async def _settled(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
