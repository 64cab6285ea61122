"""What commands show to people, as data: a table, the fields of one thing, a tree. ``runnerq.cli.rendering`` prints it.

Whoever makes one needs no rich, and no terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec


class Styled(msgspec.Struct, frozen=True):
    """A text in a style of rich, such as ``bold red``; plain where there is no terminal."""

    text: str
    style: str


Cell: TypeAlias = str | Styled


class Column(msgspec.Struct, frozen=True):
    """A column by its title. One that is ``whole`` is not broken over lines: an id that is can be neither copied nor
    searched for."""

    title: str
    whole: bool = False


class Table(msgspec.Struct, frozen=True):
    """A line a thing, under titles."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


class Fields(msgspec.Struct, frozen=True):
    """One thing, a line a field, by its name."""

    lines: tuple[tuple[str, Cell], ...]


class Branch(msgspec.Struct, frozen=True):
    """A tree: a line of cells, and what is below it."""

    line: tuple[Cell, ...]
    below: tuple[Branch, ...] = ()


Sheet: TypeAlias = Table | Fields | Branch


def table(titles: Sequence[str | Column], rows: Iterable[Sequence[Cell]]) -> Table:
    """A table with these titles; the column of an ``id`` is whole."""
    columns = tuple(each if isinstance(each, Column) else Column(each, whole=each == "id") for each in titles)
    return Table(columns, tuple(tuple(row) for row in rows))


def lines(titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """A table with a line a row, however long that is: for `grep`, and for a terminal of any width."""
    return table(tuple(Column(title, whole=True) for title in titles), rows)


def fields(lines: Iterable[tuple[str, Cell | None]]) -> Fields:
    """The fields that there are: one that is None is left out."""
    return Fields(tuple((name, cell) for name, cell in lines if cell is not None))
