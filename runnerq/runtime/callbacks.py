"""What the parts of a worker share: how a fault in a callback is told, and how long to wait before the next try."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import TypeAlias

log = logging.getLogger("runnerq")

Fail: TypeAlias = Callable[[BaseException], None]
"""Tells the worker of a fault that it cannot go on with; must not raise."""


def of_run(run_id: str, workflow: str | None = None) -> dict[str, str]:
    """What marks a log record as of this run: ``extra=`` of the call."""
    return {"run_id": run_id} if workflow is None else {"run_id": run_id, "workflow": workflow}


def report(error: BaseException, what: str, fail: Fail) -> None:
    """Log a fault at ERROR with its traceback, and tell the worker."""
    log.error("%s: %r", what, error, exc_info=error)
    fail(error)


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What made one of several parts fail: the others have only ended with it."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first


def jittered(seconds: float, by: float = 0.2) -> float:
    """About so many seconds: workers that began together do not stay together."""
    return seconds * random.uniform(1 - by, 1 + by)  # noqa: S311 - spreads load, hides nothing


def away(tries: int) -> float:
    """Seconds to wait before a storage that has not answered so many times in a row is asked again."""
    return doubling(tries, 0.05, 5.0)


def doubling(tries: int, first: float, most: float) -> float:
    """Seconds to wait after so many tries in a row (from 1): ``first``, twice that, and so on to ``most``, jittered."""
    return jittered(min(first * 2.0 ** min(tries - 1, 60), most))
