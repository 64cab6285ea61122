"""What a caller gives with a declaration or a start, checked the same way in decorators, clients and workflows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from runnerq.errors import ConfigurationError, UsageError
from runnerq.workflow.options import Limit

FARTHEST = datetime(9000, 1, 1, tzinfo=UTC)
"""A due time past this would leave no room for ranks and zones before the last year that a datetime holds."""
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""A due time before this is as good as this: what is earlier still may leave no room before the first year."""
MAX_NAME = 200
MOST_KEY = 1_800
"""UTF-8 bytes; with the longest name beside it this is what an index entry of a database holds."""
MOST_LIMIT_KEY = 1_024
"""UTF-8 bytes: a limit's key stands in indexes, beside its scope."""
MOST_METADATA = 16_384
"""Characters; metadata is for labels that runs are found by."""
_PRIORITIES = range(4)


def check_name(name: object, what: str) -> str:
    """The name of a workflow, activity or queue, or ConfigurationError."""
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"{what} is {name!r}: expected a non-empty str")
    # Workers claim workflows by name@version.
    if "@" in name:
        raise ConfigurationError(f"{what} is {name!r}: '@' is kept for versions; give them with version=")
    if len(name) > MAX_NAME:
        raise ConfigurationError(f"{what} has {len(name)} characters: at most {MAX_NAME} are kept")
    if not name.isprintable():
        raise ConfigurationError(f"{what} is {name!r}: it holds characters that cannot be printed")
    return name


def checked_priority(priority: object, what: str = "priority=") -> int:
    """A priority's number. ConfigurationError for what is none."""
    if isinstance(priority, bool) or not isinstance(priority, int) or priority not in _PRIORITIES:
        raise ConfigurationError(f"{what} is {priority!r}: expected a Priority, CRITICAL, HIGH, NORMAL or LOW")
    return int(priority)


def checked_key(key: object) -> str:
    """An idempotency key. ValueError for what can be none."""
    if not isinstance(key, str) or not key:
        raise ValueError(f"an idempotency key is a non-empty str, not {key!r}")
    if not _storable(key):
        raise ValueError(f"an idempotency key is text without NUL and unpaired surrogates, not {key!r}")
    if (size := len(key.encode())) > MOST_KEY:
        raise ValueError(
            f"an idempotency key of {size:,} bytes is over {MOST_KEY:,}: give a hash of what it is made of"
        )
    return key


def checked_names(names: object) -> tuple[str, ...]:
    """One name or several. UsageError for anything else."""
    several: tuple[Any, ...] = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (names,)
    for name in several:
        if not isinstance(name, str) or not name:
            raise UsageError(f"a former name is a non-empty str, not {name!r}")
    return several


def checked_metadata(metadata: object, what: str = "metadata=") -> dict[str, str]:
    """Metadata: text by name. ConfigurationError for anything else, and for too much of it."""
    if not isinstance(metadata, Mapping):
        raise ConfigurationError(f"{what} is {metadata!r}: expected a mapping of str to str")
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigurationError(f"{what} is text by name, and {name!r} has {value!r}: write str(...) around it")
        if not _storable(name) or not _storable(value):
            raise ConfigurationError(f"{what} is text without NUL and unpaired surrogates, not {name!r}: {value!r}")
    size = sum(len(name) + len(value) for name, value in metadata.items())
    if size > MOST_METADATA:
        raise ConfigurationError(
            f"{what} of {size:,} characters is over {MOST_METADATA:,}: it is for labels; give the rest as an argument"
        )
    return dict(metadata)


def together(declared: Mapping[str, str] | None, given: Mapping[str, str] | None) -> dict[str, str]:
    """The metadata of a run: as declared, with what is given at its start on top."""
    return {**(declared or {}), **(given or {})}


def checked_time(at: object, what: str = "at=") -> datetime:
    """A due time, in UTC. ConfigurationError, naming ``what``, for one without a zone or too far off, or for none."""
    if not isinstance(at, datetime):
        raise ConfigurationError(f"{what}{at!r} is no time: give a datetime with a zone, such as datetime.now(UTC)")
    if at.tzinfo is None or at.utcoffset() is None:
        raise ConfigurationError(f"{what}{at!r} has no time zone: add tzinfo, such as datetime.UTC")
    try:
        utc = at.astimezone(UTC)
    except OverflowError:
        utc = None
    if utc is None or utc > FARTHEST:
        raise ConfigurationError(f"{what}{at!r} is too far off: give a time of the years 1 to {FARTHEST.year - 1}")
    return utc


def check_due(at: datetime | None, delay: float | None) -> None:
    """Raise ConfigurationError where both say when a run is due."""
    if at is not None and delay is not None:
        raise ConfigurationError("delay= and at= both say when the run is due: give one of them")


def checked_scope(scope: object) -> str:
    """The name of a scope. ConfigurationError for what is none."""
    return check_name(scope, "the scope of a limit")


def checked_limit(limit: object) -> Limit:
    """A limit as a caller gives it: a scope, a scope and a key, or a Limit. ConfigurationError for the rest."""
    match limit:
        case str(scope):
            return Limit(checked_scope(scope))
        case Limit(scope=scope, key=""):
            return Limit(checked_scope(scope))
        case Limit(scope=scope, key=key) | (scope, key):
            return Limit(checked_scope(scope), _checked_key(key))
        case _:
            raise ConfigurationError(
                f'limit={limit!r}: expected a scope, "stripe", or a scope and a key, ("customer", "7")'
            )


def asked_limit(limit: object) -> Limit:
    """The same where a workflow gives it: what is none is a UsageError, a fault of the code."""
    try:
        return checked_limit(limit)
    except ConfigurationError as error:
        raise UsageError(str(error)) from error


def _checked_key(key: object) -> str:
    if not isinstance(key, str) or not key:
        raise ConfigurationError(f"the key of a limit is a non-empty str, not {key!r}: write str(...) around it")
    if not _storable(key):
        raise ConfigurationError(f"the key of a limit is text without NUL and unpaired surrogates, not {key!r}")
    if (size := len(key.encode())) > MOST_LIMIT_KEY:
        raise ConfigurationError(
            f"a limit's key of {size:,} bytes is over {MOST_LIMIT_KEY:,}: give a hash of what it is made of"
        )
    return key


def _storable(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))
