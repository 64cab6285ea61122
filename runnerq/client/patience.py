"""How long a caller waits for an answer, whatever was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runnerq.errors import ReadTimeout


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Give up what is asked inside after so many seconds; the database is told to stop working on it.

    It is for reads: a write that is given up may have happened.

    Raises:
        ReadTimeout: the time passed.
    """
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            yield
    except TimeoutError as error:
        if deadline.expired():
            raise ReadTimeout(
                f"there was no answer within {seconds:g} s, and the database was told to stop: ask for less (fewer "
                "runs, a shorter time), or again later"
            ) from error
        raise
