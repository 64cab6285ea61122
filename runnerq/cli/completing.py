"""What a shell is offered for a word that stands in the database, such as ids of runs and names of workflows; and for a
module's name, which stands in the folder.

Rules
- A person waits for it with half a line written: what takes too long, or does not work, offers and says nothing.
- It starts no server and makes no schema.
- What is offered goes into a command line as it is: only plain names do. What stands beside it is one line: shells
  are told a word a line.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
from click.shell_completion import CompletionItem

from runnerq.cli.telling import on_a_line

if TYPE_CHECKING:
    from runnerq.client.client import Client

PATIENCE = 2.0
NEWEST = 200
_PLAIN = re.compile(r"[\w.@:/+-]+", re.ASCII)

Found: TypeAlias = list[tuple[str, str]]
"""Words, and what is said beside each."""
Completes: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completes(look: Callable[[Client, click.Context], Awaitable[Found]]) -> Completes:
    """What is looked up, for ``shell_complete=``; the context has what stands before on the line."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            found = asyncio.run(_looked(ctx, look))
        except Exception:  # noqa: BLE001 - whatever it is, a message would stand in the middle of the person's line
            return []
        return [
            CompletionItem(word, help=on_a_line(beside) or None)
            for word, beside in found
            if word.startswith(incomplete) and _PLAIN.fullmatch(word)
        ]

    return complete


async def _looked(ctx: click.Context, look: Callable[[Client, click.Context], Awaitable[Found]]) -> Found:
    # Not above: a shell that completes a command or an option is not to wait for the client.
    from runnerq.cli.shared import Database, Given  # noqa: PLC0415
    from runnerq.client.connect import DSN_VARIABLE  # noqa: PLC0415 - as above
    from runnerq.persistence.embedded import in_use  # noqa: PLC0415 - as above

    given = ctx.find_object(Given)
    dsn = ctx.params.get("dsn")
    if given is None and dsn is None and not os.environ.get(DSN_VARIABLE) and not in_use():
        return []
    database = Database(dsn, ctx.params.get("schema") or "runnerq", pooled=bool(ctx.params.get("pooled")))
    async with asyncio.timeout(PATIENCE), given.client() if given else database.client(migrate=False) as client:
        return await look(client, ctx)


async def runs(client: Client, _: click.Context) -> Found:
    """The newest of them."""
    page = await client.list(limit=NEWEST)
    return [(run.id, f"{run.workflow} {run.status}") for run in page.items]


async def _workflows(client: Client, _: click.Context) -> Found:
    known = await client.storage.definitions()
    return [(name, "") for name in dict.fromkeys(each.name for each in known)]


async def _queues(client: Client, _: click.Context) -> Found:
    return [(queue.name, f"{queue.ready} ready") for queue in await client.queues.list()]


async def _schedules(client: Client, _: click.Context) -> Found:
    return [(schedule.name, schedule.workflow) for schedule in await client.schedules.list()]


async def _limits(client: Client, _: click.Context) -> Found:
    return [(limit.scope, "") for limit in await client.limits.list()]


# For ``shell_complete=`` of an option or argument.
known_runs = completes(runs)
known_workflows = completes(_workflows)
known_queues = completes(_queues)
known_schedules = completes(_schedules)
known_limits = completes(_limits)


def known_modules(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Modules and packages below the folder one stands in, a part of the name at a time."""
    package, dot, begun = incomplete.rpartition(".")
    folder = Path(*package.split("."))
    names = {file.stem for file in folder.glob("*.py")} | {file.parent.name for file in folder.glob("*/*.py")}
    return [
        CompletionItem(f"{package}{dot}{name}")
        for name in sorted(names)
        if name.startswith(begun) and name.isidentifier() and not name.startswith("__")
    ]
