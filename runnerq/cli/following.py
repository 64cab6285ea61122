"""Whether the open runs of a database would follow this code; nothing is carried out, and nothing changed."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Any

from runnerq.cli.telling import say
from runnerq.client.client import Client
from runnerq.client.readable import check_record, journal_of
from runnerq.console.models.redaction import Spot, mask
from runnerq.errors import PayloadUnreadable
from runnerq.runtime.replaying import ReplayReport, claimed_of, follow_journal, ground_for
from runnerq.workflow.declare import WorkflowDeclaration, declaration_of

PAGE = 100
MOST = 1000
"""Runs that a worker looks at before it serves: a developer waits for it."""
MOST_TOLD = 10


async def follow_open(client: Client, workflows: Sequence[Callable[..., Any]]) -> AsyncGenerator[ReplayReport, None]:
    """A report for each open run of these workflows, oldest first."""
    declared = [declaration_of(fn) for fn in workflows]
    names = sorted({each.name for each in declared if isinstance(each, WorkflowDeclaration)})
    ground = ground_for(workflows)
    after = None
    while records := await client.storage.open_runs(names, PAGE, after):
        after = records[-1].id
        for record in records:
            try:
                journal = await journal_of(client.storage, record.id)
                if journal is not None:
                    yield follow_journal(claimed_of(check_record(record), journal), ground)
            except PayloadUnreadable as error:
                yield ReplayReport(run_id=record.id, workflow=record.name, diverged=True, message=str(error))


async def tell_divergences(client: Client, workflows: Sequence[Callable[..., Any]]) -> None:
    """Say which open runs this code does not follow, where it leaves them, and on which line."""
    looked, diverged = 0, 0
    async with aclosing(follow_open(client, workflows)) as reports:
        async for report in reports:
            looked += 1
            if report.diverged:
                diverged += 1
                if diverged <= MOST_TOLD:
                    say(told(report))
            if looked == MOST:
                say(f"looked at the oldest {MOST:,} open runs alone: `runnerq check` looks at all")
                break
    if diverged > MOST_TOLD:
        say(f"and {diverged - MOST_TOLD} more: `runnerq check` lists them")
    if diverged:
        what = "1 open run does" if diverged == 1 else f"{diverged} open runs do"
        say(f"{what} not follow this code, and will be blocked when it is to go on; changed back, it goes on")


async def tell_codeless(client: Client, names: Collection[str]) -> None:
    """Say which open runs have no code among these names, and no other worker that serves them: whatever they wait for,
    they do not go on. A renamed workflow leaves such runs."""
    storage = client.storage
    served = {name for worker in await storage.workers() if worker.claims for name in worker.served}.union(names)
    # One without a version is an activity's, or takes that of the first worker that registers its name.
    served |= {name.partition("@")[0] for name in served}
    counts = Counter[tuple[str, int]]()
    for depth in (await storage.stats()).depths:
        if (f"{depth.name}@{depth.version}" if depth.version else depth.name) not in served:
            counts[depth.name, depth.version] += depth.count
    for (name, version), count in counts.most_common(MOST_TOLD):
        runs = "1 open run" if count == 1 else f"{count:,} open runs"
        has, which = ("has", "it") if count == 1 else ("have", "them")
        where = shlex.quote(f"workflow={shlex.quote(name)}" + (f" version={version}" if version else ""))
        what = f"{name}@{version}" if version else name
        say(
            f"{runs} of {what} {has} no code here, and no other worker serves {which}: "
            f"put the code back under this name, or end {which} with `runnerq terminate --where {where}`"
        )
    if len(counts) > MOST_TOLD:
        say(f"and runs of {len(counts) - MOST_TOLD} more names: `runnerq doctor` lists those that are ready")


def told(report: ReplayReport) -> str:
    """A divergence for a person, without what is masked: what differs, a line each, and where in the code."""
    message = str(mask(Spot("error", report.run_id, report.workflow), report.message))
    return message if report.line is None or report.line in message else f"{message}\n  at {report.line}"
