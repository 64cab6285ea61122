"""The examples are programs: each prints what its expected.txt says, and its README shows that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/expected.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_it_says(name: str, database: str) -> None:
    run = subprocess.run(
        [sys.executable, EXAMPLES / name / f"{name}.py"],
        env={**os.environ, "RUNNERQ_DSN": database},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == (EXAMPLES / name / "expected.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_its_readme_shows_its_output(name: str) -> None:
    assert len((EXAMPLES / name / f"{name}.py").read_text().splitlines()) < 80
    assert (EXAMPLES / name / "expected.txt").read_text() in (EXAMPLES / name / "README.md").read_text()
