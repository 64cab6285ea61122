"""What a load of the limits is made of: rules, runs and changes, drawn from a seed, so that it can be had again."""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from runnerq.persistence.records import Priority

QUEUES = ("left", "right")
Kind = Literal["hold", "fail_once", "nap", "family"]
_KINDS: tuple[Kind, ...] = (*("hold",) * 8, "fail_once", "nap", "nap", "family")
_SECONDS = (0.0, 0.0, 0.002, 0.005, 0.01, 0.05)
"""Short, so that the places change hands as often as can be, while both processes claim."""


class Rule(msgspec.Struct, frozen=True):
    """What a scope is limited to; None for each: it has no rule."""

    concurrency: int | None = None
    rate: tuple[int, float] | None = None
    per_key: bool = False

    @property
    def is_one(self) -> bool:
        return self.concurrency is not None or self.rate is not None


class Change(msgspec.Struct, frozen=True):
    """The rule of a scope from so many seconds on."""

    at: float
    scope: str
    rule: Rule


class Planned(msgspec.Struct, frozen=True):
    """Runs that are started with one call, so many seconds after the beginning. ``scope`` "" is no limit at all."""

    at: float
    kind: Kind
    queue: str
    scope: str
    key: str
    priority: Priority
    delay: float
    seconds: tuple[float, ...]


class Plan(msgspec.Struct, frozen=True):
    """All of it. ``slots`` are those of each worker process, ``served`` the queues of each."""

    seed: int
    rules: dict[str, Rule]
    changes: tuple[Change, ...]
    starts: tuple[Planned, ...]
    slots: tuple[int, int]
    served: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def runs(self) -> int:
        return sum(len(start.seconds) for start in self.starts)


def planned(seed: int, runs: int, spread: float) -> Plan:
    """So many runs, or a few more, started within ``spread`` seconds."""
    random = Random(seed)
    rules = {
        "one": Rule(concurrency=1),
        "few": Rule(concurrency=random.randint(2, 4)),
        "crowd": Rule(concurrency=random.randint(5, 12)),
        "keys": Rule(concurrency=random.randint(1, 3), per_key=True),
        "rated": Rule(rate=(random.randint(2, 5), random.choice((0.2, 0.3, 0.5)))),
        "both": Rule(concurrency=random.randint(1, 2), rate=(random.randint(1, 3), 0.3), per_key=True),
        "shut": Rule(concurrency=0),
        "free": Rule(),
    }
    # In each load some meet a rate, and the one place, that they use up.
    starts = [Planned(0.0, "hold", QUEUES[0], scope, "", Priority.HIGH, 0.0, (0.0,) * 20) for scope in ("rated", "one")]
    left = runs
    while left > 0:
        start = _start(random, list(rules), spread)
        starts.append(start)
        left -= len(start.seconds)
    return Plan(
        seed=seed,
        rules=rules,
        changes=tuple(sorted(_changes(random, spread), key=lambda change: change.at)),
        starts=tuple(sorted(starts, key=lambda start: start.at)),
        slots=(random.randint(6, 30), random.randint(6, 30)),
        # Who looks at the same lines as another meets him at the same runs; it is the others who could let in too many.
        served=random.choice(((QUEUES, QUEUES), *((QUEUES, ("right",)),) * 3)),
    )


def _start(random: Random, scopes: list[str], spread: float) -> Planned:
    scope = random.choice((*scopes, "crowd", "few", ""))
    many = random.choice((1, 1, 2, 5, 15, 40) if scope in ("few", "crowd", "free", "") else (1, 1, 1, 2, 4))
    # Some keys have much to do, most have little.
    key = f"k{min(int(random.paretovariate(0.7)), 12)}" if scope and random.random() < 0.9 else ""
    return Planned(
        at=random.uniform(0, spread),
        kind=random.choice(_KINDS),
        queue=random.choice(QUEUES),
        scope=scope,
        key=key,
        priority=random.choice(tuple(Priority)),
        delay=random.choice((0.0, 0.0, 0.0, random.uniform(0.05, 1.0))),
        seconds=tuple(random.choice(_SECONDS) for _ in range(many)),
    )


def _changes(random: Random, spread: float) -> list[Change]:
    """The shut scope is opened; others are made tighter and wider, change what they are, end and come again."""
    times = sorted(random.uniform(0.2, 1.0) * spread for _ in range(5))
    return [
        Change(times[2], "shut", Rule(concurrency=2)),
        Change(times[0], "few", Rule(concurrency=1)),
        Change(times[3], "few", Rule(concurrency=random.randint(2, 5))),
        Change(times[1], "keys", Rule(concurrency=2, per_key=random.random() < 0.5)),
        Change(times[2], "rated", Rule(rate=(random.randint(4, 9), 0.3), concurrency=random.randint(2, 6))),
        Change(times[1], "both", Rule()),
        Change(times[4], "both", Rule(concurrency=2, per_key=True)),
        Change(times[3], "free", Rule(concurrency=3)),
    ]
