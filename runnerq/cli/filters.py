"""Which runs a command is about: the options of a RunFilter, and times as people write them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from runnerq.cli.shared import duration
from runnerq.persistence.records import RunFilter, Status

T = TypeVar("T")


def moment(text: str) -> datetime | timedelta:
    """The type of an argument that is a time: a duration from now, or ISO text (UTC unless it says otherwise)."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            return timedelta(seconds=duration(text))
        except (click.BadParameter, OverflowError) as error:
            raise click.BadParameter(f"{text!r} is neither a duration such as 2h nor an ISO time") from error
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _past(_: click.Context, __: click.Parameter, at: datetime | timedelta | None) -> datetime | None:
    return datetime.now(UTC) - at if isinstance(at, timedelta) else at


def _pairs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Mapping[str, str] | None:
    pairs = dict[str, str]()
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        pairs[name] = text
    return pairs or None


def takes_filter(command: Callable[..., T]) -> Callable[..., T]:
    """Add the options of a filter but for the status; the command gets them as ``where``."""

    @click.option("--workflow", help="Name of the workflow or activity.")
    @click.option("--queue")
    @click.option("--key-prefix")
    @click.option("--metadata", multiple=True, metavar="NAME=VALUE", callback=_pairs, help="May be given repeatedly.")
    @click.option("--since", metavar="TIME", type=moment, callback=_past, help="Started since: 2h ago, or an ISO time.")
    @click.option("--until", metavar="TIME", type=moment, callback=_past, help="Started before then.")
    @functools.wraps(command)
    def with_filter(
        *,
        workflow: str | None,
        queue: str | None,
        key_prefix: str | None,
        metadata: Mapping[str, str] | None,
        since: datetime | None,
        until: datetime | None,
        **options: Any,
    ) -> T:
        where = RunFilter(
            workflow=workflow, queue=queue, key_prefix=key_prefix, metadata=metadata, since=since, until=until
        )
        return command(where=where, **options)

    return with_filter


status_option = click.option(
    "--status", multiple=True, type=click.Choice([status.value for status in Status]), help="May be given repeatedly."
)


def statuses(names: tuple[str, ...]) -> tuple[Status, ...] | None:
    """The statuses of ``--status``; None for all."""
    return tuple(map(Status, names)) or None
