"""The files of ``static/``, read once: nothing that is not in the package can be asked for."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec

STATIC = Path(__file__).parent.parent / "static"

_KINDS = {
    ".css": "text/css",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


class Asset(msgspec.Struct, frozen=True):
    """A file as it is sent. ``version`` changes when it does."""

    body: bytes
    kind: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """All of them, by name."""
    return {
        path.relative_to(STATIC).as_posix(): Asset(body, _KINDS[path.suffix], sha256(body).hexdigest()[:12])
        for path in sorted(STATIC.rglob("*"))
        if path.suffix in _KINDS and path.is_file()
        for body in (path.read_bytes(),)
    }


def asset_url(name: str) -> str:
    """Where it is, within the console. KeyError for a file that the package does not have."""
    return f"/static/{name}?v={assets()[name].version}"
