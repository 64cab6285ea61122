"""Views of ``/runs``: conditions that have a name. Some are always there, others a browser keeps in a cookie.

Rules
- A view is an address of ``/runs`` and nothing else: its link can be kept, shared, and narrowed further.
- What a browser keeps is seen by that browser alone. Its cookie is read as what it is, something from outside: what is
  no view in it is passed over.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from urllib.parse import parse_qsl

import msgspec
from litestar import Response
from litestar.datastructures import Cookie

from runnerq.console.models.filters import BadFields, RunQuery, parse_query
from runnerq.console.web.context import Here
from runnerq.console.web.cookies import YEAR
from runnerq.console.web.guards import own_form
from runnerq.console.web.rendering import go
from runnerq.persistence.records import Status

COOKIE = "views"
MOST = 12
LONGEST_NAME = 40
ROOM = 3_000
"""Characters of the cookie: browsers take no more than 4 kB with its name and all."""

Params = tuple[tuple[str, str], ...]


class View(msgspec.Struct, frozen=True, array_like=True):
    """A name, and the parameters of the address that it stands for."""

    name: str
    params: Params


def _built_in(name: str, **conditions: object) -> View:
    return View(name, tuple(RunQuery().with_(**conditions).to_params()))


BUILT_IN = (
    _built_in("Open", status=tuple(status for status in Status if not status.ended)),
    _built_in("Blocked", status=(Status.BLOCKED,)),
    _built_in("Failed in 24 h", status=(Status.FAILED, Status.DEAD_LETTER), ended_since="24h"),
    _built_in("Dead letter", status=(Status.DEAD_LETTER,)),
)


def kept_views(here: Here) -> tuple[View, ...]:
    """Those of this browser, by name."""
    text = here.cookie(COOKIE) or ""
    try:
        found = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=tuple[View, ...])
    except ValueError:
        # What is no base64, no ASCII or no view: msgspec's errors are ValueErrors, too.
        return ()
    return found[:MOST]


def is_shown(view: View, params: Sequence[tuple[str, str]]) -> bool:
    """Whether a page with these parameters is this view."""
    return sorted(view.params) == sorted(params)


@own_form("/runs/views")
async def change_views(here: Here) -> Response[str]:
    """Keep the conditions of a list under a name, in place of what had it; or take a name away."""
    form = await here.form()
    name = form.get("name")
    others = tuple(view for view in kept_views(here) if view.name != name)
    if form.get("verb") == "remove":
        return go(here, form.get("back"), _cookie(here, others))
    if not 0 < len(name) <= LONGEST_NAME:
        raise BadFields({"name": f"give the view a name of at most {LONGEST_NAME} characters"})
    if len(others) >= MOST:
        raise BadFields({"name": f"there are {MOST} views already, which are the most: remove one before"})
    query = parse_query(parse_qsl(form.get("query"))).with_()
    views = (*others, View(name, tuple(query.to_params())))
    return go(here, here.url("/runs", query.to_params()), _cookie(here, sorted(views, key=lambda view: view.name)))


def _cookie(here: Here, views: Sequence[View]) -> Cookie:
    text = urlsafe_b64encode(msgspec.json.encode(views)).decode("ascii").rstrip("=")
    if len(text) > ROOM:
        raise BadFields({"name": "the views of this browser are too long with this one: remove one before"})
    return here.cookie_with(COOKIE, text, YEAR if views else 0)


HANDLERS = [change_views]
