"""Which runs hold a worker's slots, and what may be claimed into the free ones.

Rules
- A slot is a claimed run. With ``reserve`` some slots are kept for the runs it names: the others never take those, be
  they as ready as they like. So a worker that is full of slow parents still runs the leaves they wait for.
- While the others may still take a slot, everybody is claimed for, by rank, into as many as those may take; then only
  the named ones, into all that is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from runnerq.errors import ConfigurationError
from runnerq.runtime.registry import Registry

Reserve: TypeAlias = "tuple[int, Iterable[Callable[..., Any] | str]]"
"""How many slots are kept, and for which functions or names."""


class Kept(msgspec.Struct, frozen=True):
    """So many slots are for runs of these served names alone."""

    slots: int
    served: frozenset[str]


def kept_for(reserve: Reserve | None, registry: Registry, served: tuple[str, ...], most: int) -> Kept | None:
    """What ``reserve=`` keeps of so many slots; None where nobody is kept from anything.

    Raises ConfigurationError for names that are not served, and for a number that leaves nothing to somebody.
    """
    if reserve is None:
        return None
    given: object = reserve
    if not (isinstance(given, tuple | list) and len(given) == len(("slots", "functions"))):
        raise ConfigurationError(f"reserve={reserve!r}: expected a number of slots and a list of functions")
    slots, functions = reserve
    number: object = slots
    if isinstance(functions, str) or callable(functions):
        raise ConfigurationError(
            f"reserve=({slots!r}, {functions!r}): expected a number of slots and a list of functions"
        )
    names = frozenset(registry.named(functions, "reserve="))
    if not names:
        raise ConfigurationError("reserve= keeps slots for nothing: name the activities or workflows that they are for")
    if not names <= set(served):
        raise ConfigurationError(
            f"reserve= keeps slots for {sorted(names - set(served))}, which only= leaves out: add them to only="
        )
    others = sorted(set(served) - names)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
        raise ConfigurationError(f"reserve=({slots!r}, ...) of max_workers={most}: expected from 1 to {most - 1} slots")
    if others and slots == most:
        raise ConfigurationError(
            f"reserve=({slots}, ...) takes all of max_workers={most}, and {others} would never run: keep less, or "
            "register only what is to run here"
        )
    return Kept(slots, names) if others else None


class Slots:
    """The slots of one worker."""

    def __init__(self, most: int, queues: Iterable[str], served: Iterable[str], kept: Kept | None) -> None:
        self._most = most
        self._kept = Kept(0, frozenset()) if kept is None else kept
        self._everybody = tuple((queue, name) for queue in queues for name in served)
        self._named = tuple(pair for pair in self._everybody if pair[1] in self._kept.served)
        self._taken: dict[str, bool] = {}
        self._others = 0
        self.narrow = False

    def free(self) -> int:
        """How many runs the next claim may bring."""
        free = self._most - len(self._taken)
        return min(free, self._for_others()) or free

    def _for_others(self) -> int:
        return max(0, self._most - self._kept.slots - self._others)

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """What the next claim is for; ``narrow`` says then that somebody is left out."""
        self.narrow = bool(self._kept.slots) and not self._for_others()
        return self._named if self.narrow else self._everybody

    def take(self, run_id: str, served: str) -> None:
        """A run has taken one; again, perhaps, where nobody gave back the one that it had."""
        other = served not in self._kept.served
        self._others += other - self._taken.get(run_id, False)
        self._taken[run_id] = other

    def give(self, run_id: str) -> bool:
        """A run has given its slot back, if it has one: whether those may be claimed for now that could not before."""
        other = self._taken.pop(run_id, False)
        if not other:
            return False
        was_full = not self._for_others()
        self._others -= 1
        return was_full and bool(self._kept.slots)

    def has(self, run_id: str) -> bool:
        return run_id in self._taken

    def clear(self) -> None:
        self._taken.clear()
        self._others = 0
