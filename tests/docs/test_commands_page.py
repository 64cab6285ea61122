"""The reference of the command line is as the commands are now."""

from __future__ import annotations

from runnerq.cli import main
from tools import commands


def test_the_page_of_commands_is_as_committed() -> None:
    kept = commands.KEPT.read_text(encoding="utf-8")
    assert kept == commands.page(), "docs/reference/commands.md is another one now: run `python -m tools.commands`"


def test_every_command_is_on_it() -> None:
    page = commands.page()
    for name in main.commands:
        assert f"\n### {name}" in page
