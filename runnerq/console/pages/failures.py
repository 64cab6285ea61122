"""``/dead-letter`` and ``/blocked``: runs that need somebody."""

from __future__ import annotations

from litestar import Response

from runnerq.console.models.blocked import blocked
from runnerq.console.models.dead_letters import failures
from runnerq.console.models.filters import BadFields, parse_leniently
from runnerq.console.pages.forms import pairs
from runnerq.console.web.context import Here
from runnerq.console.web.guards import view
from runnerq.console.web.rendering import page
from runnerq.persistence.records import Status


@view("/dead-letter")
async def dead_letter_page(here: Here) -> Response[str]:
    """Dead letters, or other failures, those alike together."""
    query, errors = parse_leniently(pairs(here.query))
    which = Status.FAILED if query.status == (Status.FAILED,) else Status.DEAD_LETTER
    query = query.with_(status=(which,))
    try:
        found = await failures(here.context, query)
    except BadFields as error:
        errors |= error.errors
        query = parse_leniently(pairs(here.query, without=errors))[0].with_(status=(which,))
        found = await failures(here.context, query)
    verb = "redrive" if which is Status.DEAD_LETTER else "retry"
    return page(
        here,
        "dead_letter.html",
        query=query,
        errors=errors,
        which=str(which),
        verb=verb,
        view=found,
    )


@view("/blocked")
async def blocked_page(here: Here) -> Response[str]:
    """Blocked runs: what is on record, and what the code asks for instead."""
    return page(here, "blocked.html", page=await blocked(here.context, here.query.get("cursor") or None))


HANDLERS = [dead_letter_page, blocked_page]
