"""Both checkers, over the user code in this folder.

A line that must be rejected carries an ignore; one that the checker does not need is an error (``warn_unused_ignores``,
``reportUnnecessaryTypeIgnoreComment``), so that a line which stops being rejected turns this red.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
pytest.importorskip("pyright")

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
USER_CODE = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("test_"))

UNNEEDED = "number: int = 5  # type: ignore[assignment]\n"


def mypy(*paths: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def pyright(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyright", "--project", str(project), "--pythonpath", sys.executable]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_there_is_user_code_that_must_be_rejected() -> None:
    assert sum(path.read_text().count("# type: ignore[") for path in USER_CODE) > 50


def test_mypy_infers_and_rejects_what_user_code_says() -> None:
    done = mypy(*USER_CODE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_infers_and_rejects_what_user_code_says() -> None:
    done = pyright(HERE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_reports_an_ignore_that_it_does_not_need(tmp_path: Path) -> None:
    code = tmp_path / "unneeded.py"
    code.write_text(UNNEEDED)
    done = mypy(code)
    assert "unused-ignore" in done.stdout


def test_pyright_reports_an_ignore_that_it_does_not_need(tmp_path: Path) -> None:
    (tmp_path / "unneeded.py").write_text(UNNEEDED)
    settings = json.loads((HERE / "pyrightconfig.json").read_text()) | {"extraPaths": []}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = pyright(tmp_path)
    assert "reportUnnecessaryTypeIgnoreComment" in done.stdout
