"""A case: a program, what comes to it from outside, and what goes wrong meanwhile. Small data, so that it shrinks."""

from __future__ import annotations

import msgspec

from tests.properties.faults import Fault
from tests.properties.programs import Block, Wait, reachable


class Came(msgspec.Struct, frozen=True):
    """A signal that comes from outside, so many seconds after the start; 0 is before anybody could claim the run."""

    after: float
    channel: str


class Case(msgspec.Struct, frozen=True):
    """``cancel_after`` is when somebody cancels the run, if somebody does; ``cache`` what workers keep of parked runs;
    ``seed`` decides how long storage and steps take."""

    program: Block
    signals: tuple[Came, ...] = ()
    faults: tuple[Fault, ...] = ()
    cancel_after: float | None = None
    cache: int = 100
    seed: int = 0

    def channels(self) -> frozenset[str]:
        """The channels on which something is waited for without end."""
        return frozenset(
            node.channel for node in reachable(self.program) if isinstance(node, Wait) and node.timeout is None
        )

    def shown(self) -> str:
        """What to paste into ``python -m tests.properties --case`` to play it again."""
        return msgspec.json.encode(self).decode()
