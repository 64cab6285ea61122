"""The examples are programs: each prints what its expected.txt says, and its README shows that.

They run in this process, one after the other on one database: starting Python for each would take most of the time, and
an example must not care about what others have left.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/expected.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_it_says(
    name: str, module_database: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = str(EXAMPLES / name / f"{name}.py")
    monkeypatch.setenv("RUNNERQ_DSN", module_database)
    monkeypatch.setattr(sys, "argv", [program])
    runpy.run_path(program, run_name="__main__")
    assert capfd.readouterr().out == (EXAMPLES / name / "expected.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_its_readme_shows_its_command_and_its_output(name: str) -> None:
    assert len((EXAMPLES / name / f"{name}.py").read_text().splitlines()) < 80
    readme = (EXAMPLES / name / "README.md").read_text()
    assert f"```\npython examples/{name}/{name}.py\n```" in readme
    assert f"```\n{(EXAMPLES / name / 'expected.txt').read_text()}```" in readme


def test_every_example_is_in_the_table() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    folders = {path.parent.name for path in EXAMPLES.glob("*/README.md")}
    assert {folder for folder in folders if f"[{folder}]({folder}/README.md)" not in readme} == set()
