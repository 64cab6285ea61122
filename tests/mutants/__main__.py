"""Put each fault into a copy of the source, and see that a test notices it.

    python -m tests.mutants            all of them, with a table
    python -m tests.mutants m3 m9      these

First the tests that are to notice run without a fault and must pass. $RUNNERQ_TEST_DSN is used if given. Exit code 0
only if each fault turned a test red.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table

from tests.mutants.faults import FAULTS, STILL_GREEN, Fault

ROOT = Path(__file__).parents[2]
PATIENCE = 60
"""Seconds for one test: a fault may make it wait for what never comes."""


@dataclass(frozen=True)
class Outcome:
    """What pytest said: names of tests that passed, and of those that did not."""

    passed: frozenset[str]
    failed: frozenset[str]
    output: str


def copied(into: Path) -> Path:
    """A copy of what the tests need."""
    leave_out = shutil.ignore_patterns("__pycache__", ".*")
    for folder in ("runnerq", "tests"):
        shutil.copytree(ROOT / folder, into / folder, ignore=leave_out)
    shutil.copy(ROOT / "pyproject.toml", into)
    return into


def tested(tree: Path, tests: Sequence[str]) -> Outcome:
    """Run these tests over this copy."""
    report = tree / "report.xml"
    command = [sys.executable, "-m", "pytest", *tests, "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += [f"--timeout={PATIENCE}", "--timeout-method=signal", f"--junitxml={report}"]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    passed: set[str] = set()
    failed: set[str] = set()
    if report.exists():
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by our own pytest
            name = f"{case.get('classname', '')}.{case.get('name', '')}"
            (failed if case.find("failure") is not None or case.find("error") is not None else passed).add(name)
    return Outcome(frozenset(passed), frozenset(failed), done.stdout[-4000:] + done.stderr[-1000:])


def judged(fault: Fault) -> tuple[str, str]:
    """Whether the fault was noticed, and by what; or what is wrong with the fault itself."""
    with tempfile.TemporaryDirectory(prefix="rqmutant-") as folder:
        tree = copied(Path(folder))
        fault.put_into(tree)
        basics = tested(tree, STILL_GREEN)
        if basics.failed or not basics.passed:
            return "broken", f"{sorted(basics.failed) or basics.output[-300:]}: the fault is not subtle"
        outcome = tested(tree, fault.noticed_by)
    if not outcome.failed:
        return "MISSED", f"{len(outcome.passed)} tests passed"
    first = min(outcome.failed).rpartition(".")[2]
    more = f" and {len(outcome.failed) - 1} more" if len(outcome.failed) > 1 else ""
    return "caught", f"{first}{more}"


def main() -> int:
    parser = argparse.ArgumentParser(description="See that each known fault turns a test red.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which faults; all, if none is named")
    names = set(parser.parse_args().names)
    unknown = names - {fault.name for fault in FAULTS}
    if unknown:
        parser.error(
            f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(each.name for each in FAULTS)}"
        )
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    console = Console(width=160 if not sys.stdout.isatty() else None)
    with tempfile.TemporaryDirectory(prefix="rqmutant-") as folder:
        tests = sorted({test for fault in chosen for test in fault.noticed_by} | set(STILL_GREEN))
        sound = tested(copied(Path(folder)), tests)
    if sound.failed or not sound.passed:
        console.print(
            f"[red]without any fault {len(sound.failed)} tests fail[/]: {sorted(sound.failed)}\n{sound.output}"
        )
        return 2
    console.print(f"without any fault {len(sound.passed)} tests pass")
    table = Table("fault", "what", "verdict", "by", "s", title="Mutants")
    escaped = 0
    for fault in chosen:
        began = time.monotonic()
        verdict, by = judged(fault)
        escaped += verdict != "caught"
        colour = "green" if verdict == "caught" else "red"
        table.add_row(fault.name, fault.what, f"[{colour}]{verdict}[/]", by, f"{time.monotonic() - began:.0f}")
        console.print(f"{fault.name}: {verdict}")
    console.print(table)
    console.print(f"{len(chosen) - escaped} of {len(chosen)} caught")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
