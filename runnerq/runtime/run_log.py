"""What a worker's log says of runs: failed attempts, bad ends with their stack, journals grown long.

Each record is marked with its run, as ``runnerq.telemetry.RunFields`` marks others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runnerq.persistence.records import Attempt, Claimed, End
from runnerq.runtime.callbacks import log, of_run
from runnerq.serialization.failures import read
from runnerq.workflow.commands import Command
from runnerq.workflow.ending import Blocked
from runnerq.workflow.interpreter import LONG


def about(claimed: Claimed) -> dict[str, Any]:
    """What marks a record as of this run, and of which attempt: an activity's, or of the workers that have had it."""
    failed = claimed.attempts[0].number if claimed.kind == "activity" and claimed.attempts else 0
    crashed = claimed.crashes if claimed.kind == "workflow" else 0
    return {**of_run(claimed.id, claimed.name), "attempt": 1 + failed + crashed}


def log_attempt(claimed: Claimed, name: str, attempt: Attempt) -> None:
    """A step or activity has failed, and is tried again."""
    failure = read(attempt.error or "{}")
    log.warning(
        "run %s of %s: attempt %d of %r failed, the next is due at %s: %s: %s",
        claimed.id, claimed.name, attempt.number, name, attempt.next_at, failure.type, failure.message,
        extra={**about(claimed), "step": name, "attempt": attempt.number},
    )  # fmt: skip


def log_cut(claimed: Claimed, name: str, error: str) -> None:
    """A step or activity that was cancelled has ended with this."""
    failure = read(error)
    log.warning(
        "run %s of %s: %r was cancelled, and ended with %s: %s",
        claimed.id, claimed.name, name, failure.type, failure.message,
        extra={**about(claimed), "step": name},
    )  # fmt: skip


def log_end(claimed: Claimed, end: End) -> None:
    """A run has ended; one that did not do what it was to do is told with its stack."""
    if end.error is not None:
        failure = read(end.error)
        message = "; ".join([failure.message, *failure.notes])
        log.error(
            "run %s of %s ended as %s: %s: %s\n%s",
            claimed.id, claimed.name, end.status, failure.type, message, failure.stack,
            extra=about(claimed),
        )  # fmt: skip


def log_long(claimed: Claimed) -> None:
    """A journal has become so long that replaying it takes its time."""
    log.warning(
        "run %s of %s has %d rows in its journal, and each resumption replays them all: "
        "let it go on with `return ctx.continue_as_new(...)` now and then",
        claimed.id, claimed.name, LONG,
        extra=about(claimed),
    )  # fmt: skip


def log_never_yielded(claimed: Claimed, commands: Iterable[Command[Any]]) -> None:
    """These were made and not asked for."""
    for command in commands:
        log.warning("run %s: %r was made at %s and never yielded: it did nothing", claimed.id, command, command.line,
                    extra=about(claimed))  # fmt: skip


def log_lost(claimed: Claimed, error: BaseException) -> None:
    """The workflow had continued as new, and then raised this."""
    log.warning(
        "run %s of %s raised this behind ctx.continue_as_new, which is what counts: %r",
        claimed.id, claimed.name, error, exc_info=error,
        extra=about(claimed),
    )  # fmt: skip


def log_blocked(claimed: Claimed, blocked: Blocked) -> None:
    """Its code does not follow its journal, or something that it needs is not here."""
    line = f" ({blocked.line})" if blocked.line else ""
    log.error("run %s of %s is blocked: %s%s", claimed.id, claimed.name, blocked.message, line, extra=about(claimed))
