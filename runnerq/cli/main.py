"""``runnerq``: the group of all commands, and the table of where they are."""

from __future__ import annotations

import click

from runnerq.cli.commands import Commands, Place

FIRST, CODE, RUNS, AROUND = "First steps", "Code", "Runs", "What is around them"

COMMANDS: dict[str, Place] = {
    "demo": Place(FIRST, "demo.command:demo", "An order that survives kill -9, in half a minute."),
    "dev": Place(FIRST, "dev.command:dev", "Develop in one terminal: Postgres, worker, console, and a log."),
    "doctor": Place(FIRST, "doctor.command:doctor", "Find out what is wrong, and what to do about it."),
    "migrate": Place(FIRST, "schema:migrate", "Create the schema, or bring it up to this version."),
    "version": Place(FIRST, "schema:version", "Print the versions of runnerq, its schema and Python."),
    "completion": Place(FIRST, "completion:completion", "Print what makes a shell complete this command."),
    "worker": Place(CODE, "worker:worker", "Run the workflows and activities of the MODULEs, such as shop.workflows."),
    "console": Place(CODE, "console:console", "Serve the web console."),
    "check": Place(CODE, "deploys:check", "List the open runs that would not follow the code of the MODULEs."),
    "replay": Place(CODE, "deploys:replay", "Replay exported journals with the workflows of a module."),
    "start": Place(RUNS, "start:start", "Start the workflow or activity NAME, and print its id."),
    "list": Place(RUNS, "runs:listing", "List runs, newest first."),
    "count": Place(RUNS, "looking:count", "Count runs."),
    "aggregate": Place(RUNS, "looking:aggregate", "Count runs by what they have in common, the newest of them."),
    "show": Place(RUNS, "runs:show", "Show a run: what it is, what it does, what it waits for, how it ended."),
    "history": Place(RUNS, "runs:history", "Print a run's journal: what it asked for, and what came of it."),
    "tree": Place(RUNS, "looking:tree", "Show the tree that a run lies in: the runs that started each other."),
    "why": Place(RUNS, "why:why", "Say what a run waits for, and what to do about it."),
    "watch": Place(RUNS, "watching:watch", "Follow a run until it ends: its status and its entries, as they come."),
    "result": Place(RUNS, "runs:result", "Print a run's result as JSON."),
    "send": Place(RUNS, "steer:send", "Send a signal with a JSON value (null without one) to a run."),
    "signal": Place(RUNS, "steer:signal", "The same as `send`."),
    "cancel": Place(RUNS, "steer:cancel", "Ask a run to cancel; it may clean up first."),
    "terminate": Place(RUNS, "repair:terminate", "End a run at once as cancelled, without running any of its code."),
    "retry": Place(
        RUNS, "repair:retry", "Let a failed, dead-lettered or blocked run go on, from the entry that failed."
    ),
    "run-now": Place(RUNS, "steer:run_now", "Have a delayed run, or the next attempt of one that failed, begin now."),
    "reschedule": Place(RUNS, "steer:reschedule", "Have a pending run become due at another TIME."),
    "priority": Place(RUNS, "steer:priority", "Change the priority of a run that has not ended."),
    "fork": Place(
        RUNS, "repair:fork", "Start a new run with a copy of this one's journal up to an entry, and print its id."
    ),
    "delete": Place(RUNS, "steer:delete", "Delete a run that has ended, with all below it, for good."),
    "prune": Place(RUNS, "steer:prune", "Delete the runs that ended long ago, with all below them, for good."),
    "export": Place(RUNS, "deploys:export", "Print everything on record of a run as JSON."),
    "dead": Place(AROUND, "dead:dead", "Runs that used up their attempts."),
    "queue": Place(AROUND, "fleet:queue", "Queues: what is in them, and whether it is taken up."),
    "limits": Place(
        AROUND, "limits:limits", "How many runs of a scope are held at once, and admitted in a span of time."
    ),
    "schedule": Place(
        AROUND, "schedule:schedule", "Schedules: rules that start runs, by cron expressions or at intervals."
    ),
    "workers": Place(AROUND, "fleet:workers", "The processes that do the work."),
    "stats": Place(AROUND, "fleet:stats", "Show how much is open, who works on it, and what needs somebody."),
    "tail": Place(AROUND, "looking:tail", "Print what happens, as it happens."),
    "audit": Place(
        AROUND, "audit:audit", "List what people did, newest first: through the console, its API or this command line."
    ),
}
"""In the order of the help. What it says of each is what the command's own help begins with: a test compares them."""


@click.group(
    cls=Commands,
    places=COMMANDS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        # Every option has a twin in the environment: $RUNNERQ_START_KEY is `start --key`.
        "auto_envvar_prefix": "RUNNERQ",
    },
)
def main() -> None:
    """Durable workflows on Postgres.

    The database is --dsn, else $RUNNERQ_DSN, else an embedded Postgres in this folder.

    \b
    Exit codes: 0 done, 1 error, or a run that failed or was cancelled, 2 wrong usage, 3 no such run,
    4 conflict or wrong state, 5 no right or no fitting schema, 124 waited in vain, 130 interrupted.
    """


for_litestar = main.apart()
"""The same, for ``litestar runnerq ...``."""
