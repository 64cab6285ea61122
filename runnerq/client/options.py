"""Options of one start, checked where they are given. Call options beat declared ones, those beat the defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, get_args

import msgspec

from runnerq.errors import ConfigurationError
from runnerq.persistence.records import OnDuplicate, Priority
from runnerq.retry import RetryPolicy, seconds
from runnerq.workflow.commands import LONGEST, Signal
from runnerq.workflow.given import (
    check_due,
    check_name,
    checked_key,
    checked_limit,
    checked_metadata,
    checked_priority,
    checked_time,
)
from runnerq.workflow.options import Limit


class StartOptions(msgspec.Struct, frozen=True):
    """None means: as declared. Durations are seconds, times aware UTC."""

    key: str | None = None
    on_duplicate: OnDuplicate | None = None
    priority: int | None = None
    queue: str | None = None
    delay: float | None = None
    at: datetime | None = None
    timeout: float | None = None
    retry: RetryPolicy | None = None
    metadata: Mapping[str, str] | None = None
    signals: tuple[tuple[Signal[Any] | str, Any], ...] | None = None
    limit: Limit | None = None

    def over(self, below: StartOptions) -> StartOptions:
        """These, and those of ``below`` where these say nothing."""
        mine = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return _consistent(msgspec.structs.replace(below, **mine))

    def stored(self, **more: Any) -> str | None:
        """What the worker reads of them and of ``more``, JSON text; None if nothing was given."""
        given: dict[str, Any] = more
        if self.timeout is not None:
            given["timeout"] = self.timeout
        if self.retry is not None:
            given["retry"] = msgspec.Raw(self.retry.to_json().encode())
        return msgspec.json.encode(given).decode() if given else None


NO_OPTIONS = StartOptions()


def checked_options(
    *,
    key: str | None,
    on_duplicate: OnDuplicate | None,
    priority: Priority | int | None,
    queue: str | None,
    delay: float | timedelta | None,
    at: datetime | None,
    timeout: float | timedelta | None,
    retry: RetryPolicy | int | None,
    metadata: Mapping[str, str] | None,
    signals: Iterable[tuple[Signal[Any] | str, Any]] | None,
    limit: Limit | tuple[str, str] | str | None,
) -> StartOptions:
    """The options as given by a caller. ValueError or ConfigurationError say which of them cannot be."""
    if key is not None:
        checked_key(key)
    if on_duplicate is not None and on_duplicate not in get_args(OnDuplicate):
        raise ConfigurationError(f"on_duplicate={on_duplicate!r} is not one of {', '.join(get_args(OnDuplicate))}")
    if queue is not None:
        check_name(queue, "queue=")
    return StartOptions(
        key=key,
        on_duplicate=on_duplicate,
        priority=None if priority is None else checked_priority(priority),
        queue=queue,
        delay=None if delay is None else _bounded(seconds(delay, "delay=")),
        at=None if at is None else checked_time(at),
        timeout=None if timeout is None else _some_time(timeout),
        retry=None if retry is None else RetryPolicy.of(retry),
        metadata=None if metadata is None else checked_metadata(metadata),
        signals=None if signals is None else _signals(signals),
        limit=None if limit is None else checked_limit(limit),
    )


def checked_channel(channel: object) -> str:
    """The name of a channel. ValueError for what is none."""
    name = channel.name if isinstance(channel, Signal) else channel
    if not isinstance(name, str) or not name:
        raise ValueError(f"a channel is a Signal or a non-empty str, not {channel!r}")
    return name


def _signals(signals: Iterable[Any]) -> tuple[tuple[Signal[Any] | str, Any], ...]:
    given = tuple(signals)
    for each in given:
        if not isinstance(each, tuple) or len(each) != len(("channel", "value")):
            raise ConfigurationError(f"signals= takes pairs of a channel and a value, not {each!r}")
        checked_channel(each[0])
    return given


def _consistent(options: StartOptions) -> StartOptions:
    check_due(options.at, options.delay)
    return options


def _some_time(timeout: float | timedelta) -> float:
    value = seconds(timeout, "timeout=")
    if not value:
        raise ConfigurationError("timeout=0 leaves no time to run: leave it out, or give more")
    return value


def _bounded(delay: float) -> float:
    if delay > LONGEST:
        raise ConfigurationError(f"delay={delay:g} is over 1,000 years: a delay is in seconds")
    return delay
