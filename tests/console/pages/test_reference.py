"""The reference of the API, as a page."""

from __future__ import annotations

from runnerq.console.api.table import OPERATIONS
from runnerq.console.pages.reference import groups
from tests.console.browsing import Browser


async def test_every_operation_stands_on_the_page_with_what_it_takes(browser: Browser) -> None:
    answer = await browser.get("/api")

    assert answer.status_code == 200
    for operation in OPERATIONS:
        assert f'id="{operation.name}"' in answer.text
    assert "<script>" not in answer.text
    assert 'href="/api/v1/openapi.json"' in answer.text


def test_runs_come_first_and_a_start_needs_its_workflow() -> None:
    first = groups()[0]
    [start] = [operation for operation in first.operations if operation.name == "start_run"]

    assert first.name == "Runs"
    assert [(field.name, field.type) for field in start.takes if field.needed] == [("workflow", "text")]
    assert ("at", "time or null") in [(field.name, field.type) for field in start.takes]
    assert start.answer == "Started"
