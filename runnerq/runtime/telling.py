"""What a worker's log says of failures: each failed attempt, and each run that ends badly, with its stack."""

from __future__ import annotations

from runnerq.persistence.records import Attempt, Claimed, End
from runnerq.runtime.callbacks import log
from runnerq.serialization.failures import read


def tell_attempt(claimed: Claimed, name: str, attempt: Attempt) -> None:
    """A step or activity has failed, and is tried again."""
    failure = read(attempt.error or "{}")
    log.warning(
        "run %s of %s: attempt %d of %r failed, the next is due at %s: %s: %s",
        claimed.id, claimed.name, attempt.number, name, attempt.next_at, failure.type, failure.message,
    )  # fmt: skip


def tell_end(claimed: Claimed, end: End) -> None:
    """A run has ended; one that did not do what it was to do is told with its stack."""
    if end.error is not None:
        failure = read(end.error)
        log.error(
            "run %s of %s ended as %s: %s: %s\n%s",
            claimed.id, claimed.name, end.status, failure.type, failure.message, failure.stack,
        )  # fmt: skip
