"""``runnerq doctor``."""

from __future__ import annotations

import asyncio

import click

from runnerq.cli.doctor.finding import Finding, Report
from runnerq.cli.output import Output, output_option, show_list
from runnerq.cli.shared import Database, duration, takes_database
from runnerq.cli.sheets import Column, Styled, Table, table
from runnerq.cli.telling import say

STYLES = {"ok": "green", "warn": "yellow", "error": "bold red"}


@click.command()
@click.option(
    "--open-for",
    type=duration,
    default="5m",
    show_default=True,
    metavar="DURATION",
    help="Name transactions that have been open for so long.",
)
@output_option
@takes_database
@click.pass_context
def doctor(ctx: click.Context, *, open_for: float, output: Output, database: Database) -> None:
    """Find out what is wrong, and what to do about it.

    It looks at the database and the way to it, the schema and the rights in it, workers, queues and schedules, and
    changes nothing. Exit codes: 0 if nothing is an error, 5 if the schema, its rights or the login are wrong, else 1.
    """
    from runnerq.cli.doctor.examining import examine, exit_code  # noqa: PLC0415 - asyncpg

    report = asyncio.run(examine(database, open_for=open_for))
    show_list(output, report, report.findings, name=lambda each: each.check, table=lambda: _table(report))
    if output == "table" and report.skipped:
        say(f"not looked at, for what is wrong before: {', '.join(report.skipped)}")
    ctx.exit(exit_code(report))


def _table(report: Report) -> Table:
    titles = (Column("", whole=True), Column("check", whole=True), report.place)
    return table(
        titles, [(Styled(each.level, STYLES[each.level]), each.check, _text(each)) for each in report.findings]
    )


def _text(finding: Finding) -> str:
    lines = [finding.found, *(f"- {detail}" for detail in finding.details)]
    if finding.advice is not None:
        lines.append(f"what to do: {finding.advice}")
    return "\n".join(lines)
