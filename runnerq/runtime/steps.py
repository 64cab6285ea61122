"""What an attempt at a step or activity needs, and what follows from its result. Pure but for the clock's reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from runnerq.errors import DecodingError, EncodingError, StepTimeout
from runnerq.persistence.records import Attempt
from runnerq.retry import GiveUp, RetryPolicy
from runnerq.runtime.reading import later
from runnerq.runtime.results import Interrupted, NotBegun, Raised, Result, Returned, TimedOut
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import record
from runnerq.workflow.declare import ActivityDeclaration, declaration_of

TIMEOUT = 300.0
"""Seconds that an attempt may take, unless it says otherwise."""
DEFAULT_POLICY = RetryPolicy()


class Bounds(msgspec.Struct, frozen=True):
    """How an attempt is bounded and how often it is tried."""

    policy: RetryPolicy
    timeout: float | None


def bounds_of(fn: Callable[..., Any], retry: RetryPolicy | None, timeout: float | None) -> Bounds:
    """Call options beat the declaration's beat the defaults."""
    if retry is None or timeout is None:
        declared = declaration_of(fn)
        if isinstance(declared, ActivityDeclaration):
            retry = retry or declared.retry
            timeout = declared.timeout if timeout is None else timeout
    return Bounds(retry or DEFAULT_POLICY, TIMEOUT if timeout is None else timeout)


def bounds_in(options: Mapping[str, Any], fn: Callable[..., Any]) -> Bounds:
    """The same, of a queued activity, whose call options are in its row."""
    retry = options.get("retry")
    policy = None if retry is None else RetryPolicy.from_json(msgspec.json.encode(retry))
    return bounds_of(fn, policy, options.get("timeout"))


class Answered(msgspec.Struct, frozen=True, gc=False):
    """It has a value: as JSON text, and decoded again from it."""

    text: str
    value: Any


class Failed(msgspec.Struct, frozen=True):
    """Its attempts are over. ``error`` is a failure's JSON text; ``exhausted`` says that they were used up."""

    error: str
    exhausted: bool


class Again(msgspec.Struct, frozen=True):
    """It is tried again, at ``attempt.next_at``."""

    attempt: Attempt


class CutOff(msgspec.Struct, frozen=True):
    """It was cancelled before it had an answer."""


class PutOff(msgspec.Struct, frozen=True):
    """It was not begun: another worker will."""


Followed: TypeAlias = Answered | Failed | Again | CutOff | PutOff


class Asking(msgspec.Struct, frozen=True, gc=False):
    """Which attempt this was: the command's position, its name, the type of its answer, how many failed before.

    ``what`` describes it in error messages, as its ``str``. ``details`` are the last it said, or that were said before.
    """

    position: str
    name: str
    what: object
    type: Any
    failures: int
    bounds: Bounds
    details: str | None = None


def follow(
    result: Result,
    asking: Asking,
    codec: Codec,
    modules: frozenset[str],
    now: Callable[[], datetime],
    chance: Callable[[], float],
) -> Followed:
    """What follows from an attempt's result; ``chance`` spreads the next one. ``now`` is asked only after a failure."""
    match result:
        case Returned(value):
            try:
                text = codec.encode(value, asking.what)
                return Answered(text, codec.decode(text, asking.type, asking.what))
            except EncodingError as error:
                # The next attempt would return something like it: trying again only repeats the side effect.
                return Failed(record(error, modules, retryable=False, attempts=asking.failures + 1), False)
            except DecodingError as error:
                return _after(error, asking, modules, now, chance)
        case Raised(error):
            return _after(error, asking, modules, now, chance)
        case TimedOut():
            return _after(StepTimeout(asking.name, asking.bounds.timeout or 0.0), asking, modules, now, chance)
        case Interrupted():
            return CutOff()
        case NotBegun():
            return PutOff()


def _after(
    error: BaseException,
    asking: Asking,
    modules: frozenset[str],
    now: Callable[[], datetime],
    chance: Callable[[], float],
) -> Failed | Again:
    failures = asking.failures + 1
    decision = asking.bounds.policy.decide(error, failures, jitter=chance())
    if isinstance(decision, GiveUp):
        exhausted = decision.reason == "exhausted"
        return Failed(record(error, modules, retryable=exhausted, attempts=failures), exhausted)
    text = record(error, modules, retryable=True)
    at = now()
    due = later(at, decision.after)
    return Again(
        Attempt(position=asking.position, number=failures, error=text, at=at, next_at=due, details=asking.details)
    )
