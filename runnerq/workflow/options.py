"""Options of one call in a workflow, as ``ctx.options(...)`` takes them. Call options beat decorator options."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

from runnerq.retry import RetryPolicy

ParentClose = Literal["cancel", "abandon"]
OnDuplicate = Literal["return_existing", "no_reuse", "allow_reuse", "allow_reuse_on_failure"]
"""What a taken key means. Here, on the lowest floor that needs it; clients and storages mean the same."""
Arguments = Literal["any"]


class Limit(msgspec.Struct, frozen=True, order=True, gc=False):
    """What a run counts against: a scope, or a key of it. A scope without a rule limits nothing."""

    scope: str
    key: str = ""


class CallOptions(msgspec.Struct, frozen=True):
    """None means: as declared. Durations are seconds.

    ``formerly`` are names under which this may be on record, ``arguments="any"`` says that other arguments may be.
    ``detached`` makes what is spawned a run of its own, and no child.
    """

    name: str | None = None
    key: str | None = None
    retry: RetryPolicy | None = None
    timeout: float | None = None
    queue: str | None = None
    priority: int | None = None
    delay: float | None = None
    at: datetime | None = None
    metadata: Mapping[str, str] | None = None
    on_duplicate: OnDuplicate | None = None
    parent_close: ParentClose | None = None
    detached: bool | None = None
    formerly: tuple[str, ...] | None = None
    arguments: Arguments | None = None
    limit: Limit | None = None

    def under(self, given: CallOptions) -> CallOptions:
        """These options, with those that are given on top."""
        named = {name: value for name in self.__struct_fields__ if (value := getattr(given, name)) is not None}
        return msgspec.structs.replace(self, **named)


DEFAULTS = CallOptions()
