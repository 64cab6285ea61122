"""Takes up what claims bring: first each run's slot, then the run itself.

Rules
- A claimed run has its slot before the next claim is sent, which asks for what is free then; its code runs behind that.
- A run may be claimed while it is still held here: its turn is written, and the answer on its way. It is held anew, and
  what held it before is dropped, with its slot.
- What has a payload that cannot be read here is blocked, as a fault of this worker, before any of it is used.
- What cannot be taken up goes back as it came, and so does what has no begun run yet when the worker stops.
- Nothing is begun once the lease may have run out, or the shift is over: it may be done elsewhere by now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeAlias

from runnerq.errors import PayloadUnreadable
from runnerq.persistence.records import Back, Claim, Claimed, Stuck
from runnerq.runtime.apart import Apart
from runnerq.runtime.cache import Cache
from runnerq.runtime.callbacks import log
from runnerq.runtime.opening import unexpected
from runnerq.runtime.parts import HeldRun
from runnerq.runtime.registry import Registry, Target
from runnerq.runtime.run_log import about
from runnerq.runtime.sealed import sealed_in_claim
from runnerq.runtime.slots import Slots
from runnerq.workflow.interpreter import Interpreter

Make: TypeAlias = Callable[[Claimed, Target, Interpreter | None], HeldRun]
_Taken: TypeAlias = "tuple[Claimed, Target, Interpreter | None]"
"""A claimed run in its slot, what it is here, and its generator if that was kept."""


class Taking:
    """Of one worker. ``free(run_id)`` forgets a run and gives its slot back, ``close`` a generator that is not gone on
    with."""

    def __init__(
        self,
        held: dict[str, HeldRun],
        slots: Slots,
        registry: Registry,
        cache: Cache,
        apart: Apart,
        *,
        build: str,
        may_begin: Callable[[], bool],
        sync: Callable[[datetime], None],
        make: Make,
        stuck: Callable[[Claimed, PayloadUnreadable], Stuck],
        free: Callable[[str], None],
        close: Callable[[Interpreter], None],
    ) -> None:
        self._held = held
        self._slots = slots
        self._registry = registry
        self._cache = cache
        self._apart = apart
        self._build = build
        self._may_begin = may_begin
        self._sync = sync
        self._make = make
        self._stuck = stuck
        self._free = free
        self._close = close
        self._stopping = False
        self._over = False

    def stop(self) -> None:
        """Give back whatever comes from now on."""
        self._stopping = True

    def end(self) -> None:
        """Leave alone whatever comes from now on."""
        self._over = True

    def take(self, claim: Claim) -> Callable[[], None]:
        """Give the claimed runs their slots; what is returned begins them."""
        if self._over or not self._may_begin():
            return partial(self._begin, ())
        self._sync(claim.now)
        taken = [entry for claimed in claim.runs if (entry := self._taken(claimed)) is not None]
        return partial(self._begin, taken)

    def _taken(self, claimed: Claimed) -> _Taken | None:
        """The run, in its slot; None if it is given back at once."""
        stale = self._held.pop(claimed.id, None)
        if stale is not None:
            stale.drop()
            self._free(claimed.id)
        kept = None if claimed.kind == "activity" else self._cache.take(claimed.id)
        parked = None
        if kept is not None and claimed.resumed:
            parked = kept.interpreter
        elif kept is not None:
            self._close(kept.interpreter)
        target = self._registry.get(claimed.kind, claimed.name, claimed.version)
        if target is None or (claimed.resumed and parked is None) or self._stopping:
            self._leave(claimed, parked, Back())
            return None
        sealed = sealed_in_claim(claimed)
        if sealed is not None:
            log.error("run %s of %s is blocked: %s", claimed.id, claimed.name, sealed, extra=about(claimed))
            self._leave(claimed, parked, self._stuck(claimed, sealed))
            return None
        self._slots.take(claimed.id, target.served)
        return claimed, target, parked

    def _begin(self, taken: Sequence[_Taken]) -> None:
        may_begin = not self._over and self._may_begin()
        for claimed, target, parked in taken:
            if not may_begin:
                if parked is not None:
                    self._close(parked)
            elif self._stopping:
                self._leave(claimed, parked, Back())
                self._free(claimed.id)
            else:
                self._begin_one(claimed, target, parked)

    def _begin_one(self, claimed: Claimed, target: Target, parked: Interpreter | None) -> None:
        try:
            held = self._make(claimed, target, parked)
            self._held[claimed.id] = held
            held.begin()
        except Exception as error:  # noqa: BLE001 - one run that cannot be taken up must not stop the others
            log.exception("run %s of %s cannot be taken up", claimed.id, claimed.name, extra=about(claimed))
            broken = self._held.pop(claimed.id, None)
            if broken is not None:
                broken.drop()
            self._free(claimed.id)
            message = f"taking it up failed: {unexpected(error).message}"
            self._apart.leave(claimed, Stuck(message=message, build=self._build))

    def _leave(self, claimed: Claimed, parked: Interpreter | None, move: Back | Stuck) -> None:
        if parked is not None:
            self._close(parked)
        self._apart.leave(claimed, move)
