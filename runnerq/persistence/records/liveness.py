"""Records of workers: that they live, what they serve, and whom a change concerns."""

from __future__ import annotations

from datetime import datetime

from runnerq.persistence.records.base import Kind, Struct


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A worker as it registers. ``lease`` is seconds, ``library`` the version of runnerq that it runs."""

    id: int
    lease: float
    host: str
    pid: int
    build: str
    queues: tuple[str, ...]
    served: tuple[str, ...]
    slots: int = 0
    library: str | None = None


class Load(Struct, frozen=True, kw_only=True):
    """What a worker has in hand at a beat: held runs, attempts under way, threads and tasks that do not come back
    (``stuck``), and how many came back too late since it registered (``late``)."""

    held: int = 0
    running: int = 0
    stuck: int = 0
    late: int = 0


class Details(Struct, frozen=True, kw_only=True):
    """What an attempt said of itself since the last beat: JSON text, kept with its position until it is answered.
    ``generation`` is the run's present one, ``failures`` how many attempts had failed before this one: what an older
    one said changes nothing, nor what comes after the answer."""

    run_id: str
    token: int
    position: str
    text: str
    generation: int = 1
    failures: int = 0


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """A worker as it stands. ``alive`` says that it was heard of lately: within a sixth of its lease, and within
    VISIBLY_GONE where its connection is gone. ``left_at`` says that it signed off by itself.

    ``library`` is the version of runnerq that it runs (None: one that did not say), ``clock_off`` how many seconds its
    machine's clock was ahead of the database's at its last beat, ``drain_at`` when somebody asked it to stop in order.
    """

    id: int
    host: str
    pid: int
    build: str
    queues: tuple[str, ...]
    served: tuple[str, ...]
    slots: int
    lease: float
    registered_at: datetime
    beat_at: datetime
    alive: bool
    left_at: datetime | None = None
    reaped_at: datetime | None = None
    load: Load = Load()
    library: str | None = None
    clock_off: float | None = None
    drain_at: datetime | None = None

    @property
    def claims(self) -> bool:
        """Whether it takes up runs: it is alive, and nobody has asked it to stop."""
        return self.alive and self.drain_at is None

    def silent_for(self, now: datetime) -> float | None:
        """Seconds since its last beat, where it is not well and was not found gone yet; None elsewhere."""
        if self.alive or self.reaped_at is not None:
            return None
        return max(0.0, (now - self.beat_at).total_seconds())


class Registered(Struct, frozen=True, kw_only=True):
    """The reply to a registration. ``now`` is database time, ``build_seen`` when a worker of this build first came."""

    now: datetime
    build_seen: datetime


class Arrival(Struct, frozen=True, kw_only=True):
    """A held run whose inbox has counted something: ``inbox`` is the count now, ``cancel`` the reason of a cancel."""

    run_id: str
    inbox: int
    cancel: str | None


class Pulse(Struct, frozen=True, kw_only=True):
    """The reply to a beat. ``alive`` is False once the worker was reaped; a beat never revives it. ``held_back`` names
    the runs whose details were left out because somebody held their rows: those are to be sent again. ``drain``:
    somebody asked the worker to stop in order."""

    alive: bool
    now: datetime
    arrivals: tuple[Arrival, ...] = ()
    held_back: tuple[str, ...] = ()
    drain: bool = False


class Reaped(Struct, frozen=True, kw_only=True):
    """A run of ``name`` that was taken from a worker that is gone. ``token`` is set where it has crashed too often: it
    is still held, by the reaper under this token, to be ended."""

    run_id: str
    name: str
    crashes: int
    token: int | None = None


class Retained(Struct, frozen=True, kw_only=True):
    """What a look for trees to be deleted found: how many it marked. ``more`` is False where it came to the end of what
    may be old enough, so that the next look begins anew."""

    trees: int
    more: bool


class Definition(Struct, frozen=True, kw_only=True):
    """A registered workflow or activity, as workers write it at start. ``options`` and ``schema`` (a JSON Schema of its
    input) are JSON text. ``served`` is filled in when it is read: a living worker serves it."""

    kind: Kind
    name: str
    version: int
    queue: str
    build: str
    options: str | None = None
    schema: str | None = None
    served: bool = False


class Wake(Struct, frozen=True, kw_only=True):
    """Names only: queues that have ready runs, workers whose held runs have mail, runs that changed (parked, published,
    ended). ``many_runs`` says that more changed than are named: look at whatever you wait for. ``schedules``: there may
    be one that is due sooner than was known."""

    queues: frozenset[str] = frozenset()
    workers: frozenset[int] = frozenset()
    runs: frozenset[str] = frozenset()
    many_runs: bool = False
    schedules: bool = False
