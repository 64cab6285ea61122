"""Lists as files: read page by page, as far as they may go."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Literal, Protocol, TypeVar

import msgspec
from litestar import Response

MOST_EXPORTED = 10_000
"""Rows of a file: the newest that fit."""
PATIENCE = 20.0
"""Seconds after which no further page is read: a search may go through all runs there are and find none."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Page(Protocol[T_co]):
    """A page of a list."""

    @property
    def rows(self) -> Sequence[T_co]:
        """What is on it."""
        ...

    @property
    def next(self) -> str | None:
        """The cursor of the page behind it."""
        ...


class Export(msgspec.Struct, Generic[T], frozen=True):
    """The rows of a file. ``cut`` says what there was too much of for all that fit, if there was."""

    rows: list[T]
    cut: Literal["rows", "time"] | None = None

    def file_name(self, stem: str, ending: str) -> str:
        """The file's name, which says so as well."""
        cut = {None: "", "rows": f"-newest-{len(self.rows)}", "time": f"-newest-{len(self.rows)}-time-was-up"}
        return f"{stem}{cut[self.cut]}.{ending}"


async def gathered(read: Callable[[str | None], Awaitable[Page[T]]]) -> Export[T]:
    """The rows of all pages, up to so many and for so long. ``read`` gives the page of a cursor."""
    until = time.monotonic() + PATIENCE
    rows: list[T] = []
    cursor: str | None = None
    while True:
        page = await read(cursor)
        rows += page.rows
        cursor = page.next
        if len(rows) > MOST_EXPORTED or (len(rows) == MOST_EXPORTED and cursor is not None):
            return Export(rows[:MOST_EXPORTED], "rows")
        if cursor is None:
            return Export(rows)
        if time.monotonic() > until:
            return Export(rows, "time")


def attachment(body: bytes, media_type: str, name: str) -> Response[bytes]:
    """A file to keep."""
    return Response(body, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'})
