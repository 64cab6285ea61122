"""The client of a console: open already, or opened by whoever needs it first.

Rules
- A mounted app is not told when its host begins or ends, so that nothing can be opened beforehand.
- A client that the host opens is left to the host. One that was opened here is closed here.
- Of many requests that come meanwhile one opens, the others wait for it; nobody waits longer than a page may take. A
  database that does not answer is asked again by the next request.
"""

from __future__ import annotations

import asyncio
import logging

from runnerq.client.client import Client
from runnerq.errors import StorageUnavailable, UsageError

PATIENCE = 3.0
"""Seconds that a request waits for the database to be reached; trying goes on behind it."""

_log = logging.getLogger("runnerq.console")


class Opening:
    """A client, and whether it is ours to close."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._opens: asyncio.Task[None] | None = None
        self._ours = False
        self._last: Exception | None = None

    def begin(self) -> None:
        """Begin to open it, if it is not: whoever comes finds it open, or knows why not."""
        if self.client.opened_on is None and (self._opens is None or self._opens.done()):
            self._opens = asyncio.create_task(self._open(), name="runnerq-console-opening")

    async def ready(self) -> Client:
        """The client, open.

        Raises:
            StorageUnavailable: the database does not answer, or has not yet.
            SchemaError: its schema does not fit.
            UsageError: it was opened on another event loop.
        """
        loop = self.client.opened_on
        if loop is asyncio.get_running_loop():
            return self.client
        if loop is not None:
            raise UsageError(
                "the console's client was opened on another event loop: give the console a client of its own, or open "
                "this one in the lifespan of the app that has the console"
            )
        self.begin()
        opens = self._opens
        if opens is not None:
            await asyncio.wait({opens}, timeout=PATIENCE)
        if self.client.opened_on is None:
            raise self._last or StorageUnavailable(
                f"{self.client.place} has not answered yet; it is asked again and again"
            )
        return self.client

    async def _open(self) -> None:
        try:
            await self.client.open()
        except UsageError:
            # The host is opening it at this very moment.
            self._last = StorageUnavailable("the client is being opened: ask again in a moment")
        except Exception as error:  # noqa: BLE001 - raised to everybody who waits for it, and to who asks meanwhile
            if str(error) != str(self._last):
                _log.warning("the console's database cannot be used: %s", error)
            self._last = error
        else:
            self._last = None
            self._ours = True

    async def close(self) -> None:
        """Close the client, if it was opened here."""
        opens, self._opens = self._opens, None
        if opens is not None and not opens.done():
            opens.cancel()
            await asyncio.wait({opens})
        if self._ours:
            self._ours = False
            await self.client.close()
