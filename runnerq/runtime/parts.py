"""What the held runs of a worker work with, and what the worker asks of a held run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from runnerq.persistence.protocol import Transactions
from runnerq.persistence.records import Arrival
from runnerq.runtime.attempts import Attempts
from runnerq.runtime.cache import Cache
from runnerq.runtime.current import Means
from runnerq.runtime.effects import Effects
from runnerq.runtime.facts import Facts
from runnerq.runtime.feeding import Feeder
from runnerq.runtime.ground import Ground
from runnerq.runtime.heartbeats import Heartbeats
from runnerq.runtime.mailroom import Mailroom
from runnerq.runtime.reporter import Reporter
from runnerq.runtime.timers import Timers
from runnerq.runtime.writer import Writer


class HeldRun(Protocol):
    """A claimed run in this worker, workflow or activity."""

    run_id: str
    token: int

    def begin(self) -> None:
        """Take it up."""
        ...

    def hear(self, arrival: Arrival) -> None:
        """Its mailbox has counted something."""
        ...

    def look(self) -> None:
        """See whether the run is still open: somebody may have terminated it."""
        ...

    def stop(self) -> None:
        """The worker stops: start nothing more, and give the run back as soon as nothing of it runs."""
        ...

    def drop(self) -> None:
        """The run is no longer ours: cancel what runs of it and write nothing."""
        ...


class Parts(Ground, frozen=True):
    """What every held run of one shift shares; the shift wires it, once.

    ``released`` gives the slot back and forgets the run; ``expect``
    tells the claimer of a due time, in seconds; ``keep`` holds a run's generators that refuse to close;
    ``chance`` draws from 0 to 1; ``reporter`` is told of what happens, where somebody listens.
    """

    storage: Transactions
    writer: Writer
    mailroom: Mailroom
    attempts: Attempts
    transactions: Attempts
    effects: Effects
    cache: Cache
    feeder: Feeder
    facts: Facts
    timers: Timers
    chance: Callable[[], float]
    beats: Heartbeats
    means: Means
    released: Callable[[HeldRun], None]
    expect: Callable[[float], None]
    keep: Callable[[str, Sequence[Any]], None]
    reporter: Reporter | None
