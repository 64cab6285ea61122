"""``/dead-letter`` and ``/blocked``: runs that need somebody."""

from __future__ import annotations

from litestar import Response

from runnerq.console.models.blocked import blocked
from runnerq.console.models.dead_letters import GLANCE, MOST, FailuresView, failures
from runnerq.console.models.filters import BadFields, parse_leniently
from runnerq.console.pages.forms import pairs
from runnerq.console.web.context import Here
from runnerq.console.web.guards import view
from runnerq.console.web.rendering import page
from runnerq.persistence.records import Status

LOOK = ("look",)
"""``look=far`` looks at ten times as many."""
NOTHING = FailuresView(groups=(), capped=False)
"""What is shown where it is not clear which failures are meant."""


@view("/dead-letter")
async def dead_letter_page(here: Here) -> Response[str]:
    """Dead letters, or other failures, those alike together."""
    far = here.query.get("look") == "far"
    most = MOST if far else GLANCE
    query, errors = parse_leniently(pairs(here.query, without=LOOK))
    if "status" not in errors and query.status not in ((), (Status.FAILED,), (Status.DEAD_LETTER,)):
        errors["status"] = f"it is one of {Status.DEAD_LETTER} and {Status.FAILED} here"
    which = Status.FAILED if query.status == (Status.FAILED,) else Status.DEAD_LETTER
    query = query.with_(status=(which,))
    found = NOTHING
    if not errors:
        try:
            found = await failures(here.context, query, most=most)
        except BadFields as error:
            errors = error.errors
    refused = [(name, value) for name, value in pairs(here.query) if name in errors and value]
    verb = "redrive" if which is Status.DEAD_LETTER else "retry"
    return page(
        here,
        "dead_letter.html",
        status_code=400 if errors else 200,
        query=query,
        errors=errors,
        which=str(which),
        verb=verb,
        view=found,
        most=most,
        params=query.to_params(),
        others=[pair for pair in query.to_params() + refused if pair[0] != "status"],
        narrowed=query.without("status").narrowed or bool(refused),
        further=None if far else here.url("/dead-letter", query.to_params(), look="far"),
    )


@view("/blocked")
async def blocked_page(here: Here) -> Response[str]:
    """Blocked runs: what is on record, and what the code asks for instead."""
    return page(here, "blocked.html", page=await blocked(here.context, here.query.get("cursor") or None))


HANDLERS = [dead_letter_page, blocked_page]
