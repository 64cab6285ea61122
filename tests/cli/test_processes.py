"""The supervisor of worker processes, with small programs in place of workers: when it starts them, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from runnerq.cli.leash import Leash
from runnerq.cli.leashed import DRAINED, environment_of, leash
from runnerq.cli.main import main
from runnerq.cli.modules import find
from runnerq.cli.processes import Supervisor, pause_after
from runnerq.cli.shared import Database, Given
from runnerq.cli.stops import Stops
from runnerq.cli.worker import _run, _when_told
from runnerq.cli.worker_options import WorkerOptions
from runnerq.client.client import Client
from runnerq.errors import ConfigurationError
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Changed
from tests.cli.conftest import ROOT

SOON = 30.0
NEVER = 100_000.0
UNTIL_CLOSED = "import sys; sys.stdin.read()"


def program(code: str) -> list[str]:
    return [sys.executable, "-ISc", code]


async def ends(supervisor: Supervisor, *signals: signal.Signals) -> int:
    """Its exit code, once it has been told so, a signal at a time."""
    running = asyncio.create_task(supervisor.run())
    for number in signals:
        # It has begun when it has processes; a signal is heard at the next turn of the event loop.
        async with asyncio.timeout(SOON):
            while not supervisor._running:
                await asyncio.sleep(0.01)
        os.kill(os.getpid(), number)
        await asyncio.sleep(0)
    return await asyncio.wait_for(running, SOON)


def test_pauses_double_up_to_half_a_minute() -> None:
    assert [pause_after(deaths) for deaths in (1, 2, 3, 4, 5, 6, 7, 5000)] == [1, 2, 4, 8, 16, 30, 30, 30]


class Pauses:
    """None, counted; the process under test is told to stop after the last."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.deaths: list[int] = []

    def __call__(self, deaths: int) -> float:
        self.deaths.append(deaths)
        if len(self.deaths) == self.last:
            os.kill(os.getpid(), signal.SIGTERM)
            return SOON
        return 0


async def test_one_that_ends_is_started_again_and_counts_its_deaths_in_a_row() -> None:
    pauses = Pauses(4)
    assert await ends(Supervisor([program("raise SystemExit(1)")], pause=pauses)) == 0
    assert pauses.deaths == [1, 2, 3, 4]


async def test_one_that_was_up_for_long_counts_as_the_first_that_ended() -> None:
    pauses = Pauses(3)
    assert await ends(Supervisor([program("raise SystemExit(0)")], pause=pauses, steady=0)) == 0
    assert pauses.deaths == [1, 1, 1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_stops_all_in_order(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    supervisor = Supervisor([program(f"{UNTIL_CLOSED}; print('in order')")] * 3)
    assert await ends(supervisor, number) == 0
    assert (capfd.readouterr().out, supervisor.stops.second) == ("in order\n" * 3, None)


async def test_a_terminal_that_is_closed_asks_once_more_and_kills_nobody() -> None:
    killed: list[str] = []
    stops = Stops(lambda: None, lambda: killed.append("all"))
    stops.signalled(signal.SIGTERM)
    stops.ask()
    assert (stops.second, killed) == (None, [])


async def test_where_a_closed_terminal_is_ignored_it_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        Stops(lambda: None, lambda: None).listen()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_a_worker_stops_in_order_when_its_terminal_is_closed() -> None:
    stopped = _when_told(None)
    os.kill(os.getpid(), signal.SIGHUP)
    async with asyncio.timeout(SOON):
        await stopped
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL


async def test_each_is_in_a_group_of_its_own_that_the_terminal_does_not_signal() -> None:
    supervisor = Supervisor([program(f"import os; {UNTIL_CLOSED}; raise SystemExit(os.getpgrp() != os.getpid())")])
    assert await ends(supervisor, signal.SIGINT) == 0


async def test_a_signal_after_stdin_has_closed_is_the_first_and_not_the_second() -> None:
    """Whoever signals a group signals the supervisor and its workers, in any order."""
    read, write = os.pipe()
    stopped = _when_told(Leash(read, NEVER))
    os.close(write)
    async with asyncio.timeout(SOON):
        await stopped
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(SOON):
        while signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            await asyncio.sleep(0)


def test_where_the_event_loop_has_ended_nobody_is_told_that_stdin_has_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Of a group that is signalled, workers may end before their supervisor."""
    read, write = os.pipe()
    leash, told = Leash(read, NEVER), threading.Event()

    async def ends_first() -> None:
        _when_told(leash)

    asyncio.run(ends_first())
    leash.closed.add_done_callback(lambda _: told.set())
    os.close(write)
    assert told.wait(SOON)
    assert caplog.text == ""


STDIN = """
import os, subprocess, sys
from runnerq.cli.leash import taken_from_stdin
pipe = taken_from_stdin()
assert (sys.stdin.read(), subprocess.run(["cat"], stdout=subprocess.PIPE).stdout) == ("", b"")
assert not os.get_inheritable(pipe)
print(os.read(pipe, 100))
"""


def test_what_reads_stdin_finds_its_end_and_never_the_supervisors_pipe() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STDIN], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        # Written only so that its own reading can be told from that of the others.
        assert process.communicate("theirs", timeout=60) == ("b'theirs'\n", None)
    assert process.returncode == 0


BLOCKED = """
import asyncio, time
from runnerq.cli.leash import Leash, taken_from_stdin
from runnerq.cli.worker import _when_told
async def main():
    _when_told(Leash(taken_from_stdin(), 0.05))
    print("blocked", flush=True)
    time.sleep(600)
asyncio.run(main())
"""


STUCK = """
import os, sys, time
from runnerq.cli.leash import Leash, taken_from_stdin
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b"x" * 65536)
except BlockingIOError:
    os.set_blocking(2, True)
print("full", flush=True)
Leash(taken_from_stdin(), 0.05)
time.sleep(600)
"""


def test_one_whose_last_words_nobody_reads_is_ended_all_the_same() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUCK], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"full\n"
        process.stdin.close()
        assert process.wait(60) == 1


def test_one_that_does_not_stop_is_ended_though_its_event_loop_is_blocked() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKED], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "blocked\n"
        _, said = process.communicate(timeout=60)
    assert (process.returncode, "is ended as it is" in said) == (1, True), said


async def test_an_exit_code_of_a_process_that_was_stopped_is_passed_on() -> None:
    assert await ends(Supervisor([program(f"{UNTIL_CLOSED}; raise SystemExit(7)")] * 2), signal.SIGTERM) == 7


async def test_one_that_the_signal_to_all_has_ended_before_it_could_catch_it_has_stopped() -> None:
    """Whoever signals a group signals the workers, too, and one that still imports is ended by that."""
    importing = "import os, signal, sys; sys.stdin.read(); os.kill(os.getpid(), signal.SIGTERM); signal.pause()"
    assert await ends(Supervisor([program(importing)] * 2), signal.SIGTERM) == 0


async def test_one_that_another_signal_has_ended_has_not_stopped_in_order() -> None:
    killed = f"import os, signal; {UNTIL_CLOSED}; os.kill(os.getpid(), signal.SIGKILL)"
    assert await ends(Supervisor([program(killed)] * 2), signal.SIGTERM) == 128 + signal.SIGKILL


async def test_a_second_signal_kills_the_others_though_one_has_just_ended() -> None:
    supervisor = Supervisor([program("")])
    ended, running = [await leash(program(code), None) for code in ("", UNTIL_CLOSED)]
    assert await ended.ended() == 0
    supervisor._running |= dict.fromkeys((ended, running), 0.0)
    supervisor.stops.signalled(signal.SIGTERM)
    supervisor.stops.signalled(signal.SIGTERM)
    assert await running.ended() == -signal.SIGKILL


async def test_a_second_signal_ends_them_at_once_whatever_they_do() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    supervisor = Supervisor([program(deaf)] * 2)
    assert await ends(supervisor, signal.SIGTERM, signal.SIGINT) == 128 + signal.SIGKILL
    assert supervisor.stops.second is signal.SIGINT


async def test_what_another_one_would_say_as_well_is_said_once_and_passed_on(tmp_path: Path) -> None:
    first = f"import os; os.open({str(tmp_path / 'first')!r}, os.O_CREAT | os.O_EXCL)"
    code = f"""
import sys
try:
    {first}
except FileExistsError:
    sys.stdin.read()
else:
    sys.exit(5)
"""
    assert await ends(Supervisor([program(code)] * 3, pause=Pauses(100))) == 5


async def test_none_that_works_stops_since_another_one_cannot_be_used_at_a_later_time() -> None:
    """Such as one that starts while a newer version migrates, or whose port somebody has taken."""
    pauses = Pauses(3)
    assert await ends(Supervisor([program("raise SystemExit(5)")], pause=pauses, steady=0)) == 0
    assert pauses.deaths == [1, 1, 1]


async def test_where_all_were_drained_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    pauses = Pauses(1)
    assert await ends(Supervisor([program(f"raise SystemExit({DRAINED})")] * 2, pause=pauses)) == 0
    assert (pauses.deaths, capsys.readouterr().err.count("was drained: no other is started in its place")) == ([], 2)


async def test_one_that_was_drained_stays_away_and_the_others_are_kept(tmp_path: Path) -> None:
    code = f"""
import os, sys
try:
    os.open({str(tmp_path / "first")!r}, os.O_CREAT | os.O_EXCL)
except FileExistsError:
    sys.exit(9)
else:
    sys.exit({DRAINED})
"""
    pauses = Pauses(3)
    assert await ends(Supervisor([program(code)] * 2, pause=pauses)) == 0
    assert pauses.deaths == [1, 2, 3]


async def works(storage: MemoryStorage, http: tuple[str, int] | None = None) -> bool:
    """Be a worker process that is kept, until it has ended."""
    read, write = os.pipe()
    options = WorkerOptions(modules=("tests.cli.flows",), http=http)
    with click.Context(main, obj=Given(lambda: Client(storage))):
        try:
            return await _run(
                find(options.modules), options, "processes", Database(None, "runnerq"), Leash(read, NEVER)
            )
        finally:
            os.close(write)


async def test_a_worker_that_is_drained_says_so_to_its_keeper() -> None:
    storage = MemoryStorage()
    working = asyncio.create_task(works(storage))
    async with asyncio.timeout(SOON):
        while not (there := await storage.workers()):
            await asyncio.sleep(0)
        assert await storage.drain(there[0].id) is Changed.CHANGED
        assert await working


async def test_one_whose_port_is_taken_does_not_say_that_it_serves(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigurationError, match="cannot listen"):
        await works(MemoryStorage(), taken.getsockname())
    assert capsys.readouterr().err == ""


def test_one_that_hangs_while_it_imports_ends_as_soon_as_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text('print("imports", flush=True)\nimport time\ntime.sleep(600)\n')
    with subprocess.Popen(
        [sys.executable, "-m", "runnerq", "worker", "hanging", "--kept-by", "processes", "--drain-timeout", "0s"],
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"imports\n"
        process.stdin.close()
        # With 1 it had its time to stop in order, which it does not need.
        assert process.wait(120) == 0


def test_one_that_waits_for_its_database_ends_as_soon_as_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import runnerq as rq\n\n@rq.activity\nasync def mail() -> None: ...\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)
        dsn = f"postgresql://shop@127.0.0.1:{silent.getsockname()[1]}/shop"
        with subprocess.Popen(
            [sys.executable, "-m", "runnerq", "worker", "shop", "--kept-by", "processes"],
            cwd=tmp_path, env={**os.environ, "RUNNERQ_DSN": dsn}, stdin=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            asked, _ = silent.accept()
            with asked:
                process.stdin.close()
                # It would be 1 of one whose database has not answered for long.
                assert process.wait(120) == 0


def test_ports_that_there_are_not_are_wrong_usage_before_any_process_starts() -> None:
    done = CliRunner().invoke(main, ["worker", "shop", "--processes", "2", "--http", "65535"])
    assert (done.exit_code, "there are not 2 ports from 65535 on" in done.stderr) == (2, True), done.output


def test_wrong_usage_of_its_workers_is_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runnerq", "worker", "no.such.module", "--processes", "2"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "there is no module 'no.such.module'" in done.stderr) == (2, True), done.stderr


def test_workers_find_in_their_environment_what_was_given_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUNNERQ_DIRECT_DSN", "RUNNERQ_POOLED"):
        monkeypatch.setenv(name, "of another database")
    # A worker that read this would keep workers of its own, without end.
    monkeypatch.setenv("RUNNERQ_WORKER_PROCESSES", "2")
    # A console that read these would show another database, or let everybody in.
    for name in ("DSN", "INSECURE", "OPEN"):
        monkeypatch.setenv(f"RUNNERQ_CONSOLE_{name}", "1")
    kept = [name for name in environment_of(Database(None, "mine")) if name.startswith("RUNNERQ_")]
    assert [name for name in kept if name.split("_")[1] in {"WORKER", "CONSOLE"}] == []
    monkeypatch.setenv("RUNNERQ_DSN", "postgresql://there")
    names = ("RUNNERQ_DSN", "RUNNERQ_DIRECT_DSN", "RUNNERQ_POOLED", "RUNNERQ_SCHEMA")

    def found(*given: object) -> list[str | None]:
        environment = environment_of(Database(*given))  # type: ignore[arg-type] - one of each form
        return [environment.get(name) for name in names]

    assert found(None, "mine") == ["postgresql://there", "of another database", "of another database", "mine"]
    assert found("postgresql://here", "mine") == ["postgresql://here", None, None, "mine"]
    assert found("pooler", "mine", "direct", True) == ["pooler", "direct", "1", "mine"]
