"""Records of workers: that they live, what they serve, and whom a change concerns."""

from __future__ import annotations

from datetime import datetime

from runnerq.persistence.records.base import Kind, Struct


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A worker as it registers. ``lease`` is seconds."""

    id: int
    lease: float
    host: str
    pid: int
    build: str
    queues: tuple[str, ...]
    served: tuple[str, ...]


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
    """The reply to a beat. ``alive`` is False once the worker was reaped; a beat never revives it."""

    alive: bool
    now: datetime
    arrivals: tuple[Arrival, ...] = ()


class Reaped(Struct, frozen=True, kw_only=True):
    """A run taken from a worker that is gone. ``token`` is set where it has crashed too often: it is still held, by the
    reaper under this token, to be ended."""

    run_id: str
    crashes: int
    token: int | None = None


class Definition(Struct, frozen=True, kw_only=True):
    """A registered workflow or activity, as workers write it at start. ``options`` is JSON text."""

    kind: Kind
    name: str
    version: int
    queue: str
    build: str
    options: str | None = None


class Wake(Struct, frozen=True, kw_only=True):
    """Names only: queues that have ready runs, workers whose held runs have mail, runs that changed (parked, published,
    ended). ``many_runs`` says that more changed than are named: look at whatever you wait for."""

    queues: frozenset[str] = frozenset()
    workers: frozenset[int] = frozenset()
    runs: frozenset[str] = frozenset()
    many_runs: bool = False
