"""``client.events()``: everything that happens, in order, without a gap.

Rules
- The cursor decides: a look asks for what is behind it, so that nothing is missed and nothing told twice.
- Only a page without events is the end of what there is for now: one that is short says nothing about more.
- A wake is a hint that leads to a look; without one there is a look at intervals.
- A storage that does not answer is asked again. The tail ends when its client is closed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from runnerq.client.core import Core
from runnerq.client.values import Event, event_of
from runnerq.errors import StorageUnavailable
from runnerq.persistence.records import Tail

PAGE = 500

log = logging.getLogger("runnerq.client")


async def tail(core: Core, after: str | None) -> AsyncIterator[Event]:
    """What happens behind the cursor, or from now on; see ``Client.events``."""
    cursor = after
    with core.hub.everything() as stirs:
        while not stirs.closed:
            found = await _look(core, cursor)
            if found is not None:
                cursor = found.cursor
                for record in found.events:
                    yield event_of(record)
            if found is None or not found.events:
                await core.stirred(stirs)


async def _look(core: Core, cursor: str | None) -> Tail | None:
    """Some of the tail; None if the storage did not answer."""
    try:
        return await core.storage.events(cursor, PAGE)
    except StorageUnavailable as error:
        log.warning("could not read what has happened, asking again: %s", error)
        return None
