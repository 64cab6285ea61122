"""The demo's story: an order is charged, its worker is killed, another one finishes it without a second charge.

Rules
- Nothing is waited for by the clock: the story goes on when the run's journal, its state or a process says so.
- Each wait has a limit, and a worker that ends too early ends the story; its last words are in the error.
- Whatever happens, no process is left behind.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from runnerq.cli.acting import context
from runnerq.cli.demo.narration import Narrator
from runnerq.cli.demo.order import APPROVAL, LOG_VARIABLE, PAUSE, Delivery, Order, order_workflow
from runnerq.cli.demo.processes import DemoFailed, Program
from runnerq.cli.rendering import print_sheet
from runnerq.cli.tables import history_table
from runnerq.client.client import Client
from runnerq.client.connect import DSN_VARIABLE, connect
from runnerq.client.handle import Handle
from runnerq.console.models.history import history
from runnerq.persistence.embedded.embedded import ROOT_FOLDER, EmbeddedPostgres

T = TypeVar("T")

MODULE = "runnerq.cli.demo.order"
ORDER = Order("A-1001", "espresso machine", 24900)
LIMIT = 60.0
"""Seconds that one scene may take."""


async def tell(folder: Path) -> bool:
    """Play the story with all its files in ``folder``; whether the card was charged exactly once."""
    narrator = Narrator()
    narrator.title("An order that survives kill -9")
    postgres = EmbeddedPostgres(folder / "postgres")
    try:
        dsn = await postgres.open()
        narrator.say("postgres", "an embedded PostgreSQL, with a data folder of its own")
        async with connect(dsn) as client:
            story = Story(narrator, client, dsn, folder)
            try:
                return await story.play()
            finally:
                await story.leave_nothing()
    finally:
        await postgres.close()


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder for all files of one demo, gone at the end; for root one that the server's own account can reach."""
    as_root = os.geteuid() == 0
    if as_root:
        ROOT_FOLDER.mkdir(mode=0o755, exist_ok=True, parents=True)
    parent = ROOT_FOLDER if as_root else None
    with tempfile.TemporaryDirectory(prefix="runnerq-demo-", dir=parent, ignore_cleanup_errors=True) as folder:
        if as_root:
            Path(folder).chmod(0o755)
        yield Path(folder)


class Story:
    """One order, from its start to its end."""

    def __init__(self, narrator: Narrator, client: Client, dsn: str, folder: Path) -> None:
        self._narrator = narrator
        self._client = client
        self._folder = folder
        self._log = folder / "side-effects.log"
        # The demo's own database, whatever the environment says.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RUNNERQ_")}
        self._environment = {**kept, DSN_VARIABLE: dsn, LOG_VARIABLE: str(self._log), "PYTHONUNBUFFERED": "1"}
        self._programs: list[Program] = []

    async def play(self) -> bool:
        say = self._narrator.say
        first = await self._worker("worker 1")
        run = await self._client.options(key=ORDER.number).start(order_workflow, ORDER)
        say("run", f"order {ORDER.number} is run {run.id}")

        await self._beside(first, run.wait(lambda state: "receipt" in state))
        await self._check_charge_is_recorded(run)
        say("run", "the charge is in the journal")
        say("kill -9", f"worker 1, process {first.pid}, in the middle of packing")
        await first.kill()

        second = await self._worker("worker 2")
        say("run", "it is worker 1's until Postgres sees that worker 1 is gone")
        await self._beside(second, run.wait(lambda state: state["stage"] != "charged"))
        say("run", f"packed; sleeps {PAUSE:g} s, parked: rows in Postgres, nothing else")
        await self._beside(second, run.wait(lambda state: state["stage"] == "waiting for approval"))
        say("run", "awake, and parked again: it waits for an approval")
        await self._approve(run.id)
        delivery = await self._beside(second, run.result())
        say("run", f"completed: {delivery.tracking}, approved by {delivery.approved_by}")
        await second.stop()
        return await self._sum_up(run)

    async def leave_nothing(self) -> None:
        for program in self._programs:
            await program.leave_nothing()

    async def _worker(self, name: str) -> Program:
        worker = self._program(name, ["worker", MODULE, "--concurrency", "4"])
        await worker.start(lambda line: self._narrator.say(name, line))
        self._narrator.say(name, f"process {worker.pid} runs `runnerq worker {MODULE}`")
        return worker

    async def _approve(self, run_id: str) -> None:
        approval = '{"by": "Ada"}'
        person = self._program("process 3", ["send", run_id, APPROVAL.name, approval])
        self._narrator.say("process 3", f"runs `runnerq send {run_id[:8]}… {APPROVAL.name} '{approval}'`")
        await person.start(lambda line: self._narrator.say("process 3", line))
        if await _limited(person.ended(), "the approval to be sent"):
            raise DemoFailed(f"the approval could not be sent: {person.last_words()}")

    def _program(self, name: str, arguments: list[str]) -> Program:
        program = Program(name, arguments, self._environment, self._folder)
        self._programs.append(program)
        return program

    async def _check_charge_is_recorded(self, run: Handle[Delivery]) -> None:
        charges = [entry.state for entry in await run.history() if entry.name == "charge"]
        if charges != ["answered"]:
            raise DemoFailed(f"the run says that it is charged, and its journal says {charges!r}")

    async def _beside(self, worker: Program, scene: Coroutine[Any, Any, T]) -> T:
        """The scene's answer; DemoFailed if the worker ends before it, or it takes too long."""
        playing = asyncio.ensure_future(_limited(scene, "the next thing to happen"))
        ending = asyncio.ensure_future(worker.ended())
        try:
            await asyncio.wait({playing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():
                raise DemoFailed(f"{worker.name} ended with code {ending.result()}: {worker.last_words()}")
            return playing.result()
        finally:
            for each in (playing, ending):
                each.cancel()
            await asyncio.gather(playing, ending, return_exceptions=True)

    async def _sum_up(self, run: Handle[Delivery]) -> bool:
        console = self._narrator.console
        console.print()
        console.print("The journal of the run, as it is in Postgres:")
        console.print()
        print_sheet(history_table((await history(context(self._client), run.id)).entries))
        lines = self._log.read_text().splitlines()
        charged = sum(line.startswith("charge ") for line in lines)
        packed = sum(line.startswith("pack ") for line in lines)
        console.print()
        console.print(f"The world's own record, outside the database, has {len(lines)} lines.")
        console.print(f"Packing was begun {_times(packed)}: it was not recorded yet when its worker died.")
        console.print("The charge was recorded, so no later worker ran it again:")
        self._narrator.verdict(f"charged {_times(charged)}", charged == 1)
        return charged == 1


async def _limited(scene: Coroutine[Any, Any, T], what: str) -> T:
    try:
        async with asyncio.timeout(LIMIT):
            return await scene
    except TimeoutError as error:
        raise DemoFailed(f"{LIMIT:g} s of waiting for {what} were not enough") from error


def _times(number: int) -> str:
    return "1 time" if number == 1 else f"{number} times"
