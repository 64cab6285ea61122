"""Which rights the statements of sql/ need, as they stand there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_SQL = Path(__file__).parent / "sql"
_COMMENT = re.compile(r"--[^\n]*")
_MENTIONED = re.compile(r"\b(?:from|join|using|into|update) runnerq\.(\w+)\b(?!\()")
_CHANGED = re.compile(r"\b(insert into|update|delete from) runnerq\.(\w+)")
_REPLACED = re.compile(r"insert into runnerq\.(\w+)((?:(?!insert into).)*?)do update", re.DOTALL)
_LOCKED = re.compile(
    r"from runnerq\.(\w+)((?:(?!\bselect\b).)*?)\bfor (?:no key update|update|key share|share)\b", re.DOTALL
)
_RIGHTS = {"insert into": "insert", "update": "update", "delete from": "delete"}


@cache
def needed() -> tuple[tuple[str, str], ...]:
    """Each table with a right that is needed on it: a role with these, and ``usage`` of the schema, may do everything
    but migrate."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    found["migration"].add("select")
    for table, right in _all(_COMMENT.sub("", file.read_text("utf-8")) for file in sorted(_SQL.glob("*.sql"))):
        found[table].add(right)
    return tuple((table, right) for table in sorted(found) for right in sorted(found[table]))


def _all(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in texts:
        yield from ((table, "select") for table in _MENTIONED.findall(text))
        yield from ((table, _RIGHTS[verb]) for verb, table in _CHANGED.findall(text))
        # A row that is to be replaced, or is locked, takes the right to change it.
        yield from ((table, "update") for table, _ in (*_REPLACED.findall(text), *_LOCKED.findall(text)))
