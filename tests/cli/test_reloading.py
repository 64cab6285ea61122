"""Code that is saved while a worker runs it: what counts as a save, what becomes of the process, what is said of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runnerq.cli import reloading, sources
from runnerq.cli.commands import Refused
from runnerq.cli.following import tell_divergences
from runnerq.cli.leashed import NOT_YET, Leashed, leash
from runnerq.cli.main import main
from runnerq.cli.modules import find
from runnerq.cli.reloading import Reloading, named
from runnerq.cli.sources import Sources
from runnerq.cli.stops import Stops
from runnerq.client.client import Client
from runnerq.persistence.memory import MemoryStorage
from runnerq.runtime.worker import Worker
from tests.cli import changed_flows, flows

SOON = 30.0
UNTIL_CLOSED = "import sys; sys.stdin.read()"


def program(code: str) -> list[str]:
    return [sys.executable, "-ISc", code]


# --- what counts as a save --------------------------------------------------------------------------------------------


async def began(folder: Path) -> Sources:
    watched = Sources([folder], pause=0.01)
    await watched.begin()
    return watched


async def test_a_file_that_changes_comes_or_goes_is_saved_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    changed, gone, new = (tmp_path / "shop" / name for name in ("changed.py", "gone.py", "new.py"))
    changed.write_text("1")
    gone.write_text("1")
    for folder in (".git", "__pycache__", "node_modules", "venv"):
        (tmp_path / folder).mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    watched = await began(tmp_path)
    for folder in (".git", "__pycache__", "node_modules", "venv"):
        (tmp_path / folder / "not_edited.py").write_text("1")
    (tmp_path / "data.json").write_text("{}")
    changed.write_text("longer")
    gone.unlink()
    new.write_text("1")
    async with asyncio.timeout(SOON):
        assert await watched.saved() == [str(changed), str(gone), str(new)]


async def test_what_is_saved_between_two_answers_is_in_the_next_one(tmp_path: Path) -> None:
    watched = await began(tmp_path)
    async with asyncio.timeout(SOON):
        for name in ("a.py", "b.py"):
            (tmp_path / name).write_text("1")
            assert await watched.saved() == [str(tmp_path / name)]


async def test_too_many_files_are_refused_with_the_option_that_names_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MOST_FILES", 1)
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    with pytest.raises(Refused, match="--watch FOLDER"):
        await began(tmp_path)


def test_some_of_many_files_are_named_as_seen_from_here() -> None:
    files = [str(Path.cwd() / name) for name in ("a.py", "b.py", "c.py", "d.py", "e.py")]
    assert named(files) == "a.py, b.py, c.py and 2 more"


# --- what becomes of the process --------------------------------------------------------------------------------------

Next = Callable[[], Awaitable[str]]


class Kept:
    """A process that is kept, and what is heard of it, a line at a time."""

    def __init__(self, folder: Path, code: str, *, patience: float = SOON) -> None:
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self._reloading = Reloading(
            program(code), os.environ, Sources([folder], pause=0.01), self._heard.put_nowait, self._heard.put_nowait, 0,
            patience,
        )  # fmt: skip
        self.stops = Stops(lambda: None, self._reloading.kill)

    async def heard(self) -> str:
        async with asyncio.timeout(SOON):
            return await self._heard.get()

    async def run(self) -> None:
        await asyncio.wait_for(self._reloading.run(self.stops), SOON)


async def test_a_save_replaces_the_process_once_the_old_one_has_stopped_in_order(tmp_path: Path) -> None:
    kept = Kept(tmp_path, f"print('up', flush=True); {UNTIL_CLOSED}; print('down')")
    running = asyncio.create_task(kept.run())
    assert await kept.heard() == "up"
    (tmp_path / "shop.py").write_text("1")
    assert [await kept.heard() for _ in range(3)] == [f"saved {tmp_path}/shop.py: the worker is replaced", "down", "up"]
    kept.stops.signalled(signal.SIGTERM)
    await running
    assert await kept.heard() == "down"


async def test_one_that_ends_by_itself_is_not_started_again_before_the_next_save(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "print('no such module'); raise SystemExit(2)")
    running = asyncio.create_task(kept.run())
    for text in ("1", "longer"):
        assert await kept.heard() == "no such module"
        assert "ended with exit code 2; the next save starts another" in await kept.heard()
        (tmp_path / "shop.py").write_text(text)
        assert "saved" in await kept.heard()
    kept.stops.signalled(signal.SIGINT)
    await running


async def test_one_whose_database_does_not_answer_is_started_again_without_a_save(tmp_path: Path) -> None:
    first = f"import os, sys; os.open({str(tmp_path / 'first')!r}, os.O_CREAT | os.O_EXCL)"
    code = f"""
try:
    {first}
except FileExistsError:
    print('up', flush=True); {UNTIL_CLOSED}
else:
    sys.exit({NOT_YET})
"""
    kept = Kept(tmp_path, code)
    running = asyncio.create_task(kept.run())
    assert "ended with exit code 75; another one starts in 0 s" in await kept.heard()
    assert await kept.heard() == "up"
    kept.stops.signalled(signal.SIGTERM)
    await running


async def test_a_second_signal_ends_one_that_is_being_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path, "import time; time.sleep(600)")

    async def signalled_meanwhile(*given: Any) -> Leashed:
        kept.stops.signalled(signal.SIGTERM)
        kept.stops.signalled(signal.SIGTERM)
        return await leash(*given)

    monkeypatch.setattr(reloading, "leash", signalled_meanwhile)
    await kept.run()


async def test_one_that_does_not_stop_is_spoken_of_and_the_second_signal_ends_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "import time; print('up', flush=True); time.sleep(600)", patience=0)
    running = asyncio.create_task(kept.run())
    assert await kept.heard() == "up"
    kept.stops.signalled(signal.SIGTERM)
    assert "has not stopped yet" in await kept.heard()
    kept.stops.signalled(signal.SIGINT)
    await running
    assert kept.stops.second is signal.SIGINT


async def test_all_that_a_process_prints_is_heard_also_without_an_end_of_line_and_when_it_is_long() -> None:
    lines: list[str] = []
    process = await leash(program("print('x' * 200_000); print('last', end='')"), None, lines.append)
    assert await process.ended() == 0
    assert ("".join(lines[:-1]), lines[-1]) == ("x" * 200_000, "last")


async def test_one_has_ended_though_what_it_started_goes_on_and_is_heard_still(tmp_path: Path) -> None:
    """Such as a browser, or a server, that a step has started."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    heard = asyncio.Queue[str]()
    code = f"import subprocess; subprocess.Popen(['sh', '-c', 'read line < {gate}; echo $line'])"
    process = await leash(program(code), None, heard.put_nowait)
    async with asyncio.timeout(SOON):
        assert await process.ended() == 0
        await asyncio.to_thread(gate.write_text, "later\n")
        assert await heard.get() == "later"


async def test_where_it_cannot_be_heard_it_is_stopped_and_not_left_to_a_full_pipe() -> None:
    def cannot(line: str) -> None:
        raise UnicodeEncodeError("ascii", line, 0, 1, "not in it")

    process = await leash(program(f"print('x' * 2_000_000, flush=True); print(); {UNTIL_CLOSED}"), None, cannot)
    with pytest.raises(UnicodeEncodeError):
        await asyncio.wait_for(process.ended(), SOON)


def test_several_processes_are_not_reloaded() -> None:
    done = CliRunner().invoke(main, ["worker", "shop", "--reload", "--processes", "2"])
    assert (done.exit_code, "exclude each other" in done.stderr) == (2, True)


# --- what is said of the code -----------------------------------------------------------------------------------------


async def test_open_runs_that_do_not_follow_the_new_code_are_told_with_the_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with Client(MemoryStorage()) as client:
        async with Worker(client, workflows=[flows.waiting], build="tests") as worker:
            run = await client.start(flows.waiting)
            await run.reached("waiting", timeout=SOON)
            await worker.idle()
        await tell_divergences(client, [flows.waiting])
        assert capsys.readouterr().err == ""
        await tell_divergences(client, [changed_flows.waiting])
    said = capsys.readouterr().err
    assert f"run {run.id} of waiting@2: position 2" in said
    assert "changed_flows.py:" in said
    assert "1 open run does not follow this code" in said


@pytest.mark.parametrize(
    ("code", "line", "error"),
    [
        ("def broken(:\n", 'broken_now.py", line 1', "SyntaxError"),
        ("import not_to_be_found\n", 'broken_now.py", line 1', "ModuleNotFoundError"),
        ("\n1 / 0\n", 'broken_now.py", line 2', "ZeroDivisionError"),
    ],
)
def test_a_module_that_is_broken_is_told_with_its_own_lines_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: str,
    line: str,
    error: str,
) -> None:
    (tmp_path / "broken_now.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Refused, match=f"module 'broken_now' cannot be imported: {error}"):
        find(["broken_now"])
    said = capsys.readouterr().err
    assert (line in said, said.count("File ")) == (True, 1), said


def test_a_file_in_place_of_a_module_is_told_how_to_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").touch()
    for file in ("shop.py", "./shop.py"):
        with pytest.raises(Refused, match=r"name it as in `import shop`, without \.py"):
            find([file])
