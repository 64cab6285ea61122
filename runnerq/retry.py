"""When a failed attempt is tried again, and after how long.

Rules
- A policy is data: classes become qualified names (``module.Class``) when it is made, and are matched against the names
  along the exception's MRO, so that a stored policy needs no import.
- ``NonRetryableError`` gives up whatever the policy says; ``RetryableError`` does not, until the attempts are used up,
  and its ``after`` is taken as it is. ``give_up_on`` beats ``retry_on``; an empty ``retry_on`` means everything.
- SystemExit, GeneratorExit and StopIteration out of user code give up: they are no failures that time would heal.
- ``decide`` is pure: the caller brings the random number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from runnerq.errors import ConfigurationError, NonRetryableError, RetryableError

_GIVES_UP = (NonRetryableError, SystemExit, GeneratorExit, StopIteration, StopAsyncIteration)


class Retry(msgspec.Struct, frozen=True):
    """Try again, ``after`` so many seconds."""

    after: float


class GiveUp(msgspec.Struct, frozen=True):
    """Do not try again: the exception says so, or the attempts are used up."""

    reason: Literal["not_retryable", "exhausted"]


Decision: TypeAlias = Retry | GiveUp


def seconds(duration: object, what: str) -> float:
    """The duration in seconds. Raises ConfigurationError, naming ``what``, unless it is finite and not negative."""
    if isinstance(duration, timedelta):
        value = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        value = _as_float(duration)
    else:
        raise ConfigurationError(f"{what} is {duration!r}: expected seconds (a number) or a timedelta")
    if not 0 <= value < math.inf:
        raise ConfigurationError(f"{what} is {duration!r}: expected a finite duration that is not negative")
    return value


@dataclass(frozen=True, init=False, slots=True)
class RetryPolicy:
    """How often and how fast a step or activity is tried again.

    The delay after the n-th failure is ``base * factor ** (n - 1)`` seconds, at most ``cap``, give or take the fraction
    ``jitter`` of itself. ``max_attempts=0`` never ends. ``retry_on`` and ``give_up_on`` hold exception classes or their
    qualified names.
    """

    max_attempts: int
    base: float
    factor: float
    cap: float
    jitter: float
    retry_on: tuple[str, ...]
    give_up_on: tuple[str, ...]

    def __init__(
        self,
        max_attempts: int = 3,
        base: float | timedelta = 1.0,
        factor: float = 2.0,
        cap: float | timedelta = 3600.0,
        jitter: float = 0.1,
        retry_on: Iterable[type[BaseException] | str] | type[BaseException] | str = (),
        give_up_on: Iterable[type[BaseException] | str] | type[BaseException] | str = (),
    ) -> None:
        fields: dict[str, Any] = {
            "max_attempts": _attempts(max_attempts),
            "base": seconds(base, "RetryPolicy.base"),
            "factor": _number(factor, "RetryPolicy.factor", least=1.0, most=math.inf),
            "cap": seconds(cap, "RetryPolicy.cap"),
            "jitter": _number(jitter, "RetryPolicy.jitter", least=0.0, most=1.0),
            "retry_on": _names(retry_on, "RetryPolicy.retry_on"),
            "give_up_on": _names(give_up_on, "RetryPolicy.give_up_on"),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, value: RetryPolicy | int | None) -> RetryPolicy:
        """The policy that an option means: a number is that many attempts, None is the default."""
        if value is None:
            return cls()
        if isinstance(value, RetryPolicy):
            return value
        return cls(max_attempts=value)

    def decide(self, exc: BaseException, failures: int, *, jitter: float) -> Decision:
        """What follows the failed attempt number ``failures`` (this one counted). ``jitter`` is in [0, 1)."""
        if isinstance(exc, _GIVES_UP):
            return GiveUp("not_retryable")
        steered = isinstance(exc, RetryableError)
        if not steered and not self._covers(exc):
            return GiveUp("not_retryable")
        if self.max_attempts and failures >= self.max_attempts:
            return GiveUp("exhausted")
        after = _asked_delay(exc) if isinstance(exc, RetryableError) else None
        return Retry(self._delay(failures, jitter) if after is None else after)

    def to_json(self) -> str:
        """The policy as JSON text, for ``from_json``."""
        return msgspec.json.encode({name: getattr(self, name) for name in _FIELDS}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> RetryPolicy:
        """The policy of ``to_json``; fields that are missing are the defaults, unknown ones are left out."""
        stored = msgspec.json.decode(text, type=dict[str, Any])
        return cls(**{name: value for name, value in stored.items() if name in _FIELDS})

    def _covers(self, exc: BaseException) -> bool:
        if not self.retry_on and not self.give_up_on:
            return True
        names = {qualified_name(cls) for cls in type(exc).__mro__}
        if not names.isdisjoint(self.give_up_on):
            return False
        return not self.retry_on or not names.isdisjoint(self.retry_on)

    def _delay(self, failures: int, jitter: float) -> float:
        try:
            delay = min(self.cap, self.base * self.factor ** max(failures - 1, 0))
        except OverflowError:
            delay = self.cap if self.base else 0.0
        return delay * (1 + self.jitter * (2 * jitter - 1))


_FIELDS = ("max_attempts", "base", "factor", "cap", "jitter", "retry_on", "give_up_on")


def qualified_name(cls: type) -> str:
    """What a class is called in a stored policy: ``module.Outer.Inner``."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _asked_delay(exc: RetryableError) -> float | None:
    # Raised in user code, where it is too late to refuse a number: one that makes no sense leaves the policy's delay.
    try:
        return None if exc.after is None else seconds(exc.after, "RetryableError.after")
    except Exception:  # noqa: BLE001 - ``after`` may be a property of a subclass
        return None


def _attempts(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigurationError(
            f"RetryPolicy.max_attempts is {value!r}: expected a whole number, 1 for no retry, 0 for no end"
        )
    return value


def _number(value: object, what: str, *, least: float, most: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ConfigurationError(f"{what} is {value!r}: expected a number")
    number = _as_float(value)
    if not (math.isfinite(number) and least <= number <= most):
        bounds = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise ConfigurationError(f"{what} is {value!r}: expected a finite number {bounds}")
    return number


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _names(classes: Iterable[type[BaseException] | str] | type[BaseException] | str, what: str) -> tuple[str, ...]:
    if isinstance(classes, type | str):
        classes = (classes,)
    if isinstance(classes, Mapping) or not isinstance(classes, Iterable):
        raise ConfigurationError(f"{what} is {classes!r}: expected exception classes or their qualified names")
    return tuple(_name(cls, what) for cls in classes)


def _name(cls: type[BaseException] | str, what: str) -> str:
    if isinstance(cls, str) and cls.strip():
        return cls if "." in cls else f"builtins.{cls}"
    if isinstance(cls, type) and issubclass(cls, BaseException):
        return qualified_name(cls)
    raise ConfigurationError(f"{what} has {cls!r}: expected an exception class or its qualified name")
