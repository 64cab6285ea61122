"""What is the same for every call of a function: whether it is async, what it returns, how its attempts are bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from runnerq.runtime.steps import Bounds, bounds_of
from runnerq.serialization.signatures import signature_of, transaction_signature_of
from runnerq.workflow.options import DEFAULTS, CallOptions


class StepFacts(msgspec.Struct, frozen=True):
    """What is the same for every call of a function."""

    is_async: bool
    returns: Any
    bounds: Bounds


class Facts:
    """Facts of functions, looked up once."""

    def __init__(self) -> None:
        self._known: dict[Any, StepFacts] = {}

    def of(self, fn: Callable[..., Any], options: CallOptions) -> StepFacts:
        if options is not DEFAULTS and (options.retry is not None or options.timeout is not None):
            plain = self._look(fn)
            return StepFacts(plain.is_async, plain.returns, bounds_of(fn, options.retry, options.timeout))
        return self._look(fn)

    def of_transaction(self, fn: Callable[..., Any], options: CallOptions) -> StepFacts:
        """The same of a function that is called with a connection first."""
        signature = transaction_signature_of(fn)
        return StepFacts(signature.is_async, signature.returns, bounds_of(fn, options.retry, options.timeout))

    def _look(self, fn: Callable[..., Any]) -> StepFacts:
        try:
            known = self._known.get(fn)
        except TypeError:
            return _facts(fn)
        if known is None:
            known = self._known[fn] = _facts(fn)
        return known


def _facts(fn: Callable[..., Any]) -> StepFacts:
    signature = signature_of(fn)
    return StepFacts(signature.is_async, signature.returns, bounds_of(fn, None, None))
