"""What the command line shows of payloads: without what is masked, unless it is asked to reveal it.

The reads of the console mask by themselves. ``result``, and ``start --wait``, print what was asked for as it is: a
program reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from runnerq.client.history import Entry
from runnerq.client.values import Event
from runnerq.console.models.records import kind_of_value
from runnerq.console.models.redaction import Redactor, Spot, mask, show_all
from runnerq.serialization.failures import Failure

T = TypeVar("T")


def takes_reveal(command: Callable[..., T]) -> Callable[..., T]:
    """Add ``--reveal``; the command gets a Redactor as ``redact``."""

    @click.option(
        "--reveal",
        is_flag=True,
        help="Show what is masked: values whose names tell of a secret, such as password or token.",
    )
    @functools.wraps(command)
    def with_redactor(*, reveal: bool, **options: Any) -> T:
        return command(redact=show_all if reveal else mask, **options)

    return with_redactor


def shown_entry(redact: Redactor, run_id: str, workflow: str, entry: Entry) -> Entry:
    """An entry of a history."""
    value = redact(Spot(kind_of_value(entry.kind), run_id, workflow, name=entry.name), entry.value)
    spot = Spot("error", run_id, workflow, name=entry.name)
    error = None if entry.error is None else _shown_failure(redact, spot, entry.error)
    return msgspec.structs.replace(entry, value=value, error=error)


def _shown_failure(redact: Redactor, spot: Spot, failure: Failure) -> Failure:
    """An error, with its causes, arguments and stack."""
    told = msgspec.to_builtins(failure)
    shown = redact(spot, told)
    return failure if shown is told else msgspec.convert(shown, Failure)


def shown_event(event: Event) -> Event:
    """Something that happened. Nobody is to look for secrets in a log: there is no way to see them here."""
    spot = Spot("error", event.run_id or "", event.workflow or "")
    return msgspec.structs.replace(event, data=mask(spot, dict(event.data)))
