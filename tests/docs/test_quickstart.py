"""The files of the quick start, written as it says, and run as it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT
from tests.docs.pages import python_blocks

PAGE = ROOT / "docs" / "quickstart.md"


def test_its_test_passes_as_a_file_beside_its_workflow(tmp_path: Path) -> None:
    shop, test = python_blocks(PAGE)
    text = PAGE.read_text(encoding="utf-8")
    for name, block in (("shop.py", shop), ("test_shop.py", test)):
        assert f"Save this as `{name}`" in text
        (tmp_path / name).write_text(block.text, encoding="utf-8")
    assert "\npytest test_shop.py\n" in text
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "test_shop.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr
