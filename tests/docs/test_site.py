"""The site is built without a warning: every page is in the menu, every link and anchor leads somewhere.

Without the colours of code and the index of the search, which take two thirds of the time and warn of nothing.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # what mkdocs reads its own with; it has no types

from tests.architecture.source import ROOT

SETTINGS = ROOT / "mkdocs.yml"


def test_the_site_is_built_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("mkdocs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    extensions = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))["markdown_extensions"]
    plain = [extension for extension in extensions if "codehilite" not in extension]
    config = load_config(str(SETTINGS), site_dir=str(tmp_path), strict=False, plugins=[], markdown_extensions=plain)
    with caplog.at_level(logging.WARNING, logger="mkdocs"):
        build(config)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("mkdocs")] == []
    assert (tmp_path / "index.html").exists()
