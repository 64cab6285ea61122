"""Sheets for people, in colour on a terminal and plain elsewhere. It brings rich: import it where one is printed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import assert_never

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree

from runnerq.cli.sheets import Branch, Cell, Fields, Sheet, Styled, Table
from runnerq.cli.telling import harmless, on_a_line

PLAIN_WIDTH = 140
"""Columns where there is no terminal to ask."""
ANY_WIDTH = 10_000


def print_sheet(sheet: Sheet) -> None:
    """Print it to stdout as it is now. A table whose columns are all whole may be wider than the terminal."""
    whole = isinstance(sheet, Table) and all(column.whole for column in sheet.columns)
    terminal(ANY_WIDTH if whole else None).print(_rich(sheet))


def print_cells(cells: Sequence[Cell]) -> None:
    """Print a line of them to stdout as it is now."""
    terminal(ANY_WIDTH).print(_line(cells), soft_wrap=True)


def terminal(width: int | None = None) -> Console:
    """stdout as it is now. rich keeps to ``NO_COLOR`` by itself."""
    plain = not sys.stdout.isatty()
    # What is shown is text of other people: brackets in it are no markup.
    return Console(
        file=sys.stdout,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=False,
        width=width or (PLAIN_WIDTH if plain else None),
    )


def _rich(sheet: Sheet) -> RichTable | Tree:
    match sheet:
        case Table():
            return _table(sheet)
        case Fields():
            return _fields(sheet)
        case Branch():
            return _tree(sheet)
        case _:
            assert_never(sheet)


def _table(sheet: Table) -> RichTable:
    made = RichTable(box=None, header_style="bold", pad_edge=False)
    for column in sheet.columns:
        made.add_column(column.title, overflow="fold", no_wrap=column.whole)
    for row in sheet.rows:
        made.add_row(*(_text(cell, whole=column.whole) for cell, column in zip(row, sheet.columns, strict=True)))
    return made


def _fields(sheet: Fields) -> RichTable:
    made = RichTable(box=None, show_header=False, pad_edge=False)
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, cell in sheet.lines:
        made.add_row(_text(name, whole=True), _text(cell))
    return made


def _tree(sheet: Branch) -> Tree:
    top = Tree(_line(sheet.line))
    # Without recursion: a family may be deep.
    left = [(top, sheet)]
    while left:
        above, branch = left.pop()
        left.extend((above.add(_line(child.line)), child) for child in branch.below)
    return top


def _line(cells: Sequence[Cell]) -> Text:
    return Text("  ").join(_text(cell, whole=True) for cell in cells)


def _text(cell: Cell, *, whole: bool = False) -> Text:
    text, style = (cell.text, cell.style) if isinstance(cell, Styled) else (cell, "")
    # What is whole stays on its line.
    return Text(on_a_line(text) if whole else harmless(text), style)
