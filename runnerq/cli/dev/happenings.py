"""What happens to runs, told to a developer as it happens: a line an event, and where one failed or is blocked, why."""

from __future__ import annotations

from collections.abc import Callable

from runnerq.cli.acting import context
from runnerq.cli.masking import shown_event
from runnerq.client.client import Client
from runnerq.client.values import Event
from runnerq.console.models.payloads import ErrorView
from runnerq.console.models.run import BlockView, RunDetail, run_detail
from runnerq.errors import RunNotFound, StorageError

STYLES = {
    "completed": "green",
    "failed": "red",
    "dead_letter": "bold red",
    "blocked": "bold red",
    "crashed": "yellow",
    "cancelled": "yellow",
}
STUCK = frozenset({"failed", "dead_letter", "blocked"})

Say = Callable[[str, str], None]
"""Gets a text, and its style."""


class Happenings:
    """Tells what happens from now on. ``link`` makes the address of a run's page, where there is one."""

    def __init__(self, client: Client, say: Say, link: Callable[[str], str | None]) -> None:
        self._client = client
        self._say = say
        self._link = link

    async def run(self) -> None:
        """Go on until the client is closed, or this is cancelled."""
        async for event in self._client.events():
            self._say(await self._told(event), STYLES.get(event.kind, ""))

    async def _told(self, happened: Event) -> str:
        event = shown_event(happened)
        if event.run_id is None:
            return f"queue {event.queue!r} is {event.kind}"
        lines = [f"{event.workflow or 'run'} {event.run_id} {event.kind.replace('_', ' ')}"]
        if event.kind in STUCK:
            lines += await self._why(event.run_id)
        link = self._link(event.run_id) if len(lines) > 1 else None
        return "\n".join([*lines, *([] if link is None else [link])])

    async def _why(self, run_id: str) -> list[str]:
        try:
            run = await run_detail(context(self._client), run_id)
        except RunNotFound:
            return []  # deleted already
        except StorageError as error:
            return [f"why cannot be read: {error}"]
        match run:
            case RunDetail(block=BlockView() as block):
                return _of_block(block)
            case RunDetail(error=ErrorView() as failed):
                return [f"{failed.type}: {failed.message}"]
            case RunDetail(reason=str(reason)):
                return [reason]
            case _:
                return []  # it goes on already


def _of_block(block: BlockView) -> list[str]:
    if block.recorded is None and block.asked is None:
        lines = [block.message]
    else:
        lines = [f"- {block.recorded or 'nothing'}", f"+ {block.asked or 'nothing'}"]
    if block.line is not None:
        lines.append(f"at {block.line}")
    if block.traceback is not None:
        lines += block.traceback.rstrip().splitlines()
    return lines
