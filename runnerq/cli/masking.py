"""What the command line shows of payloads: without what is masked, unless it is asked to reveal it.

``result``, and ``start --wait``, print what was asked for as it is: a program reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from runnerq.client.history import Entry
from runnerq.client.info import RunInfo
from runnerq.client.schedule import ScheduleInfo
from runnerq.client.values import Event, Node
from runnerq.console.models.redaction import Redactor, Spot, SpotKind, mask, show_all
from runnerq.persistence.records import BlockRecord
from runnerq.serialization.failures import Failure

T = TypeVar("T")


def _redactor(_: click.Context, __: click.Parameter, reveal: bool) -> Redactor:
    return show_all if reveal else mask


def takes_reveal(command: Callable[..., T]) -> Callable[..., T]:
    """Add ``--reveal``; the command gets a Redactor as ``redact``."""
    return click.option(
        "--reveal",
        "redact",
        is_flag=True,
        callback=_redactor,
        help="Show what is masked: values whose names tell of a secret, such as password or token.",
    )(command)


def shown_value(redact: Redactor, kind: SpotKind, run_id: str, workflow: str, value: Any) -> Any:
    """A payload that is decoded."""
    return redact(Spot(kind, run_id, workflow), value)


def shown_info(redact: Redactor, info: RunInfo) -> RunInfo:
    """A run's metadata and error."""
    metadata = redact(Spot("metadata", info.id, info.workflow), info.metadata)
    error = None if info.error is None else shown_failure(redact, Spot("error", info.id, info.workflow), info.error)
    return msgspec.structs.replace(info, metadata=metadata, error=error)


def shown_failure(redact: Redactor, spot: Spot, failure: Failure) -> Failure:
    """An error, with its causes, arguments and stack."""
    told = msgspec.to_builtins(failure)
    shown = redact(spot, told)
    return failure if shown is told else msgspec.convert(shown, Failure)


def shown_entry(redact: Redactor, run_id: str, workflow: str, entry: Entry) -> Entry:
    """An entry of a history."""
    value = redact(Spot("journal", run_id, workflow), entry.value)
    error = None if entry.error is None else shown_failure(redact, Spot("error", run_id, workflow), entry.error)
    return msgspec.structs.replace(entry, value=value, error=error)


def shown_block(redact: Redactor, workflow: str, block: BlockRecord) -> BlockRecord:
    """Why a run is blocked: its texts may quote its values."""
    spot = Spot("error", block.run_id, workflow)
    texts = {name: getattr(block, name) for name in ("message", "recorded", "asked", "traceback")}
    return msgspec.structs.replace(block, **redact(spot, texts))


def shown_tree(redact: Redactor, node: Node) -> Node:
    """A run, and all below it."""
    below = tuple(shown_tree(redact, child) for child in node.children)
    return Node(node.id, shown_info(redact, node.info), below)


def shown_event(event: Event) -> Event:
    """Something that happened. Nobody is to look for secrets in a log: there is no way to see them here."""
    spot = Spot("error", event.run_id or "", event.workflow or "")
    return msgspec.structs.replace(event, data=mask(spot, dict(event.data)))


def shown_schedule(redact: Redactor, info: ScheduleInfo) -> ScheduleInfo:
    """A schedule's arguments and options."""
    spot = Spot("schedule", "", info.workflow)
    return msgspec.structs.replace(info, args=redact(spot, info.args), options=redact(spot, info.options))
