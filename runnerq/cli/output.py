"""How a command answers: the one place for ``-o``.

Rules
- stdout has the answer and nothing else; messages go to stderr.
- ``json`` is the answer of the API, whole; ``jsonl`` is a line an item, and one line of one thing; ``id`` is what each
  is called by, a line each, for pipes. What has no id refuses ``-o id`` as wrong usage.
- A table is made only where one is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, assert_never

import click
import msgspec

from runnerq.cli.sheets import Cell, Sheet, Styled
from runnerq.cli.telling import harmless, harmless_json, on_a_line, say

T = TypeVar("T")

Output: TypeAlias = Literal["table", "json", "jsonl", "id"]

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "jsonl", "id"]),
    envvar="RUNNERQ_OUTPUT",
    default="table",
    show_default=True,
    help="What to print: for people, the API's JSON, JSON a line an item, ids alone.",
)
"""Adds ``-o``; the command gets it as ``output: Output``."""


def for_pipes(output: Output) -> bool:
    """Whether another program reads it a line at a time: it gets all that there is, since it asks for no next page."""
    return output in {"id", "jsonl"}


def show_list(
    output: Output, answer: Any, items: Iterable[T], *, name: Callable[[T], str], table: Callable[[], Sheet]
) -> None:
    """Several things: ``answer`` is all of it as the API has it, ``items`` what is listed in it, ``name`` the id of
    each (or what else a command takes for it), ``table`` makes what people see."""
    match output:
        case "table":
            _print(table())
        case "json":
            print_json(answer)
        case "jsonl":
            for item in items:
                print_line(item)
        case "id":
            for item in items:
                _print_name(name(item))
        case _:
            assert_never(output)


def show_one(output: Output, answer: Any, *, name: str | None, table: Callable[[], Sheet | str]) -> None:
    """One thing; ``name`` is its id, None if it has none. A table may be one line of text."""
    match output:
        case "table":
            _print(table())
        case "json":
            print_json(answer)
        case "jsonl":
            print_line(answer)
        case "id":
            if name is None:
                raise click.UsageError("-o id: there is no id in this answer")
            _print_name(name)
        case _:
            assert_never(output)


def show_done(output: Output, answer: Any, said: str, *, name: str | None = None) -> None:
    """What came of an action: the person is told ``said`` on stderr, a program gets the answer, and ``-o id`` the id of
    the run that it was about, if any."""
    match output:
        case "table":
            say(said)
        case "json":
            print_json(answer)
        case "jsonl":
            print_line(answer)
        case "id":
            _print_name(name)
        case _:
            assert_never(output)


def show_event(output: Output, item: Any, *, name: str | None, line: Callable[[], Sequence[Cell]]) -> None:
    """One more of something that is followed, a line each: ``json`` is ``jsonl`` here."""
    match output:
        case "table":
            _print_cells(line())
        case "json" | "jsonl":
            print_line(item)
        case "id":
            _print_name(name)
        case _:
            assert_never(output)


def print_json(value: Any) -> None:
    """A value as JSON, indented, on stdout."""
    click.echo(harmless_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def print_line(value: Any) -> None:
    """A value as JSON on one line of stdout."""
    click.echo(harmless_json(msgspec.json.encode(value).decode()))


def _print_cells(cells: Sequence[Cell]) -> None:
    if not sys.stdout.isatty():
        texts = (cell.text if isinstance(cell, Styled) else cell for cell in cells)
        click.echo(harmless("  ".join(texts).replace("\n", " ")))
        return
    from runnerq.cli.rendering import print_cells  # noqa: PLC0415 - rich, where there are colours

    print_cells(cells)


def _print_name(name: str | None) -> None:
    # The first entry of a history has no position, say: an empty line would be an argument of the next command.
    if name:
        click.echo(on_a_line(name) if sys.stdout.isatty() else name)


def _print(sheet: Sheet | str) -> None:
    if isinstance(sheet, str):
        click.echo(harmless(sheet))
        return
    from runnerq.cli.rendering import print_sheet  # noqa: PLC0415 - rich, where a table is printed

    print_sheet(sheet)
