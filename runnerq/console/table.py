"""The table of actions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

Target: TypeAlias = Literal["run", "runs", "name", "queue", "schedule", "limit", "worker", "batch"]


class ActionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An action. ``target`` is what it is done to, ``danger`` asks for a confirmation in red. ``asks_reason`` shows a
    field for a reason, ``needs_reason`` does not go without one. ``bulk``: it may be done to many runs at once.
    ``final``: nothing brings back what it ends, and no code of the run has a say."""

    name: str
    permission: str
    label: str
    target: Target
    danger: bool = False
    asks_reason: bool = False
    needs_reason: bool = False
    bulk: bool = False
    final: bool = False


def _of_run(
    name: str, permission: str, label: str, *, danger: bool = False, bulk: bool = False, final: bool = False
) -> ActionSpec:
    return ActionSpec(
        name=name, permission=permission, label=label, target="run", danger=danger, asks_reason=True, bulk=bulk,
        final=final,
    )  # fmt: skip


def _of_fleet(name: str, target: Target, label: str, *, danger: bool = False) -> ActionSpec:
    return ActionSpec(
        name=name, permission=f"{target}.write", label=label, target=target, danger=danger, asks_reason=True
    )


_SPECS = (
    ActionSpec(name="start", permission="start", label="Start", target="name"),
    ActionSpec(name="send", permission="signal", label="Send signal", target="run"),
    _of_run("cancel", "cancel", "Cancel", danger=True, bulk=True),
    _of_run("terminate", "terminate", "Terminate", danger=True, bulk=True, final=True),
    _of_run("retry", "retry", "Retry", bulk=True),
    _of_run("redrive", "redrive", "Redrive", bulk=True),
    _of_run("run-now", "reschedule", "Run now", bulk=True),
    _of_run("reschedule", "reschedule", "Reschedule"),
    _of_run("priority", "reschedule", "Set priority", bulk=True),
    _of_run("fork", "fork", "Fork"),
    _of_run("delete", "delete", "Delete", danger=True, bulk=True, final=True),
    ActionSpec(
        name="reveal", permission="payload.reveal", label="Reveal", target="run", asks_reason=True, needs_reason=True
    ),
    ActionSpec(name="batch", permission="bulk", label="Change many runs", target="runs", danger=True, asks_reason=True),
    ActionSpec(name="batch-stop", permission="bulk", label="Stop", target="batch"),
    _of_fleet("queue-pause", "queue", "Pause"),
    _of_fleet("queue-resume", "queue", "Resume"),
    _of_fleet("schedule-put", "schedule", "Save"),
    _of_fleet("schedule-pause", "schedule", "Pause"),
    _of_fleet("schedule-resume", "schedule", "Resume"),
    _of_fleet("schedule-trigger", "schedule", "Trigger"),
    _of_fleet("schedule-backfill", "schedule", "Backfill"),
    _of_fleet("schedule-delete", "schedule", "Delete", danger=True),
    _of_fleet("limit-set", "limit", "Set"),
    _of_fleet("limit-delete", "limit", "Delete", danger=True),
    _of_fleet("worker-drain", "worker", "Drain", danger=True),
)

ACTIONS: Mapping[str, ActionSpec] = MappingProxyType({spec.name: spec for spec in _SPECS})
"""By name."""
