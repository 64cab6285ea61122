"""Put each fault into a copy of the source, and see that a test notices it.

    python -m tests.mutants                     all of them, with a table
    python -m tests.mutants m3 m9               these
    python -m tests.mutants --of replay -j 2    those of the interpreter and the runtime, two at a time

First the tests that are to notice run without a fault and must pass. Each fault has a copy of the source of its own;
the checkout is never touched. $RUNNERQ_TEST_DSN is used if given. Exit code 0 only if each fault turned a test red.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table

from tests.mutants.codec_faults import CODEC_FAULTS
from tests.mutants.faults import FAULTS, OPENING_FAULTS, Fault
from tests.mutants.joined_faults import JOINED_FAULTS
from tests.mutants.limit_faults import LIMIT_FAULTS
from tests.mutants.process_faults import PROCESS_FAULTS
from tests.mutants.queue_faults import QUEUE_FAULTS
from tests.mutants.reading_faults import READING_FAULTS
from tests.mutants.replay_faults import REPLAY_FAULTS
from tests.mutants.runtime_faults import RUNTIME_FAULTS
from tests.mutants.schedule_faults import SCHEDULE_FAULTS

ROOT = Path(__file__).parents[2]
PATIENCE = 60
"""Seconds for one test: a fault may make it wait for what never comes."""
LONGEST = 600
"""Seconds for all tests of one fault."""
KINDS: dict[str, tuple[Fault, ...]] = {
    "storage": FAULTS
    + OPENING_FAULTS
    + LIMIT_FAULTS
    + QUEUE_FAULTS
    + READING_FAULTS
    + SCHEDULE_FAULTS
    + JOINED_FAULTS
    + CODEC_FAULTS,
    "replay": REPLAY_FAULTS + RUNTIME_FAULTS,
    "processes": PROCESS_FAULTS,
}


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


def tested(tree: Path, tests: Sequence[str], *more: str) -> Outcome:
    """Run these tests over this copy."""
    report = tree / "report.xml"
    command = [sys.executable, "-m", "pytest", *tests, "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += [f"--timeout={PATIENCE}", "--timeout-method=signal", f"--junitxml={report}", *more]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return Outcome(frozenset(), frozenset(), f"the tests took longer than {LONGEST} s")
    passed: set[str] = set()
    failed: set[str] = set()
    if report.exists():
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by our own pytest
            name = f"{case.get('classname', '')}.{case.get('name', '')}"
            (failed if case.find("failure") is not None or case.find("error") is not None else passed).add(name)
    return Outcome(frozenset(passed), frozenset(failed), done.stdout[-4000:] + done.stderr[-1000:])


def judged(fault: Fault) -> tuple[str, str, float]:
    """Whether the fault was noticed, and by what, or what is wrong with the fault itself; and the seconds it took."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rqmutant-") as folder:
        tree = copied(Path(folder))
        try:
            fault.put_into(tree)
        except LookupError as error:
            return "broken", str(error), 0.0
        # One after the other in one go, as starting takes the longest; the first that fails is enough.
        outcome = tested(tree, (*fault.still_green, *fault.noticed_by), "--maxfail=1")
    took = time.monotonic() - began
    basics = {test.rpartition("::")[2] for test in fault.still_green}
    if not outcome.passed or any(test.rpartition(".")[2] in basics for test in outcome.failed):
        return "broken", f"{sorted(outcome.failed) or outcome.output[-300:]}: the fault is not subtle", took
    if not outcome.failed:
        return "MISSED", f"{len(outcome.passed)} tests passed", took
    return "caught", min(outcome.failed).rpartition(".")[2], took


def chosen_faults() -> tuple[list[Fault], int]:
    """The faults that the command line names, and how many to try at a time."""
    parser = argparse.ArgumentParser(description="See that each known fault turns a test red.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which faults; all, if none is named")
    parser.add_argument("--of", choices=sorted(KINDS), help="only faults of this kind")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="so many at a time")
    given = parser.parse_args()
    faults = [fault for kind, some in KINDS.items() if given.of in (None, kind) for fault in some]
    names = set(given.names)
    unknown = names - {fault.name for fault in faults}
    if unknown:
        parser.error(
            f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(each.name for each in faults)}"
        )
    return [fault for fault in faults if not names or fault.name in names], given.jobs


def main() -> int:
    chosen, jobs = chosen_faults()
    console = Console(width=160 if not sys.stdout.isatty() else None)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rqmutant-") as folder:
        tests = sorted({test for fault in chosen for test in (*fault.noticed_by, *fault.still_green)})
        sound = tested(copied(Path(folder)), tests)
    if sound.failed or not sound.passed:
        console.print(
            f"[red]without any fault {len(sound.failed)} tests fail[/]: {sorted(sound.failed)}\n{sound.output}"
        )
        return 2
    console.print(f"without any fault {len(sound.passed)} tests pass")
    table = Table("fault", "what", "verdict", "by", "s", title="Mutants")
    escaped = 0
    with ThreadPoolExecutor(jobs) as pool:
        for fault, (verdict, by, took) in zip(chosen, pool.map(judged, chosen), strict=True):
            escaped += verdict != "caught"
            colour = "green" if verdict == "caught" else "red"
            table.add_row(fault.name, fault.what, f"[{colour}]{verdict}[/]", by, f"{took:.0f}")
            console.print(f"{fault.name}: {verdict}")
    console.print(table)
    console.print(f"{len(chosen) - escaped} of {len(chosen)} caught, {time.monotonic() - began:.0f} s")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
