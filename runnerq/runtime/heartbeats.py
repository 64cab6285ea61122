"""What attempts say of themselves, on its way to the storage.

Rules
- The last words of an attempt count, and only those: however often it speaks, they are written once a beat at most.
- It is said in steps' threads and on the event loop, and taken in the heart's thread: one lock, held for a dict's turn.
- A beat carries AT_ONCE bytes and what goes over that with the next one: it must not last as long as a lease.
- What a beat could not write, because it failed or somebody held the run's row, comes with the next one, unless more
  has been said since.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import TypeAlias

from runnerq.persistence.records import Details
from runnerq.serialization.codec import Codec

AT_ONCE = 1 << 20
"""Characters of a beat's details; one that alone is longer goes by itself."""

Place: TypeAlias = tuple[str, str]


class Heartbeats:
    """Of one worker. A place is a run's id and a position in it."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self._lock = threading.Lock()
        self._new: dict[Place, Details] = {}
        self._spoken: set[Place] = set()
        self._under_way = False

    @property
    def waiting(self) -> bool:
        """Whether something that was said is not written yet."""
        return bool(self._new) or self._under_way

    def say(self, details: Details) -> None:
        """Have this written with the next beat."""
        place = details.run_id, details.position
        with self._lock:
            self._spoken.add(place)
            self._new[place] = details

    def forget(self, run_id: str, position: str) -> bool:
        """The attempts there are over: nothing more of them is to be written. Whether anything was ever said."""
        if not self._spoken:
            return False
        place = run_id, position
        with self._lock:
            self._new.pop(place, None)
            spoken = place in self._spoken
            self._spoken.discard(place)
        return spoken

    # --- in the heart's thread ----------------------------------------------------------------------------------------

    def take(self) -> list[Details]:
        """What is to be written with this beat; ``written`` is to follow."""
        if not self._new:
            return []
        taken: list[Details] = []
        size = 0
        with self._lock:
            # First: ``waiting`` is asked without the lock, and must not find it neither new nor under way.
            self._under_way = True
            for place, details in list(self._new.items()):
                size += len(details.text)
                if taken and size > AT_ONCE:
                    break
                taken.append(details)
                del self._new[place]
        return taken

    def written(self, taken: Sequence[Details], held_back: Collection[str]) -> None:
        """What was taken is written, but for what is of these runs: that comes again."""
        with self._lock:
            self._under_way = False
            for each in taken:
                place = each.run_id, each.position
                if each.run_id in held_back and place in self._spoken:
                    self._new.setdefault(place, each)

    def lost(self, taken: Sequence[Details]) -> None:
        """What was taken may not be written: it comes again."""
        self.written(taken, {each.run_id for each in taken})
