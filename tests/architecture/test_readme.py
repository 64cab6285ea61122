"""What the README shows is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT

README = (ROOT / "README.md").read_text()


def test_the_first_two_commands_are_the_demo_and_the_tests() -> None:
    commands = re.findall(r"^make \w+$", README, re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


def test_the_program_runs_as_it_stands(tmp_path: Path, database: str) -> None:
    [program] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "program.py"
    file.write_text(program)
    run = subprocess.run(
        [sys.executable, file],
        env={**os.environ, "RUNNERQ_DSN": database, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.stdout, run.returncode) == ("receipt for order 42\n", 0), run.stderr


def test_files_that_it_names_are_there() -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    assert linked
    assert [name for name in linked if not (ROOT / name).exists()] == []
