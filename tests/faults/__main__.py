"""Faults under load, one after the other, each with a ledger outside the database that must agree with it in the end.

    python -m tests.faults                       all of them, at 200 runs a second, with a table at the end
    python -m tests.faults restarted listen      these
    python -m tests.faults --rate 100            at another rate
    python -m tests.faults --seconds 3           of steady load before each fault (default 5)
    python -m tests.faults --keep DIRECTORY      keep ledgers and logs there
    python -m tests.faults --markdown FILE       write the table for docs/internals/faults.md

docs/internals/faults.md says what is done and how to read the table. Exit code 0 only if all of them passed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import traceback
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.faults import FAULTS, Fault
from tests.faults.playing import Pace, Played, play
from tests.faults.server import Server
from tests.postgres import open_folder

INTERRUPTED = 130


def main() -> int:
    by_name = {fault.name: fault for fault in FAULTS}
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Faults under load, with a ledger.")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(by_name))
    parser.add_argument("--rate", type=float, default=200.0, help="runs started a second, half of them workflows")
    parser.add_argument("--seconds", type=float, default=5.0, help="of steady load before each fault")
    parser.add_argument("--keep", type=Path, help="where to keep ledgers and logs")
    parser.add_argument("--markdown", type=Path, help="where to write the table as Markdown")
    given = parser.parse_args()
    unknown = [name for name in given.faults if name not in by_name]
    if unknown:
        parser.error(f"there is no fault {', '.join(unknown)}; there are {', '.join(by_name)}")
    chosen = [by_name[name] for name in given.faults] or list(FAULTS)
    pace = Pace(rate=given.rate, before=given.seconds)
    with tempfile.TemporaryDirectory(prefix="runnerq-faults-") as folder:
        try:
            lines = asyncio.run(played(chosen, pace, given.keep or Path(folder)))
        except KeyboardInterrupt:
            return INTERRUPTED
    if given.markdown:
        given.markdown.write_text(markdown(lines))
    return 0 if len(lines) == len(chosen) and all(line.passed for line in lines) else 1


async def played(chosen: list[Fault], pace: Pace, folder: Path) -> list[Played]:
    """What came of those that could be played to the end."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    lines: list[Played] = []
    broken: list[str] = []
    with open_folder() as data:
        server = Server(data)
        await server.start()
        try:
            for fault in chosen:
                console.print(f"{fault.name}: {fault.what}", highlight=False)
                try:
                    line = await play(server, fault, pace, folder / fault.name)
                except Exception:
                    broken.append(fault.name)
                    console.print(traceback.format_exc(), highlight=False, markup=False)
                    continue
                lines.append(line)
                for wrong in [*line.faults, *line.slow]:
                    console.print(f"    [red]{wrong}", highlight=False)
        finally:
            await server.stop()
    console.print(table(lines))
    if broken:
        console.print(f"[red]not played to the end: {', '.join(broken)}")
    return lines


COLUMNS = ("fault", "runs", "runs/s", "meanwhile", "repeats", "crashes", "80 % after", "open ended", "taken up")


def figures(line: Played) -> list[str]:
    """The cells under ``COLUMNS``."""
    back, taken = line.recovery.back, line.taken_up
    return [
        line.fault.name,
        f"{line.found.runs:,}",
        f"{line.recovery.rate:.0f}",
        f"{line.recovery.during:.0f}",
        str(line.found.repeats),
        str(line.found.crashes),
        "never" if back is None else f"{back:.1f}",
        f"{line.recovery.last_open:.1f}",
        "" if taken is None else f"{taken:.1f}",
    ]


def markdown(lines: list[Played]) -> str:
    rows = [COLUMNS, ("---", *["--:"] * (len(COLUMNS) - 1)), *map(figures, lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def table(lines: list[Played]) -> Table:
    made = Table(title="recovery, in seconds")
    for column in COLUMNS:
        made.add_column(column, justify="left" if column == "fault" else "right")
    made.add_column("what happened")
    made.add_column("verdict")
    for line in lines:
        happened = ", ".join([line.fault.what, *line.said])
        made.add_row(*figures(line), happened, "passed" if line.passed else "FAILED")
    return made


if __name__ == "__main__":
    sys.exit(main())
