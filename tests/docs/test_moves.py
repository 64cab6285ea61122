"""The moves of docs/coming-from end in code that does what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runnerq.testing import Environment
from tests.architecture.source import ROOT
from tests.architecture.test_concepts import module_of

PAGES = ROOT / "docs" / "coming-from"


@pytest.mark.parametrize(
    ("page", "signal", "result"),
    [
        ("celery", None, "parcel for 42"),
        ("celery", ("returned", True), "parcel for 42"),
        ("dbos", ("approval", True), "parcel for 42"),
        ("dbos", None, "refused"),
        ("temporal", ("approval", True), "parcel for 42"),
        ("temporal", ("approval", False), "refused"),
        ("runnerq-go", ("approval", True), "parcel for 42"),
        ("runnerq-go", None, "refused"),
    ],
)
async def test_a_move_ends_in_a_workflow_that_ships_or_refuses(
    page: str, signal: tuple[str, Any] | None, result: str, tmp_path: Path
) -> None:
    module = module_of(PAGES / f"{page}.md", tmp_path)
    async with Environment(workflows=[module.checkout], activities=[module.ship]) as env:
        run = await env.start(module.checkout, "42")
        if signal is not None:
            await run.send(*signal)
        assert await run.result() == result
        names = [entry.name for entry in await run.history()]
        assert ("ask_for_review" in names) == (page == "celery" and signal is None)


async def test_what_waits_for_a_published_state_and_sends_then_ends_as_shipped(tmp_path: Path) -> None:
    module = module_of(PAGES / "temporal.md", tmp_path)
    async with Environment(workflows=[module.checkout]) as env:
        assert await module.approve(env, "42") == "parcel for 42"


def test_every_page_has_a_table_of_equivalents_and_a_move() -> None:
    for page in PAGES.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert [
            part for part in ("## Table of equivalents", "Before:", "After:", "## Step by step") if part not in text
        ] == []
