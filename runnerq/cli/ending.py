"""How a run ended: its result for a program, or the API's answer, and an exit code."""

from __future__ import annotations

from contextlib import suppress

import click
import msgspec

from runnerq.cli.output import Output, print_json, show_one
from runnerq.cli.shared import Refused, duration
from runnerq.cli.telling import say
from runnerq.console.api.runs import ENDED, get_result
from runnerq.console.api.shapes import Result, WaitQuery
from runnerq.console.models.context import Context
from runnerq.errors import ResultTimeout
from runnerq.persistence.records import Status

FOREVER = "forever"
WAITED_IN_VAIN = 124


class Wait(msgspec.Struct, frozen=True):
    """A wait for a result: so many seconds, or, where None, until it is there."""

    limit: float | None


def _waiting(_: click.Context, __: click.Parameter, text: str | None) -> Wait | None:
    if text is None or text == FOREVER:
        return None if text is None else Wait(None)
    try:
        return Wait(duration(text))
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message}; put --wait last, or write --wait=30s") from error


wait_option = click.option(
    "--wait",
    metavar="[DURATION]",
    is_flag=False,
    flag_value=FOREVER,
    callback=_waiting,
    help="Wait for the result, and print it as JSON; --wait=30s waits so long (exit code 124 after it).",
)


async def ended(here: Context, run_id: str, wait: Wait | None, output: Output) -> int:
    """Wait, print the result, or with ``-o`` the API's answer, and say what the command ends with.

    Raises what ``Handle.result`` raises where the result alone was asked for, and RunNotFound.
    """
    handle = here.client.handle(run_id)
    if output == "table":
        try:
            print_json(await handle.result(0 if wait is None else wait.limit))
        except ResultTimeout as error:
            if wait is None:
                why = f"run {run_id} is {error.status}: add --wait to wait for its result"
                raise Refused(why, WAITED_IN_VAIN) from error
            raise
        return 0
    if wait is not None:
        # The answer says that it goes on, and the exit code too.
        with suppress(ResultTimeout):
            await handle.reached(*ENDED, timeout=wait.limit)
    found: Result = await get_result.do(here, run_id, WaitQuery())
    show_one(output, found, name=run_id, table=lambda: run_id)
    if found.error is not None:
        say(f"run {run_id} ended as {found.status}: {found.error.line}")
    return exit_of(found.status)


def exit_of(status: Status) -> int:
    """What a command ends with that was to see a run's end."""
    if not status.ended:
        return WAITED_IN_VAIN
    return 0 if status is Status.COMPLETED else 1
