"""``runnerq``: the group of all commands."""

from __future__ import annotations

import click

from runnerq.cli.audit import audit
from runnerq.cli.console import console
from runnerq.cli.dead import dead
from runnerq.cli.demo.command import demo
from runnerq.cli.deploys import check, export, replay
from runnerq.cli.fleet import queue, stats, workers
from runnerq.cli.limits import limits
from runnerq.cli.looking import aggregate, count, tail, tree
from runnerq.cli.repair import fork, retry, terminate
from runnerq.cli.runs import cancel, history, listing, result, send, show, start
from runnerq.cli.schedule import schedule
from runnerq.cli.schema import migrate, version
from runnerq.cli.shared import Commands
from runnerq.cli.steer import delete, priority, reschedule, run_now
from runnerq.cli.worker import worker

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Commands, context_settings=SETTINGS)
def main() -> None:
    """Durable workflows on Postgres.

    The database is --dsn, else $RUNNERQ_DSN, else an embedded Postgres in this folder.

    \b
    Exit codes: 0 done, 1 error, or a run that failed or was cancelled, 2 wrong usage, 3 no such run,
    4 conflict or wrong state, 5 the schema does not fit, 124 waited in vain, 130 interrupted.
    """


for command in (
    demo, worker, console, migrate, start, send, show, history, listing, count, aggregate, tree, result, cancel,
    terminate, retry, run_now, reschedule, priority, fork, delete, export, dead, queue, limits, schedule, workers,
    stats, tail, audit, check, replay, version,
):  # fmt: skip
    main.add_command(command)
