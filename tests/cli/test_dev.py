"""``runnerq dev``: a process with a worker and a console below it; its parts are tested in this process."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import psutil
import pytest

from runnerq.cli.dev import session
from runnerq.cli.dev.happenings import Happenings
from runnerq.cli.dev.listening import told
from runnerq.cli.dev.narrator import Logged, Narrator
from runnerq.cli.dev.session import Session, Wanted
from runnerq.cli.shared import Database
from runnerq.cli.worker_options import WorkerOptions
from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.persistence.memory import MemoryStorage
from runnerq.runtime.worker import Worker
from runnerq.telemetry.events import RunParked
from tests.cli.flows import GO, failing

PATIENCE = 60.0

FLOWS = """
from __future__ import annotations
import runnerq as rq

@rq.activity
def charge(cents: int) -> int:
    print("charging", cents)
    return cents

@rq.workflow
def order(ctx: rq.Context, cents: int) -> rq.Flow[int]:
    paid = yield from ctx.step(charge, cents)
    yield from ctx.signal(rq.Signal("go", int))
    return paid
"""


class Terminal:
    """What stands on the terminal, and the next of it that is waited for."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said = ""

    async def shows(self, pattern: str, since: int = 0) -> re.Match[str]:
        """Once this stands there."""
        while not (found := re.search(pattern, self.said[since:])):
            line = await self._line()
            assert line, f"it has not said {pattern!r}:\n{self.said}"
            self.said += line
        return found

    async def _line(self) -> str:
        assert self.process.stdout is not None
        with anyio.move_on_after(PATIENCE):
            return (await self.process.stdout.readline()).decode()
        return ""

    async def says(self, pattern: str) -> None:
        """Once a line that is to come has this."""
        await self.shows(pattern, len(self.said))


@asynccontextmanager
async def dev(folder: Path, dsn: str) -> AsyncIterator[Terminal]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "runnerq", "dev", "shop", "--port", "0",
        cwd=folder, stdout=PIPE, stderr=STDOUT, env={**os.environ, "RUNNERQ_DSN": dsn},
    )  # fmt: skip
    try:
        yield Terminal(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_open_runs_go_on_under_saved_code_and_one_that_does_not_follow_it_is_told_with_its_line(
    database: str, tmp_path: Path
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(FLOWS)
    async with dev(tmp_path, database) as terminal, connect(database) as client:
        address = (await terminal.shows(r"console +(http://127.0.0.1:\d+)"))[1]
        await terminal.shows("serves order@1, charge")
        async with httpx.AsyncClient(timeout=PATIENCE) as browser:
            assert (await browser.get(f"{address}/runs")).status_code == 200

        run = await client.start("order", 7)
        await terminal.says("charging 7")
        await terminal.says(f"order {run.id} is parked: it waits for signal 'go'")

        file.write_text(FLOWS.replace("yield from ctx.step(charge, cents)", "yield from ctx.step(charge, cents + 1)"))
        await terminal.says(r"saved shop.py: the worker is replaced")
        await terminal.says(rf"run {run.id} of order@1: position 1: .*shop.py:12 in order")
        await terminal.says("1 open run does not follow this code")

        file.write_text(f"{FLOWS}def broken(:\n")
        await terminal.says(r'shop.py", line 15')
        await terminal.says("SyntaxError")
        await terminal.says("the next save starts another")

        file.write_text(FLOWS)
        await terminal.says("serves order@1, charge")
        await client.send(run.id, GO, 1)
        await terminal.says(f"order {run.id} completed")
        assert await run.result(timeout=PATIENCE) == 7

        below = psutil.Process(terminal.process.pid).children(recursive=True)
        assert len(below) == 2
        terminal.process.send_signal(signal.SIGINT)
        await terminal.says("stopped")
        assert await terminal.process.wait() == 0
        _, alive = psutil.wait_procs(below, PATIENCE)
        assert alive == []


def test_what_this_process_logs_is_said_in_its_voice(capsys: pytest.CaptureFixture[str]) -> None:
    Logged(Narrator()).handle(logging.makeLogRecord({"levelname": "WARNING", "msg": "asking again"}))
    assert capsys.readouterr().out.endswith(" dev       WARNING asking again\n")


def wanting(dsn: str) -> Wanted:
    return Wanted(
        options=WorkerOptions(modules=("shop",)), watch=(), port=None, opens=False, database=Database(dsn, "runnerq")
    )


async def test_it_stops_at_once_while_its_database_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(wanting("postgresql://127.0.0.1:1/nowhere"), Narrator())
    running = asyncio.create_task(session.run())
    await asyncio.sleep(0)
    session.stops.signalled(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE):
        await running
    assert capsys.readouterr().out.endswith("dev       stopped\n")


def test_a_terminal_that_another_program_has_set_not_to_wait_is_set_to(capfd: pytest.CaptureFixture[str]) -> None:
    terminal = sys.stdout.fileno()
    os.set_blocking(terminal, False)
    Narrator().say("dev", "all")
    assert (os.get_blocking(terminal), capfd.readouterr().out.endswith("all\n")) == (True, True)


def test_where_nobody_reads_what_it_says_it_is_told_so_and_goes_on() -> None:
    """As behind `| head`."""
    code = """
from runnerq.cli.dev.narrator import Narrator
import os
read, write = os.pipe()
os.close(read)
os.dup2(write, 1)
narrator = Narrator()
narrator.when_gone(lambda: os.write(2, b"gone "))
narrator.say("dev", "once")
narrator.say("dev", "twice")
os.write(2, b"on")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "gone on")


async def test_without_the_extra_it_says_what_the_console_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    wanted = Wanted(
        options=WorkerOptions(modules=("shop",)), watch=(), port=0, opens=False, database=Database("there", "runnerq")
    )
    await Session(wanted, Narrator())._open_console()
    assert "console   there is none: the console needs litestar" in capsys.readouterr().out


async def test_what_fails_is_told_with_its_error_and_a_link_to_its_page() -> None:
    lines: list[tuple[str, str]] = []
    ended = asyncio.Event()

    def say(what: str, style: str) -> None:
        lines.append((what, style))
        if len(lines) == 2:
            ended.set()

    storage = MemoryStorage()
    async with Client(storage) as client:
        telling = asyncio.create_task(Happenings(client, say, lambda run_id: f"http://here/runs/{run_id}").run())
        await asyncio.sleep(0)
        async with Worker(client, workflows=[failing], build="tests"):
            run = await client.start(failing)
            async with asyncio.timeout(PATIENCE):
                await ended.wait()
        telling.cancel()
    assert lines == [
        (f"failing {run.id} started", ""),
        (f"failing {run.id} dead letter\nValueError: boom\nhttp://here/runs/{run.id}", "bold red"),
    ]


def test_a_park_is_told_with_all_that_it_waits_for() -> None:
    parked = RunParked(run_id="7", name="order", queue="q", channels=("go",), awaited=2, due_in_seconds=90.0)
    assert told(parked) == "order 7 is parked: it waits for signal 'go' or 2 children or 1.5 min to pass"
