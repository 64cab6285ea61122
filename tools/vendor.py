"""Fetch the files that VENDOR.toml names from their npm packages, and put them there if they have its checksums.

python tools/vendor.py            needs npm, and the registry that it is set to
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import tomllib
from hashlib import sha256
from pathlib import Path

STATIC = Path(__file__).parent.parent / "runnerq" / "console" / "static"


def main() -> int:
    """Fetch all; 1 if one has another checksum, which leaves the file as it is."""
    wrong = 0
    for file in tomllib.loads((STATIC / "VENDOR.toml").read_text())["file"]:
        body = fetched(f"{file['package']}@{file['version']}", file["member"])
        if sha256(body).hexdigest() == file["sha256"]:
            (STATIC / file["path"]).write_bytes(body)
            print(f"{file['path']}: {file['package']} {file['version']}, {len(body):,} bytes")
        else:
            wrong = 1
            print(
                f"{file['path']}: the package's file has another checksum, {sha256(body).hexdigest()}", file=sys.stderr
            )
    return wrong


def fetched(package: str, member: str) -> bytes:
    """A file of a package, as npm has it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        [packed] = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as tar:
            found = tar.extractfile(f"package/{member}")
            if found is None:
                raise SystemExit(f"{package} has no {member}")
            return found.read()


if __name__ == "__main__":
    sys.exit(main())
