"""``runnerq demo``, as a person runs it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "runnerq", "demo"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Its temporary files where a test can look for what is left; a database that it must not use."""
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "RUNNERQ_DSN": "postgresql://nobody@127.0.0.1:1/nowhere"}


def of_the_demo(before: set[int]) -> list[psutil.Process]:
    """Processes that were not there before and look like the demo's: its commands, its server."""
    found = []
    for process in psutil.process_iter(["cmdline", "exe"]):
        line = " ".join(process.info["cmdline"] or [])
        if process.pid not in before and ("runnerq" in line or "runnerq-demo" in (process.info["exe"] or "")):
            found.append(process)
    return found


@pytest.fixture
def before() -> set[int]:
    return set(psutil.pids())


def test_the_order_survives_and_is_charged_once(environment: dict[str, str], before: set[int]) -> None:
    done = subprocess.run(DEMO, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("charged 1 time")
    assert "kill -9" in done.stdout
    assert "\x1b[" not in done.stdout
    for row in ("step +reserve", "step +charge", "sleep +", "signal +approval", "child +ship"):
        assert re.search(rf"{row} +answered", done.stdout), done.stdout
    assert len(re.findall(r"worker \d +charge ", done.stdout)) == 1
    assert of_the_demo(before) == []


def test_on_a_terminal_it_speaks_in_colour_and_ctrl_c_leaves_nothing_behind(
    environment: dict[str, str], before: set[int]
) -> None:
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        DEMO, env={**environment, "TERM": "xterm-256color"}, cwd=ROOT, stdout=end, stderr=end, start_new_session=True
    )
    os.close(end)
    heard = b""
    try:
        while b"started as process" not in heard:
            heard += os.read(terminal, 4096)
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
    assert of_the_demo(before) == []
    assert not list((Path(environment["TMPDIR"])).iterdir())
