"""Who is told what has changed, on which event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from runnerq.persistence.records import Wake

NAMED_RUNS = 100
"""A wake that would name more runs than this says only that there are many."""


@dataclass(slots=True)
class Heard:
    """What one write changed, gathered while it is made."""

    queues: set[str] = field(default_factory=set)
    workers: set[int] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    schedules: bool = False

    def wake(self) -> Wake | None:
        """The wake that tells of it, or None if nothing changed."""
        if not (self.queues or self.workers or self.runs or self.schedules):
            return None
        many = len(self.runs) > NAMED_RUNS
        return Wake(
            queues=frozenset(self.queues),
            workers=frozenset(self.workers),
            runs=frozenset() if many else frozenset(self.runs),
            many_runs=many,
            schedules=self.schedules,
        )


class Subscription:
    """One listener and the loop that it listens on."""

    def __init__(self, hear: Callable[[Wake], None], loop: asyncio.AbstractEventLoop) -> None:
        self._hear = hear
        self._loop = loop
        self._ended = False

    def end(self) -> None:
        self._ended = True

    def deliver(self, wake: Wake) -> None:
        """Hand the wake over to the loop; from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._tell, wake)
        except RuntimeError:
            # The loop is closed: nobody is left who could hear, and a wake may be lost.
            self._ended = True

    def _tell(self, wake: Wake) -> None:
        # Ended between the hand-over and now: the listener may be gone.
        if not self._ended:
            self._hear(wake)

    @property
    def ended(self) -> bool:
        return self._ended


class Wakeups:
    """All subscriptions of one storage."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        subscription = Subscription(hear, asyncio.get_running_loop())
        self._subscriptions.append(subscription)
        return subscription.end

    def deliver(self, wake: Wake) -> None:
        self._subscriptions = [each for each in self._subscriptions if not each.ended]
        for subscription in self._subscriptions:
            subscription.deliver(wake)
