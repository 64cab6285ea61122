"""How handlers are declared: async functions of ``here`` and of what stands in their path.

What they need of the asker is said here, and looked at in ``door`` before they run.

Rules
- What changes something is made by ``action``, and names the permission that it needs.
- What changes only the browser that sends it (signing in, a theme) is made by ``own_form``: no permission, but the same
  proof that a page of ours sent it.
- Everything else is a ``view``: it looks, and whoever is let in may.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.types import Method

from runnerq.console.access import PERMISSIONS
from runnerq.errors import ConfigurationError

Unsafe: TypeAlias = Literal["POST", "PUT", "PATCH", "DELETE"]
Handle: TypeAlias = Callable[..., Awaitable[Response[Any]]]
"""Given ``here`` and the parameters of its path, the answer."""
Declared: TypeAlias = Callable[[Handle], HTTPRouteHandler]

HERE = "runnerq_here"
"""Where in a request's state the door leaves what handlers are given."""

PERMISSION = "runnerq_permission"
"""What the asker needs; None for what looks."""
PUBLIC = "runnerq_public"
"""Answered to anybody: what says nothing about runs."""
APART = "runnerq_apart"
"""Answered without the database."""
STRANGERS = "runnerq_strangers"
"""Answered to who is not signed in yet."""

FORM_LIMIT = 4 << 20
"""Bytes of a form: a payload of 1 MiB of JSON takes up to three times that when a browser escapes it."""
JSON_LIMIT = 1 << 20


def view(path: str | list[str], *, apart: bool = False, **options: Any) -> Declared:
    """A page, or anything else to look at: ``@view("/runs/{run_id:str}")``. GET, and HEAD, which has no body.

    ``apart``: it does not need the database.
    """
    return _declared(path, ("GET", "HEAD"), {PERMISSION: None, APART: apart}, options)


def action(permission: str, path: str | list[str], *, method: Unsafe = "POST", **options: Any) -> Declared:
    """What changes something: ``@action("cancel", "/runs/{run_id:str}/cancel")``.

    It runs only for who has the permission, and, from a browser, only if a page of this console has sent it. Both are
    looked at before the handler is given anything.
    """
    if permission not in PERMISSIONS:
        raise ConfigurationError(f"there is no permission {permission!r}: it is one of {', '.join(PERMISSIONS)}")
    options.setdefault("request_max_body_size", JSON_LIMIT if "/api/" in str(path) else FORM_LIMIT)
    return _declared(path, (method,), {PERMISSION: permission}, options)


def own_form(path: str, *, strangers: bool = False, **options: Any) -> Declared:
    """A form that changes nothing but cookies of the browser that sends it: signing in and out, theme, time zone.

    ``strangers``: also of who is not signed in.
    """
    options.setdefault("request_max_body_size", 1 << 16)
    return _declared(path, ("POST",), {PERMISSION: None, APART: True, STRANGERS: strangers}, options)


def public(path: str, **options: Any) -> Declared:
    """What is answered to anybody, without the database: files of the package, probes."""
    return _declared(path, ("GET", "HEAD"), {PUBLIC: True, APART: True}, options)


def _declared(
    path: str | list[str], methods: tuple[Method, ...], needs: dict[str, object], options: dict[str, Any]
) -> Declared:
    # All of them: an app that has one of these among its own options must not have it show through.
    opt = {PERMISSION: None, PUBLIC: False, APART: False, STRANGERS: False, **needs, **options.pop("opt", {})}
    route = HTTPRouteHandler(path, http_method=list(methods), status_code=200, opt=opt, **options)

    def declare(handle: Handle) -> HTTPRouteHandler:
        async def handler(request: Request[Any, Any, Any]) -> Response[Any]:
            return await handle(request.scope["state"][HERE], **request.path_params)

        handler.__name__ = handle.__name__
        handler.__doc__ = handle.__doc__
        return route(handler)

    return declare
