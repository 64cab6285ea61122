"""What a caller gives with a start is checked the same way everywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from runnerq.errors import ConfigurationError, UsageError
from runnerq.workflow.given import (
    FARTHEST,
    MOST_KEY,
    MOST_LIMIT_KEY,
    MOST_METADATA,
    asked_limit,
    check_due,
    checked_key,
    checked_limit,
    checked_metadata,
    checked_time,
    together,
)
from runnerq.workflow.options import Limit


@pytest.mark.parametrize("key", ["order-42", "a:b", "schlüssel", "k" * 1024, "ü" * (MOST_KEY // 2)])
def test_a_key_is_any_text(key: str) -> None:
    assert checked_key(key) == key


@pytest.mark.parametrize("key", ["", None, 7, "nul\0", "lone \ud800", "ü" * (MOST_KEY // 2 + 1)])
def test_what_can_be_no_key_is_a_value_error(key: Any) -> None:
    with pytest.raises(ValueError, match="idempotency key"):
        checked_key(key)


def test_metadata_is_text_by_name() -> None:
    assert checked_metadata({"customer": "7"}) == {"customer": "7"}


@pytest.mark.parametrize(
    "metadata",
    [{"n": 1}, [("n", "1")], {1: "n"}, {"nul\0": "x"}, {"x": "lone \udfff"}, {"x": "y" * (MOST_METADATA + 1)}],
)
def test_other_metadata_is_refused(metadata: Any) -> None:
    with pytest.raises(ConfigurationError, match="metadata"):
        checked_metadata(metadata)


def test_the_metadata_of_a_run_is_what_is_declared_with_what_is_given_on_top() -> None:
    assert together({"team": "shop", "tier": "one"}, {"tier": "two"}) == {"team": "shop", "tier": "two"}
    assert together(None, None) == {}


def test_a_run_is_due_at_a_time_or_after_a_delay_and_not_both() -> None:
    check_due(FARTHEST, None)
    check_due(None, 1.0)
    with pytest.raises(ConfigurationError, match="both say when"):
        check_due(FARTHEST, 1.0)


def test_a_time_comes_back_in_utc() -> None:
    at = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert checked_time(at) == datetime(2030, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "at",
    [
        datetime(2030, 1, 1),  # noqa: DTZ001 - the missing zone is what is tested
        FARTHEST + timedelta(days=1),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))),
    ],
)
def test_a_time_without_a_zone_or_too_far_off_is_refused(at: datetime) -> None:
    with pytest.raises(ConfigurationError, match="at="):
        checked_time(at)


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="give a datetime"):
        checked_time("tomorrow")


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ("stripe", Limit("stripe")),
        (Limit("stripe"), Limit("stripe")),
        (("customer", "7"), Limit("customer", "7")),
        (Limit("customer", "7"), Limit("customer", "7")),
        (("customer", "ü" * (MOST_LIMIT_KEY // 2)), Limit("customer", "ü" * (MOST_LIMIT_KEY // 2))),
    ],
)
def test_a_limit_is_a_scope_or_a_scope_and_a_key(given: object, limit: Limit) -> None:
    assert checked_limit(given) == asked_limit(given) == limit


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "expected a scope"),
        (("customer", "7", "8"), "expected a scope"),
        ("", "scope"),
        (("customer", 7), "write str"),
        (("customer", ""), "non-empty"),
        (("customer", "a\0b"), "NUL"),
        (("customer", "\ud800"), "surrogates"),
        (("customer", "k" * (MOST_LIMIT_KEY + 1)), "give a hash"),
    ],
)
def test_what_is_no_limit_is_refused_and_in_a_workflow_a_fault_of_the_code(given: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        checked_limit(given)
    with pytest.raises(UsageError, match=said):
        asked_limit(given)
