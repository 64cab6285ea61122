"""Errors become answers: a page for a browser, ``application/problem+json`` (RFC 9457) under ``/api``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Self

import msgspec
from litestar import Response
from litestar.exceptions import HTTPException

from runnerq.console.web.auth import BasicAuth
from runnerq.console.web.context import Ask, Here
from runnerq.console.web.door import Door, Unknown
from runnerq.console.web.faults import OF_DATABASE, Fault, fault_of
from runnerq.console.web.headers import ALWAYS, OF_PAGES
from runnerq.console.web.rendering import checked_target, page

TYPES = "urn:runnerq:problem:"
PROBLEM = "application/problem+json"

_log = logging.getLogger("runnerq.console")


class Answers:
    """What is answered where a handler, or the door before it, raises."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def __deepcopy__(self, _: object) -> Self:
        """Litestar copies routers with whatever they hold; this is one and the same for all copies."""
        return self

    def handlers(self) -> dict[type[Exception] | int, Callable[[Ask, Any], Response[Any]]]:
        """For a router or an app: Litestar looks for the closest class that an error is of."""
        return {Exception: self.answer, HTTPException: self.answer}

    def answer(self, request: Ask, error: Exception) -> Response[Any]:
        """The answer; what was not foreseen is logged with its stack."""
        here = self._door.here_of(request)
        fault = fault_of(error)
        if fault.status == 500:
            _log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
        answer = self._told(here, fault, error)
        # Where no route was found, no middleware of ours is in the way.
        for name, value in {**ALWAYS, **OF_PAGES}.items():
            answer.set_header(name, value)
        if fault.retry_in is not None:
            answer.set_header("Retry-After", str(fault.retry_in))
        if isinstance(error, Unknown) and isinstance(here.setup.auth, BasicAuth):
            answer.set_header("WWW-Authenticate", here.setup.auth.challenge)
        elif isinstance(error, Unknown) and here.is_api:
            answer.set_header("WWW-Authenticate", "Bearer")
        return answer

    def _told(self, here: Here, fault: Fault, error: Exception) -> Response[Any]:
        if here.is_api:
            return problem(here, fault)
        try:
            return self._page(here, fault, error)
        except Exception as broken:  # noqa: BLE001 - whatever is wrong with the page, the asker is told of the error
            _log.error("the page of an error has a fault itself", exc_info=broken)
            return Response(f"{fault.title}\n\n{fault.detail}\n", status_code=fault.status, media_type="text/plain")

    def _page(self, here: Here, fault: Fault, error: Exception) -> Response[Any]:
        setup = here.setup
        if here.is_fragment:
            # The page that is open stays as it is, and says that it is not live, or that one was signed out: what is
            # typed there is not lost. What waiting does not mend is shown by the whole page: that the run was deleted,
            # that a list has to begin anew.
            headers = {"HX-Refresh": "true"} if fault.status in (400, 404) else {"HX-Reswap": "none"}
            return Response("", status_code=fault.status, headers=headers, media_type="text/html")
        if (
            isinstance(error, Unknown)
            and (setup.signs_in or setup.login_url)
            and here.request.method in ("GET", "HEAD")
        ):
            to = setup.login_url or here.url("/login", next=here.address)
            return Response("", status_code=303, headers={"Location": to})
        # Where the runs are is for who was let in.
        place = here.place if here.signed_in and fault.kind in OF_DATABASE else None
        return page(
            here,
            "error.html",
            status_code=fault.status,
            fault=fault,
            place=place,
            ways=ways_from(here, fault),
            typed=_typed(here),
        )


def ways_from(here: Here, fault: Fault) -> list[tuple[str, str]]:
    """Where one may go from the page of an error, in words and as addresses: never to what would fail alike."""
    if here.request.method not in ("GET", "HEAD"):
        back = "" if here.sent is None else here.sent.get("back")
        return [("Back to the form", checked_target(here, back))] if back else []
    if fault.kind == "bad-cursor":
        rest = [(name, value) for name in here.query.fields if name != "cursor" for value in here.query.all(name)]
        return [("From the beginning", here.url(here.path, rest))]
    if fault.status == 404:
        words, path = _LISTS.get(here.section, ("To the runs", "/runs"))
        return [(words, here.url(path))]
    return [("Try again", here.address)] if fault.status >= 500 or fault.status == 429 else []


def _typed(here: Here) -> list[tuple[str, str]]:
    """What stood in the fields of the form, to be copied from here into the next."""
    sent = {} if here.sent is None else here.sent.fields
    return [(name, text) for name, texts in sent.items() if name not in _UNTYPED for text in texts if text]


_LISTS = {
    "schedules": ("To the schedules", "/schedules"),
    "schedule": ("To the schedules", "/schedules"),
    "workers": ("To the workers", "/workers"),
    "types": ("To the types", "/types"),
    "batches": ("To the batches", "/batches"),
}
"""Where a page that is not there would be linked from, by the first part of its path."""
_UNTYPED = ("csrf", "back", "verb", "id", "known", "seen", "token")
"""Fields that nobody fills in, or whose text is nobody's to see."""


def problem(here: Here, fault: Fault) -> Response[bytes]:
    """The fault for a program."""
    said = {
        "type": f"{TYPES}{fault.kind}",
        "title": fault.title,
        "status": fault.status,
        "detail": fault.detail,
        "instance": here.base + here.path,
        **fault.more,
    }
    if fault.errors:
        said["errors"] = [{"field": field, "message": message} for field, message in fault.errors.items()]
    return Response(msgspec.json.encode(said), status_code=fault.status, media_type=PROBLEM)
