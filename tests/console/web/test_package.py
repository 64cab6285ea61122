"""What is shipped: templates, files, what is vendored; and that nothing loads litestar unasked."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

CONSOLE = ROOT / "runnerq" / "console"
STATIC = CONSOLE / "static"
WEB = ("litestar", "jinja2", "uvicorn")


def test_a_vendored_file_is_the_one_that_its_checksum_is_of() -> None:
    files = tomllib.loads((STATIC / "VENDOR.toml").read_text())["file"]
    assert [file["path"] for file in files] == ["htmx.min.js"]
    for file in files:
        assert sha256((STATIC / file["path"]).read_bytes()).hexdigest() == file["sha256"]


def test_scripts_of_our_own_are_small() -> None:
    own = [path for path in STATIC.glob("*.js") if path.name != "htmx.min.js"]
    assert sum(path.stat().st_size for path in own) <= 6 * 1024


def test_nothing_on_a_page_is_inline_or_from_elsewhere() -> None:
    wrong = []
    for path in sorted((CONSOLE / "templates").iterdir()):
        text = path.read_text()
        found = [
            word for word in ("|safe", "| safe", " style=", "<style", "javascript:", "hx-on", "//cdn") if word in text
        ]
        found += [
            event for event in (" onclick=", " onload=", " onsubmit=", " onerror=", " onchange=") if event in text
        ]
        found += ["inline script"] if "<script>" in text else []
        wrong += [(path.name, found)] if found else []
    assert wrong == []


def test_the_wheel_has_every_template_and_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        [entries] = [name for name in names if name.endswith("entry_points.txt")]
        commands = packed.read(entries).decode()
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in ("static", "templates")
        for path in (CONSOLE / folder).rglob("*")
        if path.is_file()
    }
    assert len(wanted) > 20
    assert wanted - names == set()
    assert "[litestar.commands]\nrunnerq = runnerq.cli:for_litestar" in commands


@pytest.mark.parametrize(
    "module", ["runnerq.console", "runnerq.console.models.context", "runnerq.console.actions", "runnerq.cli.main"]
)
def test_what_the_command_line_uses_does_not_load_the_web(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {WEB} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "[]"
