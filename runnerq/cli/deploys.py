"""Before a deploy: would open runs follow this code? ``check`` asks a database, ``replay`` exported journals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from runnerq.cli.completing import known_modules
from runnerq.cli.following import follow_open
from runnerq.cli.masking import takes_reveal
from runnerq.cli.modules import find
from runnerq.cli.output import Output, output_option, show_list, show_one
from runnerq.cli.picking import Pick, takes_run
from runnerq.cli.shared import Database, connected, takes_database
from runnerq.cli.tables import divergence_table
from runnerq.cli.telling import say
from runnerq.client.client import Client
from runnerq.console.models.exports import MASKED, redacted
from runnerq.console.models.redaction import Redactor
from runnerq.runtime.replaying import ReplayReport


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs were replayed, and those that would not follow the code."""

    checked: int
    diverged: tuple[ReplayReport, ...]


@click.command()
@takes_run
@takes_reveal
@output_option
@takes_database
def export(*, run: Pick, redact: Redactor, output: Output, database: Database) -> None:
    """Print everything on record of a run as JSON.

    It is for `runnerq replay`, a ticket or a test. What is masked is left out: code that does something else without it
    may not follow such a file.
    """

    async def work(client: Client) -> None:
        run_id = await run.find(client)
        exported = redacted(redact, await client.export(run_id))
        # A file for other programs: there is no other form of it for people.
        show_one("json" if output == "table" else output, exported, name=run_id, table=lambda: run_id)
        masked = exported.get(MASKED, 0)
        if masked:
            what = "1 payload is" if masked == 1 else f"{masked} payloads are"
            say(f"{what} masked, which a replay may stumble over: --reveal exports all as it is")

    connected(database, work)


@click.command()
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...", shell_complete=known_modules)
@output_option
@takes_database
@click.pass_context
def check(ctx: click.Context, modules: Sequence[str], output: Output, database: Database) -> None:
    """List the open runs that would not follow the code of the MODULEs.

    The runs of their workflows are replayed; nothing is carried out and nothing is changed. Exit code 1 if there is
    one. The code is taken for newer than all that ran before: of a rollback behind a ctx.patched that is on record,
    this does not see that it would block.
    """
    workflows = find(modules).workflows

    async def work(client: Client) -> list[ReplayReport]:
        return [report async for report in follow_open(client, workflows)]

    reports = connected(database, work)
    _conclude(ctx, reports, output, "open runs")


@click.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "-m",
    "--module",
    "modules",
    multiple=True,
    required=True,
    envvar="RUNNERQ_REPLAY_MODULE",
    shell_complete=known_modules,
    help="Where the workflows are; may be given repeatedly.",
)
@output_option
@click.pass_context
def replay(ctx: click.Context, files: Sequence[Path], modules: Sequence[str], output: Output) -> None:
    """Replay exported journals with the workflows of a module. Exit code 1 if one is not followed."""
    from runnerq.testing.replays import check_replay  # noqa: PLC0415 - the testing kit, which others need not wait for

    _conclude(ctx, check_replay(files, find(modules).workflows), output, "journals")


def _conclude(ctx: click.Context, reports: Sequence[ReplayReport], output: Output, what: str) -> None:
    diverged = [report for report in reports if report.diverged]
    answer = Checked(checked=len(reports), diverged=tuple(diverged))
    if diverged or output != "table":
        show_list(output, answer, diverged, name=lambda each: each.run_id, table=lambda: divergence_table(diverged))
    checked = what.removesuffix("s") if len(reports) == 1 else what
    say(f"{len(reports)} {checked} checked, {len(diverged)} would not follow this code")
    if diverged:
        ctx.exit(1)
