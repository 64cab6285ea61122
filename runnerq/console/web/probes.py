"""``/healthz`` and ``/readyz``: whether the process answers, and whether the database does. They say nothing else."""

from __future__ import annotations

import asyncio

from litestar import Response

from runnerq.console.web.context import Here
from runnerq.console.web.guards import public
from runnerq.errors import RunnerQError

PATIENCE = 2.0


@public("/healthz")
async def healthz(here: Here) -> Response[str]:
    """This process answers."""
    return _said(here, 200, "ok")


@public("/readyz")
async def readyz(here: Here) -> Response[str]:
    """The database answers, too; of those who ask within two seconds one asks it."""
    setup = here.setup

    async def ask() -> None:
        async with asyncio.timeout(PATIENCE):
            client = await setup.opening.ready()
            await client.storage.now()

    try:
        await setup.cache.get("readyz", ask)
    except (RunnerQError, TimeoutError):
        return _said(here, 503, "the database does not answer")
    return _said(here, 200, "ok")


def _said(here: Here, status: int, text: str) -> Response[str]:
    del here
    return Response(f"{text}\n", status_code=status, media_type="text/plain")


HANDLERS = [healthz, readyz]
