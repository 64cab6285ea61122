"""Which run a command is about: its id, the beginning of its id, or the key that it holds.

A beginning of eight hexadecimal digits or more will do if no other run's id begins so. An id begins with its time:
eight digits are a minute, twelve a millisecond.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
import msgspec

from runnerq.cli.completing import known_runs, known_workflows
from runnerq.cli.shared import Refused
from runnerq.client.client import Client
from runnerq.client.filters import checked_filter
from runnerq.errors import RunNotFound
from runnerq.ids import check_run_id
from runnerq.persistence.records import RunFilter

T = TypeVar("T")

MOST_NAMED = 5
_WHOLE = 32
_PREFIX = re.compile(r"[0-9a-f]{8}-?[0-9a-f-]{0,27}", re.IGNORECASE)


class Pick(msgspec.Struct, frozen=True):
    """A run by its id, the beginning of that, or the key of a workflow's run."""

    id: str = ""
    key: str | None = None
    workflow: str = ""

    async def find(self, client: Client) -> str:
        """The run's id. RunNotFound; Refused where several runs have an id that begins so."""
        if self.key is not None:
            holder = await client.storage.by_key(self.workflow, self.key)
            if holder is None:
                raise RunNotFound(None, key=self.key, workflow=self.workflow)
            return holder
        if _is_whole(self.id):
            return self.id
        found = await client.storage.list_runs(checked_filter(RunFilter(id_prefix=self.id)), MOST_NAMED + 1)
        ids = [each.id for each in found.runs]
        if not ids:
            raise RunNotFound(self.id)
        if len(ids) > 1:
            named = ", ".join(ids[:MOST_NAMED]) + (", …" if len(ids) > MOST_NAMED else "")
            raise Refused(f"{self.id!r} is the beginning of several ids, give more of it: {named}", 2)
        return ids[0]


def pick(text: str) -> Pick:
    """The type of an argument that is a run's id, or its beginning: checked for its form."""
    if not _PREFIX.fullmatch(text) or len(text.replace("-", "")) > _WHOLE:
        raise click.BadParameter(
            f"{text!r} is not a run id: expected UUID text such as '018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f', or its "
            "first 8 digits or more; where it has a key, --key and --workflow name it as well"
        )
    return Pick(text.lower())


def _is_whole(text: str) -> bool:
    try:
        check_run_id(text)
    except ValueError:
        return False
    return True


def takes_run(command: Callable[..., T]) -> Callable[..., T]:
    """Add the argument ID, or in its place ``--key`` with ``--workflow``; the command gets ``run: Pick``."""

    @click.argument("run", metavar="[ID]", type=pick, required=False, shell_complete=known_runs)
    @takes_key
    @functools.wraps(command)
    def with_run(*, run: Pick | None, by_key: Pick | None, **options: Any) -> T:
        return command(run=_one(filter(None, (run, by_key))), **options)

    return with_run


def takes_run_and_more(command: Callable[..., T]) -> Callable[..., T]:
    """The same for a command that has arguments behind the ID: they get theirs where a key stands in its place."""

    @click.argument("runs", metavar="[ID]", type=pick, nargs=-1, shell_complete=known_runs)
    @takes_key
    @functools.wraps(command)
    def with_run(*, runs: tuple[Pick, ...], by_key: Pick | None, **options: Any) -> T:
        return command(run=_one(filter(None, (*runs, by_key))), **options)

    return with_run


def _one(given: Iterable[Pick]) -> Pick:
    match list(given):
        case [run]:
            return run
        case _:
            raise click.UsageError("give the ID of a run, or its --key and its --workflow: one of them")


def takes_key(command: Callable[..., T]) -> Callable[..., T]:
    """Add ``--key`` and ``--workflow``; the command gets ``by_key: Pick | None``."""

    @click.option("--key", help="In place of the ID: the run that holds this key, with --workflow.")
    @click.option("--workflow", help="The workflow or activity of --key.", shell_complete=known_workflows)
    @functools.wraps(command)
    def with_key(*, key: str | None, workflow: str | None, **options: Any) -> T:
        if bool(key) != bool(workflow):
            raise click.UsageError("--key and --workflow go together: a key is one run's of a workflow")
        return command(by_key=Pick(key=key, workflow=workflow) if key and workflow else None, **options)

    return with_key
