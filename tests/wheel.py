"""The wheel that this repository makes, and an empty virtual environment with it, without asking an index.

    wheel       session   the file, built once
    installed   session   the folder of an environment in which pip has installed it with the extra `embedded`

What it requires is linked in from the environment that runs the tests, and only that: a dependency that the wheel does
not name is missing there.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from collections.abc import Collection, Iterable
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRA = "embedded"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    for required in everything_required(wheel):
        link(required, packages)
    # With --no-index it refuses what is missing, in place of fetching it.
    install = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-index"]
    done = subprocess.run([*install, f"{wheel}[{EXTRA}]"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def everything_required(wheel: Path) -> list[Distribution]:
    """What the wheel requires with its extra, and what that requires."""
    with zipfile.ZipFile(wheel) as packed:
        [name] = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        asked = Parser().parsestr(packed.read(name).decode()).get_all("Requires-Dist", [])
    return brought_by(asked, {EXTRA})


def brought_by(requirements: Iterable[str], extras: Collection[str] = ()) -> list[Distribution]:
    """The packages of this environment that these requirements bring on this Python, those of a package with extras."""
    left = [(text, frozenset(extras)) for text in requirements]
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        text, extras_there = left.pop()
        wanted = Requirement(text)
        if not _applies(wanted, extras_there):
            continue
        name, extras_here = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, extras_here) not in seen:
            seen.add((name, extras_here))
            found[name] = distribution(name)
            left += [(each, extras_here) for each in found[name].requires or ()]
    return list(found.values())


def _applies(wanted: Requirement, extras: Collection[str]) -> bool:
    marker = wanted.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})


def link(package: Distribution, packages: Path) -> None:
    """Have the files of a package in another environment as well."""
    for top in {Path(file.parts[0]) for file in package.files or () if file.parts[0] not in {"..", "__pycache__"}}:
        there = packages / top
        if not there.exists():
            there.symlink_to(Path(str(package.locate_file(top))))
