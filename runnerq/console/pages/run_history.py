"""What the page of a history is made of: which entries, and where its links lead."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from runnerq.client.history import EntryKind, EntryState
from runnerq.console.models.history import HistoryQuery, View, history, page_of_entry
from runnerq.console.web.context import Here


async def history_values(here: Here, run_id: str) -> dict[str, Any]:
    """The values of ``run_history.html``. A link to an entry leads to the page on which it stands, where it is open."""
    query = _query(here)
    opened = number_in(here.query.get("entry"))
    if opened is not None:
        query = msgspec.structs.replace(query, page=await page_of_entry(here.context, run_id, opened, query))
    path = f"/runs/{run_id}/history"

    def history_url(**changes: Any) -> str:
        return here.url(path, _params(msgspec.structs.replace(query, **{"page": 1, **changes})))

    def toggle_url(name: str, value: str) -> str:
        chosen = getattr(query, name)
        rest = tuple(each for each in chosen if each != value)
        return history_url(**{name: rest if value in chosen else (*chosen, value)})

    return {
        "query": query,
        "found": await history(here.context, run_id, query),
        "opened": opened,
        "kept": [(name, value) for name, value in _params(query) if name not in ("text", "page")],
        "history_url": history_url,
        "toggle_url": toggle_url,
    }


def _query(here: Here) -> HistoryQuery:
    """What the address asks for; what cannot be read of it is passed over."""
    given = here.query
    view: View = next((view for view in get_args(View) if view == given.get("view")), "compact")
    return HistoryQuery(
        generation=number_in(given.get("generation")),
        view=view,
        kind=tuple(kind for kind in get_args(EntryKind) if kind in given.all("kind")),
        state=tuple(state for state in get_args(EntryState) if state in given.all("state")),
        text=given.get("text")[:200] or None,
        newest_first=given.get("order") == "newest",
        page=number_in(given.get("page")) or 1,
    )


def _params(query: HistoryQuery) -> list[tuple[str, str]]:
    """The parameters of the address that means this; what is as by default is left out."""
    params = [] if query.generation is None else [("generation", str(query.generation))]
    if query.view != "compact":
        params.append(("view", query.view))
    params += [("kind", kind) for kind in query.kind]
    params += [("state", state) for state in query.state]
    if query.text:
        params.append(("text", query.text))
    if query.newest_first:
        params.append(("order", "newest"))
    if query.page > 1:
        params.append(("page", str(query.page)))
    return params


def number_in(text: str) -> int | None:
    """The number above 0 that a parameter is; None for anything else."""
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) > 0 else None
