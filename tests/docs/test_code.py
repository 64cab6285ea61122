"""Every block of code on every page is checked: Python by mypy, excerpts by their files, the rest by a parser.

What a block is, and how a comment says so, is in ``tests/docs/pages.py``.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # what mkdocs reads its own with; it has no types

from tests.architecture.source import ROOT
from tests.docs.pages import (
    MARKS,
    all_pages,
    blocks_of,
    modules_of,
    name_of,
    python_blocks,
    sentences_of,
)

PAGES = all_pages()
PYTHON = [block for page in PAGES for block in python_blocks(page)]
EXCERPTS = [block for block in PYTHON if block.mark.startswith("from ")]
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
PARSERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}


def test_every_mark_of_a_block_is_one_that_there_is() -> None:
    known = {"", "given", *MARKS}
    assert [block.where for block in PYTHON if block.mark not in known and block not in EXCERPTS] == []
    others = [block for page in PAGES for block in blocks_of(page) if block not in PYTHON]
    assert [block.where for block in others if block.mark] == []


def test_the_python_of_all_pages_is_type_checked(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    pages = {}
    for page in PAGES:
        for file, text in modules_of(page).items():
            (tmp_path / file).write_text(text, encoding="utf-8")
            pages[file] = name_of(page)
    files = [str(tmp_path / file) for file in pages]
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    told = re.sub(r"^\S*/(\w+\.py)", lambda file: pages.get(file[1], file[0]), done.stdout, flags=re.MULTILINE)
    assert done.returncode == 0, told + done.stderr


def test_what_is_only_shown_is_python_nevertheless() -> None:
    for block in PYTHON:
        if block.mark in {"not ours", "run"}:
            ast.parse(block.text, filename=block.where)


def test_an_excerpt_stands_in_its_file_word_for_word() -> None:
    def lines(text: str) -> str:
        return "\n".join(line.strip() for line in text.splitlines() if line.strip())

    missing = [
        block.where
        for block in EXCERPTS
        if lines(block.text) not in lines((ROOT / block.mark.removeprefix("from ")).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_json_toml_and_yaml_can_be_read() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            if block.language in PARSERS:
                try:
                    PARSERS[block.language](block.text)
                except (ValueError, yaml.YAMLError) as error:
                    pytest.fail(f"{block.where}: {error}")


def test_links_between_pages_and_to_files_lead_somewhere() -> None:
    broken = [
        f"{name_of(page)}: {link}"
        for page in PAGES
        for link in LINK.findall(sentences_of(page))
        if not (page.parent / link).exists()
    ]
    assert broken == []
