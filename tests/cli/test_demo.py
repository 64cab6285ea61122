"""``runnerq demo``, as a person runs it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "runnerq", "demo"]


MARK = "RQ_DEMO_TEST"
PATIENCE = 60.0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Its temporary files where a test can look for what is left; a database that it must not use; and a mark that all
    its processes inherit."""
    (tmp_path / "tmp").mkdir()
    return {
        **os.environ,
        "TMPDIR": str(tmp_path / "tmp"),
        "RUNNERQ_DSN": "postgresql://nobody@127.0.0.1:1/nowhere",
        MARK: uuid.uuid4().hex,
    }


def of_the_demo(environment: dict[str, str]) -> list[str]:
    """The names of the demo's processes that are there now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == environment[MARK]:
                found.append(process.name())
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def nothing_is_left(environment: dict[str, str]) -> bool:
    """The server's keeper goes a moment after the last who used it."""
    until = time.monotonic() + PATIENCE
    while (left := of_the_demo(environment)) and time.monotonic() < until:
        time.sleep(0.05)
    return not left


@pytest.mark.timeout(400)
def test_the_order_survives_and_is_charged_once_with_the_wheel_in_an_empty_environment(
    environment: dict[str, str], installed: Path, tmp_path: Path
) -> None:
    demo = [installed / "bin" / "runnerq", "demo"]
    done = subprocess.run(demo, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("charged 1 time")
    assert "kill -9" in done.stdout
    assert "\x1b[" not in done.stdout
    for row in ("step +reserve", "step +charge", "sleep +", "signal +approval", "child +ship"):
        assert re.search(rf"{row} +answered", done.stdout), done.stdout
    assert len(re.findall(r"worker \d +charge ", done.stdout)) == 1
    assert nothing_is_left(environment)


def test_on_a_terminal_it_speaks_in_colour_and_ctrl_c_leaves_nothing_behind(
    environment: dict[str, str],
) -> None:
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        DEMO, env={**environment, "TERM": "xterm-256color"}, cwd=ROOT, stdout=end, stderr=end, start_new_session=True
    )
    os.close(end)
    heard = b""
    try:
        while b"runnerq worker" not in heard:
            heard += os.read(terminal, 4096)
        assert "postgres" in of_the_demo(environment)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                heard += os.read(terminal, 4096)
            except OSError:  # the terminal's other end is closed: it is over
                break
        assert process.wait(60) == 130
    finally:
        process.kill()
        os.close(terminal)
    assert b"\x1b[" in heard
    assert b"interrupted" in heard
    assert nothing_is_left(environment)
    assert not list((Path(environment["TMPDIR"])).iterdir())
