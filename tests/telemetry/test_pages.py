"""The pages about telemetry say what the code does."""

from __future__ import annotations

from tools import telemetry_tables


def test_the_tables_of_events_and_metrics_are_current() -> None:
    kept = telemetry_tables.PAGE.read_text(encoding="utf-8")
    assert kept == telemetry_tables.page(), "run `python -m tools.telemetry_tables`"
