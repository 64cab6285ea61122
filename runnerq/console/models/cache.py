"""Answers that several people want at the same time, asked for once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable
from time import monotonic
from typing import Any, TypeVar, cast

T = TypeVar("T")

FRESH = 2.0
"""Seconds for which an answer is given again."""
STIRRED = 0.2
"""Seconds, fewer than the quarter of one that a page waits before it looks again."""
MOST = 1_000
"""Answers that are kept; keys hold what people type."""


class _Slot:
    """One question: whoever holds ``lock`` asks it, the others wait and take what came of it.

    The answer was asked for at ``asked``, and is given again before ``until``.
    """

    __slots__ = ("answer", "asked", "error", "lock", "until")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.asked = self.until = 0.0
        self.answer: Any = None
        self.error: Exception | None = None


class Cache:
    """The answers of the last two seconds. Used on one event loop."""

    def __init__(self) -> None:
        self._slots: dict[Hashable, _Slot] = {}
        self._seen: dict[Hashable, float] = {}
        self.turn = asyncio.Lock()
        """Of those who work in a thread: several at once would leave the event loop little time."""

    def __len__(self) -> int:
        return len(self._slots)

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]], *, fresh: float = FRESH) -> T:
        """The answer to this question: the one that is there, else that of ``ask``.

        Of several who want it at the same time one asks, and its error is everybody's: a database that does not answer
        is waited for once. One that is cancelled leaves asking to the next.
        """
        came = monotonic()
        slot = self._slots.get(key)
        if slot is None:
            if len(self._slots) >= MOST:
                del self._slots[next(iter(self._slots))]  # the oldest; who waits for it has it
            slot = self._slots[key] = _Slot()
        async with slot.lock:
            # What was asked for since one came is true for them, however much has happened.
            if slot.asked <= came and monotonic() >= slot.until:
                await _asked(slot, ask, fresh)
            if slot.error is not None:
                raise slot.error
            return cast("T", slot.answer)

    def is_new(self, key: Hashable, *, within: float) -> bool:
        """Whether this was not asked of the same key in so many seconds; at most for a thousand keys in that time."""
        now = monotonic()
        if len(self._seen) >= MOST:
            self._seen = {each: until for each, until in self._seen.items() if now < until}
        if len(self._seen) >= MOST or now < self._seen.get(key, 0.0):
            return False
        self._seen[key] = now + within
        return True

    def forget(self) -> None:
        """Ask everything anew: something was changed by whoever looks next."""
        for slot in self._slots.values():
            slot.until = 0.0

    def stir(self) -> None:
        """Something has happened: what is known now is given again for a moment only.

        A page looks again a little later than that, and is not to be told what was true before.
        """
        soon = monotonic() + STIRRED
        for slot in self._slots.values():
            slot.until = min(slot.until, soon)


async def _asked(slot: _Slot, ask: Callable[[], Awaitable[Any]], fresh: float) -> None:
    asked = monotonic()
    slot.until = math.inf  # what happens while it is asked makes it less
    try:
        slot.answer, slot.error = await ask(), None
    except Exception as error:  # noqa: BLE001 - told to each who waits for it
        slot.answer, slot.error = None, error
    except BaseException:
        slot.until = 0.0
        raise
    slot.asked, slot.until = asked, min(slot.until, monotonic() + fresh)
