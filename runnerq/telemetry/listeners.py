"""Who listens, and how an event gets to them.

Rules
- Listeners are called one after the other, where the event happens: on the event loop of the worker or client. One that
  takes its time holds everything up.
- A listener that raises is logged once by each client and worker, and goes on being told. It harms no start, no signal,
  no run and no other listener: ``Telemetry`` alone calls it, and nothing of it gets past there, neither what it raises
  nor an answer that cannot be stored.
- Where nobody listens there is no ``Telemetry`` at all: whoever would tell one tests an attribute for None.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from runnerq.errors import ConfigurationError
from runnerq.telemetry.events import Event

T = TypeVar("T")

log = logging.getLogger("runnerq")

Trace: TypeAlias = Mapping[str, str]
"""What carries a trace from one process to another: ``traceparent`` and the like, as the W3C has it."""

_OF_THE_PROCESS = (KeyboardInterrupt, SystemExit)
"""What a signal handler raises wherever the program is: no fault of a listener. An asyncio.CancelledError is one, as it
comes out of a call that waits for nothing."""


@runtime_checkable
class Listener(Protocol):
    """Hears of what happens in workers and clients."""

    def hear(self, event: Event) -> None:
        """Take note of it, at once: nothing else moves meanwhile. MUST NOT block."""
        ...


class Sending(Protocol):
    """A start or a signal that is about to be sent. One of the two is called, once."""

    @property
    def trace(self) -> Trace:
        """What is to go with it."""
        ...

    def sent(self, run_ids: tuple[str, ...]) -> None: ...

    def failed(self, error: BaseException) -> None: ...


@runtime_checkable
class Carrier(Protocol):
    """A listener that has traces go with runs: from a start to the run, and from a run to what it starts."""

    def starting(self, name: str, kind: str) -> Sending:
        """A client is about to start runs of this name."""
        ...

    def sending(self, run_id: str, channel: str) -> Sending:
        """A client is about to send a signal to this run."""
        ...

    def carried(self, run_id: str) -> Trace | None:
        """What is to go with children and signals of this run, which is held here, and to be kept in its journal."""
        ...

    def took(self, run_id: str, traces: Sequence[Trace]) -> None:
        """The turn of this run that is told of next has taken signals with these traces."""
        ...

    def came_with(self, run_id: str, root_id: str, started: Trace | None, begun: Trace | None) -> None:
        """A run is about to be told as claimed: what it was started with, and what its journal began with."""
        ...


class Telemetry:
    """Hands each event to all who listen, and asks the one that carries traces. It never raises what they raise."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        # By identity: the one that a client and its worker were both given hears once.
        self.listeners = tuple({id(each): each for each in listeners}.values())
        self._carrier = next((each for each in self.listeners if isinstance(each, Carrier)), None)
        self._faulty: set[int] = set()

    def tell(self, event: Event) -> None:
        """Tell everybody."""
        for listener in self.listeners:
            try:
                listener.hear(event)
            except _OF_THE_PROCESS:
                raise
            except BaseException as error:  # noqa: BLE001 - whatever it is, the run goes on
                self._report(listener, event.called, error)

    # --- traces -------------------------------------------------------------------------------------------------------

    def starting(self, name: str, kind: str) -> Sending:
        """What is to be told how a start went."""
        return _Guarded(self.ask, self.ask(lambda carrier: carrier.starting(name, kind)))

    def sending(self, run_id: str, channel: str) -> Sending:
        """What is to be told how a signal went."""
        return _Guarded(self.ask, self.ask(lambda carrier: carrier.sending(run_id, channel)))

    def carried(self, run_id: str) -> Trace:
        """What goes with children and signals of this run: empty, where nothing does."""
        return self.ask(lambda carrier: _storable(carrier.carried(run_id))) or {}

    def took(self, run_id: str, traces: Sequence[Trace]) -> None:
        """The turn that is told of next has taken signals with these."""
        self.ask(lambda carrier: carrier.took(run_id, traces))

    def came_with(self, run_id: str, root_id: str, started: Trace | None, begun: Trace | None) -> None:
        """The run that is told as claimed next came with these."""
        self.ask(lambda carrier: carrier.came_with(run_id, root_id, started, begun))

    def ask(self, question: Callable[[Carrier], T]) -> T | None:
        """What the carrier answers; None where there is none, and where that fails."""
        carrier = self._carrier
        if carrier is None:
            return None
        try:
            return question(carrier)
        except _OF_THE_PROCESS:
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            self._report(carrier, "traces", error)
            return None

    def _report(self, listener: object, what: str, error: BaseException) -> None:
        if id(listener) not in self._faulty:
            self._faulty.add(id(listener))
            log.error("listener %r failed on %s; further faults of it are not logged: %r", listener, what, error,
                      exc_info=error)  # fmt: skip


class _Guarded:
    """A start or a signal of a carrier that may fail; nothing, where there is none."""

    def __init__(self, ask: Callable[[Callable[[Carrier], Any]], Any], sending: Sending | None) -> None:
        self._ask = ask
        self._sending = sending
        self.trace: Trace = {}
        if sending is not None:
            self.trace = ask(lambda _: _storable(sending.trace)) or {}

    def sent(self, run_ids: tuple[str, ...]) -> None:
        sending = self._sending
        if sending is not None:
            self._ask(lambda _: sending.sent(run_ids))

    def failed(self, error: BaseException) -> None:
        sending = self._sending
        if sending is not None:
            self._ask(lambda _: sending.failed(error))


def _storable(given: Trace | None) -> Trace | None:
    """The same, of names and texts that every storage can keep. TypeError or ValueError for what it cannot."""
    if given is None:
        return None
    kept = dict(given)
    for text in (*kept.keys(), *kept.values()):
        if not isinstance(text, str):
            raise TypeError(f"a trace has {text!r}: expected a mapping of str to str")
        if "\0" in text:
            raise ValueError(f"a trace has {text!r}: NUL cannot be stored")
        text.encode()  # a ValueError, of half a letter
    return kept


def telemetry_of(listeners: Iterable[object]) -> Telemetry | None:
    """What tells these listeners; None for none. ConfigurationError for what cannot hear."""
    given = tuple(listeners)
    for each in given:
        if not callable(getattr(each, "hear", None)):
            raise ConfigurationError(
                f"listeners= has {each!r}, which has no hear(event): give a Listener, such as LogListener()"
            )
    return Telemetry(given) if given else None  # type: ignore[arg-type]  # each of them was just looked at
