"""What `make` installs is what constraints.txt says: somebody else's release turns no test red."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source import ROOT
from tests.wheel import brought_by

LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
MAKEFILE = (ROOT / "Makefile").read_text()
BUILDING = ("hatchling", "editables")


def required() -> Iterator[str]:
    """What pyproject.toml asks for, with all of the extras that `make` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield from project["dependencies"]
    for extra in {name for names in re.findall(r"--editable '\.\[(.*)\]'", MAKEFILE) for name in names.split(",")}:
        yield from project["optional-dependencies"][extra]


def test_each_line_pins_one_package_by_name_and_version() -> None:
    pins = [Requirement(line) for line in LINES]
    assert [
        str(pin) for pin in pins if pin.url or pin.extras or [each.operator for each in pin.specifier] != ["=="]
    ] == []
    assert sorted(LINES, key=str.lower) == LINES
    assert len({canonicalize_name(pin.name) for pin in pins}) == len(pins)


def test_make_installs_nothing_that_they_do_not_pin() -> None:
    installing = [line for line in MAKEFILE.splitlines() if "pip install" in line]
    assert [line for line in installing if "--constraint constraints.txt" not in line] == []
    assert installing
    assert f"$(INSTALL) {' '.join(BUILDING)}" in MAKEFILE


def test_what_make_has_installed_here_is_what_they_say() -> None:
    if not (Path(sys.prefix) / ".ready").exists():
        pytest.skip("`make` has not made this environment: it may have what versions it likes")
    pins = {canonicalize_name(pin.name): str(pin.specifier) for pin in map(Requirement, LINES)}
    here = {canonicalize_name(each.name): f"=={each.version}" for each in brought_by([*required(), *BUILDING])}
    assert here == pins
