"""The reference is complete, and as the code is now."""

from __future__ import annotations

import re
from collections import Counter

import runnerq
import runnerq.console
import runnerq.telemetry
import runnerq.testing
from runnerq import errors
from tests.architecture.source import ROOT
from tools import reference, schema_tables
from tools.schema_words import BESIDES, TABLES

PUBLIC = [
    *(name for name in runnerq.__all__ if name not in vars(errors)),
    *runnerq.testing.__all__,
    *runnerq.console.__all__,
]


def test_every_public_name_is_on_one_page() -> None:
    shown = Counter(
        name for page in reference.PAGES.values() for name in page.names if page.package is not runnerq.telemetry
    )
    assert shown == Counter(PUBLIC), "a public name is to be added to PAGES of tools/reference.py, or taken away"


def test_the_pages_are_as_committed() -> None:
    for file, text in reference.pages().items():
        kept = (reference.FOLDER / file).read_text(encoding="utf-8")
        assert kept == text, f"docs/reference/{file} is another one now: run `python -m tools.reference`"


def test_what_stands_in_the_list_of_hidden_things_is_there() -> None:
    for name, hidden in reference.NOT_FOR_USERS.items():
        cls = next(getattr(page.home(name), name) for page in reference.PAGES.values() if name in page.names)
        assert [member for member in hidden if member not in dir(cls)] == []


def test_attributes_that_are_described_by_hand_are_there() -> None:
    for name, rows in reference.ATTRIBUTES.items():
        slots = getattr(runnerq, name).__slots__
        assert [row for row, _ in rows if row.strip("`").partition(":")[0] not in slots] == []


def test_links_within_the_reference_lead_to_a_heading() -> None:
    headings = {
        f"{page.name}#{re.sub(r'[^a-z0-9_-]', '', heading.lower())}"
        for page in [*reference.FOLDER.glob("*.md"), ROOT / "docs" / "errors.md"]
        for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    linked = {
        link.removeprefix("../")
        for text in reference.pages().values()
        for link in re.findall(r"\]\(([\w./-]+\.md#[\w-]+)\)", text)
    }
    assert linked
    assert sorted(linked - headings) == []


async def test_the_tables_are_as_a_migrated_database_has_them(database: str) -> None:
    async with runnerq.connect(database):
        text = await schema_tables.page(database)
    assert schema_tables.PAGE.read_text(encoding="utf-8") == text, "run `python -m tools.schema_tables`"
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) >= set(TABLES) | {table for table, _ in BESIDES}
