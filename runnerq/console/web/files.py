"""``/static``: the package's files. Their addresses change when they do, so that browsers keep them for good."""

from __future__ import annotations

from litestar import Response
from litestar.exceptions import NotFoundException

from runnerq.console.web.assets import assets
from runnerq.console.web.context import Here
from runnerq.console.web.cookies import YEAR
from runnerq.console.web.guards import public


@public("/static/{name:path}")
async def static(here: Here, name: str) -> Response[bytes]:
    """A file. One that is asked for by another version than it has is sent, and not kept."""
    asset = assets().get(str(name).strip("/"))
    if asset is None:
        raise NotFoundException("the console has no such file")
    kept = f"public, max-age={YEAR}, immutable" if here.query.get("v") == asset.version else "no-cache"
    return Response(asset.body, media_type=asset.kind, headers={"Cache-Control": kept})


HANDLERS = [static]
