"""The statements of sql/, one a file, with the configured schema put in for ``runnerq.``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from runnerq.errors import ConfigurationError

_HERE = Path(__file__).parent
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_QUALIFIED = re.compile(r"\brunnerq\.")
_WAY = re.compile(r"^-- \[way ([a-z ]+)\n(.*?)^-- way\]\n", re.MULTILINE | re.DOTALL)
_TURNS = "-- [turns]"
_PART = re.compile(r"^-- \[part (\w+)\n(.*?)^-- part\]\n", re.MULTILINE | re.DOTALL)
_AS_IN = re.compile(r"^-- \[as in (\w+): (\w+)\]\n", re.MULTILINE)
_MORE = re.compile(r"^-- \[more\n.*?^-- more\]\n", re.MULTILINE | re.DOTALL)


def checked_schema(schema: str) -> str:
    """The name, if it may be a schema's: it is put into SQL text and into the name of a NOTIFY channel."""
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigurationError(
            f"schema {schema!r} cannot be used: a schema name has 1 to 48 characters of a-z, 0-9 and _, does not begin "
            "with a digit and not with 'pg_'"
        )
    return schema


def with_schema(text: str, schema: str) -> str:
    """The SQL text for a schema; quoted, because a reserved word may be a schema's name."""
    return _QUALIFIED.sub(f'"{schema}".', text)


class Statements:
    """``statements["claim_runs"]`` is the text of sql/claim_runs.sql for one schema.

    What must be the same in two of them stands in one, marked as a ``part``; the other has it ``as in`` there.
    ``commit_plain`` is commit.sql without what it marks as ``more``, and so for all that mark something.
    ``list_runs_open`` is list_runs.sql with what it marks as on the way ``open``, and without its other ways;
    ``list_runs_open_turned`` is the same in the other order.
    """

    def __init__(self, schema: str) -> None:
        self._texts = _statements(schema)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]


@cache
def _statements(schema: str) -> dict[str, str]:
    texts = {file.stem: file.read_text("utf-8") for file in sorted((_HERE / "sql").glob("*.sql"))}
    parts = {(name, found[1]): found[2] for name, text in texts.items() for found in _PART.finditer(text)}
    texts = {name: _AS_IN.sub(lambda found: parts[found[1], found[2]], text) for name, text in texts.items()}
    texts |= {f"{name}_plain": _MORE.sub("", text) for name, text in texts.items() if _MORE.search(text)}
    texts |= {f"{name}_{way}": _on(way, text) for name, text in texts.items() for way in _ways(text)}
    texts |= {f"{name}_turned": _turned(text) for name, text in texts.items() if _TURNS in text}
    return {name: with_schema(text, schema) for name, text in texts.items()}


def _ways(text: str) -> set[str]:
    return {way for found in _WAY.finditer(text) for way in found[1].split()}


def _on(way: str, text: str) -> str:
    """The text with this way alone."""
    return _WAY.sub(lambda found: found[2] if way in found[1].split() else "", text)


def _turned(text: str) -> str:
    """The text that reads in ascending order what this one reads in descending order, behind its cursor ``$2``."""
    return text.replace(" desc\n", "\n").replace(" desc ", " ").replace("< $2::uuid", "> $2::uuid")


def migrations() -> dict[int, Path]:
    """The migration files by number, in order."""
    files = sorted((_HERE / "migrations").glob("[0-9]*.sql"))
    return {int(file.name.partition("_")[0]): file for file in files}
