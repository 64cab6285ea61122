"""``GET /stream``: the live channel of a page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from litestar.response import Stream

from runnerq.console.web.auth import address_of, network_of
from runnerq.console.web.context import Here
from runnerq.console.web.guards import view

MOST_WATCHED = 200


async def stream_to(here: Here, *, whole: bool = False) -> Stream:
    """The answer that tells of changes until the asker leaves, of the runs in ``watch`` alone if there are any.

    ``whole``: each event by itself, for a program.
    """
    live = here.setup.live
    if here.request.method == "HEAD":
        # The headers alone are wanted: no place is taken for that.
        frames: AsyncIterator[bytes] | Iterator[bytes] = iter(())
    else:
        # Behind a proxy a whole team may have one name and one address.
        asker = here.session or f"{here.principal.name} {network_of(address_of(here.request))}"
        place = await live.begin(asker=asker, watch=here.query.all("watch")[:MOST_WATCHED], whole=whole)
        frames = live.frames(place, here.request.headers.get("last-event-id"))
    return Stream(
        frames,
        media_type="text/event-stream",
        # nginx would gather it.
        headers={"X-Accel-Buffering": "no"},
    )


@view("/stream")
async def stream(here: Here) -> Stream:
    """What changes, for the page that is open."""
    return await stream_to(here)


HANDLERS = [stream]
