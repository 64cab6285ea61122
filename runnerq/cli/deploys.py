"""Before a deploy: would open runs follow this code? ``check`` asks a database, ``replay`` exported journals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from runnerq.cli.masking import takes_reveal
from runnerq.cli.shared import Database, connected, output_option, print_json, run_id, say, takes_database
from runnerq.cli.worker import find
from runnerq.client.client import Client
from runnerq.client.readable import check_record, journal_of
from runnerq.console.models.exports import MASKED, redacted
from runnerq.console.models.redaction import Redactor
from runnerq.runtime.replaying import ReplayReport, claimed_of, follow_journal, ground_for
from runnerq.workflow.declare import WorkflowDeclaration, declaration_of

PAGE = 100


@click.command()
@click.argument("run_id", metavar="ID", type=run_id)
@takes_reveal
@takes_database
def export(run_id: str, redact: Redactor, database: Database) -> None:
    """Print everything on record of a run as JSON, for `runnerq replay`, a ticket or a test.

    What is masked is left out: code that does something else without it may not follow such a file.
    """

    async def work(client: Client) -> None:
        exported = redacted(redact, await client.export(run_id))
        print_json(exported)
        masked = exported.get(MASKED, 0)
        if masked:
            what = "1 payload is" if masked == 1 else f"{masked} payloads are"
            say(f"{what} masked, which a replay may stumble over: --reveal exports all as it is")

    connected(database, work)


@click.command()
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...")
@output_option
@takes_database
@click.pass_context
def check(ctx: click.Context, modules: Sequence[str], output: str, database: Database) -> None:
    """Replay the open runs of the workflows in the MODULEs with this code, and list those that it does not follow.

    Nothing is carried out and nothing is changed. Exit code 1 if there is one. The code is taken for newer than all
    that ran before: of a rollback behind a ctx.patched that is on record, this does not see that it would block.
    """
    workflows = find(modules).workflows
    reports = connected(database, lambda client: follow_open(client, workflows))
    _conclude(ctx, reports, output, "open runs")


@click.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "-m", "--module", "modules", multiple=True, required=True, help="Where the workflows are; may be given repeatedly."
)
@output_option
@click.pass_context
def replay(ctx: click.Context, files: Sequence[Path], modules: Sequence[str], output: str) -> None:
    """Replay exported journals with the workflows of a module; exit code 1 if one is not followed."""
    from runnerq.testing.replays import check_replay  # noqa: PLC0415 - the testing kit, which others need not wait for

    _conclude(ctx, check_replay(files, find(modules).workflows), output, "journals")


async def follow_open(client: Client, workflows: Sequence[Callable[..., Any]]) -> list[ReplayReport]:
    """A report for each open run of these workflows, oldest first."""
    declared = [declaration_of(fn) for fn in workflows]
    names = sorted({each.name for each in declared if isinstance(each, WorkflowDeclaration)})
    ground = ground_for(workflows)
    reports: list[ReplayReport] = []
    after = None
    while records := await client.storage.open_runs(names, PAGE, after):
        after = records[-1].id
        for record in records:
            journal = await journal_of(client.storage, record.id)
            if journal is not None:
                reports.append(follow_journal(claimed_of(check_record(record), journal), ground))
    return reports


def _conclude(ctx: click.Context, reports: Sequence[ReplayReport], output: str, what: str) -> None:
    diverged = [report for report in reports if report.diverged]
    if output == "json":
        print_json({"checked": len(reports), "diverged": diverged})
    elif diverged:
        from runnerq.cli.tables import console, divergence_table  # noqa: PLC0415 - rich

        console().print(divergence_table(diverged))
    checked = what.removesuffix("s") if len(reports) == 1 else what
    say(f"{len(reports)} {checked} checked, {len(diverged)} would not follow this code")
    if diverged:
        ctx.exit(1)
