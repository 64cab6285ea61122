"""The tests that docs/concepts/testing.md shows pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT
from tests.architecture.test_concepts import CONCEPTS
from tests.docs.pages import module_text


def test_the_tests_of_the_page_pass_as_they_stand(tmp_path: Path) -> None:
    page = tmp_path / "test_page.py"
    page.write_text(module_text(CONCEPTS / "testing.md"))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", page.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "5 passed" in run.stdout
