from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnerq.console.models.filters import BadFields, RunQuery, parse_leniently, parse_query
from runnerq.console.models.paging import BadCursor, Cursors, Place
from runnerq.persistence.records import Status

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUN = "01a22d36-feaa-7782-aafd-0627fea8ca7f"

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20).filter(
    lambda text: text == text.strip()
)
queries = st.builds(
    RunQuery,
    status=st.lists(st.sampled_from(Status), unique=True, max_size=3).map(tuple),
    workflow=st.none() | words,
    queue=st.none() | words,
    q=st.none() | words,
    meta=st.lists(st.tuples(words.filter(lambda name: "=" not in name), words), unique=True, max_size=2).map(tuple),
    error=st.none() | words,
    since=st.sampled_from([None, "2h", "30m", "2026-11-30T10:00"]),
    version=st.none() | st.integers(1, 1000),
    roots=st.booleans(),
    parent=st.sampled_from([None, RUN]),
    limit=st.integers(1, 200),
    sort=st.sampled_from(["newest", "oldest"]),
)


@settings(max_examples=40)
@given(queries)
def test_a_query_is_read_back_from_the_parameters_that_it_is_written_as(query: RunQuery) -> None:
    assert parse_query(query.to_params()) == query


@settings(max_examples=40)
@given(queries)
def test_without_any_of_its_conditions_a_query_has_one_fewer(query: RunQuery) -> None:
    for chip in query.chips():
        assert len(chip.rest.chips()) == len(query.chips()) - 1


def test_each_parameter_that_cannot_be_read_has_its_error_and_the_rest_is_read() -> None:
    query, errors = parse_leniently(
        [("status", "lost"), ("since", "soon"), ("version", "0"), ("parent", "x"), ("meta", "a"), ("colour", "red"),
         ("limit", "500"), ("error", "y" * 201), ("fingerprint", "z"), ("queue", "mail")]
    )  # fmt: skip
    assert query == RunQuery(queue="mail")
    assert set(errors) == {
        "status", "since", "version", "parent", "meta", "colour", "limit", "error", "fingerprint",
    }  # fmt: skip


def test_a_time_without_a_zone_is_meant_in_the_zone_of_whoever_looks() -> None:
    where = RunQuery(since="2026-11-30T10:00", until="2h").to_filter(NOW, "Europe/Berlin")
    assert where.since == datetime(2026, 11, 30, 9, tzinfo=UTC)
    assert where.until == NOW - timedelta(hours=2)


def test_a_time_that_there_is_not_is_an_error_of_its_field() -> None:
    with pytest.raises(BadFields) as refused:
        RunQuery(ended_since="999999w").to_filter(NOW)
    assert set(refused.value.errors) == {"ended_since"}


@pytest.mark.parametrize(
    ("q", "by_id", "by_key"),
    [("01a22d36", "01a22d36", None), ("01A22D36-FEAA-7", "01a22d36feaa7", None), ("order-7", None, "order-7"),
     ("7f9c2e11-aaaa", None, "7f9c2e11-aaaa"), ("42", None, "42")],
)  # fmt: skip
def test_one_box_looks_for_the_beginning_of_an_id_or_of_a_key(q: str, by_id: str | None, by_key: str | None) -> None:
    where = RunQuery(q=q).to_filter(NOW)
    assert (where.id_prefix, where.key_prefix) == (by_id, by_key)


def test_a_cursor_is_good_for_its_own_listing_alone() -> None:
    cursors = Cursors()
    place = Place("after", RUN)
    cursor = cursors.sign(RunQuery(queue="mail").listing, place)
    assert cursors.read(RunQuery(queue="mail", limit=7, cursor=cursor).listing, cursor) == place
    for listing, used in ((RunQuery(queue="sms").listing, cursor), (RunQuery(queue="mail").listing, cursor[:-1] + "A")):
        with pytest.raises(BadCursor):
            cursors.read(listing, used)
    with pytest.raises(BadCursor):
        Cursors().read(RunQuery(queue="mail").listing, cursor)


@settings(max_examples=40)
@given(st.text(max_size=60))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        Cursors(b"secret").read("runs", text)
