"""The scripts of our own, as files: what they do is seen in a browser (tests/browser)."""

from __future__ import annotations

import re

from runnerq.console.web.rendering import TEMPLATES

STATIC = TEMPLATES.parent / "static"
OURS = ("live.js", "ui.js")


def test_our_scripts_are_six_kilobytes_in_all() -> None:
    assert {each.name for each in STATIC.glob("*.js")} == {*OURS, "htmx.min.js"}
    assert sum((STATIC / name).stat().st_size for name in OURS) <= 6 * 1024


def test_our_scripts_make_no_markup_of_text_run_no_text_and_keep_nothing() -> None:
    for name in OURS:
        text = (STATIC / name).read_text()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|Storage\b|\.style\b", text
        )


def test_no_template_has_a_style_a_script_or_a_handler_inline_or_lets_markup_through() -> None:
    for template in TEMPLATES.iterdir():
        text = template.read_text()
        assert not re.search(r"\sstyle=|<style|<script(?! src=)|\son[a-z]+=|\|\s*safe\b|autoescape", text), (
            template.name
        )
