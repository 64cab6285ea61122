"""The site asks nobody else for anything: no font, no script, no picture from another address."""

from __future__ import annotations

import re

from tests.architecture.source import ROOT

THEME = ROOT / "tools" / "docs_theme"
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/2000/svg)|(?:src|href|url\()[=\"' (]*//|@import")


def test_the_theme_loads_nothing_from_elsewhere() -> None:
    files = [file for file in THEME.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".css", ".html", ".js", ".svg"}
    assert [file.name for file in files if ELSEWHERE.search(file.read_text(encoding="utf-8"))] == []


def test_pages_show_no_picture_from_elsewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = re.compile(r"!\[[^\]]*\]\(\s*(?:https?:)?//|<(?:img|script|iframe|link)\b")
    assert [page.name for page in pages if shown.search(page.read_text(encoding="utf-8"))] == []
