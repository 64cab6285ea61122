"""When ticks come: across changes of the clock in several zones, and whatever is written as an expression."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import islice, takewhile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnerq.cron import Cron, Every, zone_of
from runnerq.errors import ConfigurationError

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def first(expression: str, zone: str, after: str, count: int) -> list[str]:
    """The next ticks, in UTC, without the year."""
    return [tick.strftime("%m-%d %H:%M") for tick in islice(Cron(expression, zone).ticks(at(after)), count)]


# The clocks jump from 2:00 to 3:00 in Berlin and New York, and from 2:00 to 2:30 on Lord Howe.
@pytest.mark.parametrize(
    ("expression", "zone", "after", "ticks"),
    [
        ("30 2 * * *", BERLIN, "2025-03-29 12:00", ["03-30 01:00", "03-31 00:30", "04-01 00:30"]),
        ("30 1 * * *", BERLIN, "2025-03-29 12:00", ["03-30 00:30", "03-30 23:30"]),
        ("0,30 2,3 * * *", BERLIN, "2025-03-29 12:00", ["03-30 01:00", "03-30 01:30", "03-31 00:00", "03-31 00:30"]),
        ("*/30 1-3 * * *", BERLIN, "2025-03-29 12:00", ["03-30 00:00", "03-30 00:30", "03-30 01:00", "03-30 01:30"]),
        ("0 * * * *", BERLIN, "2025-03-29 23:30", ["03-30 00:00", "03-30 01:00", "03-30 02:00"]),
        ("30 2 * * *", NEW_YORK, "2025-03-08 12:00", ["03-09 07:00", "03-10 06:30"]),
        ("30 1,2 * * *", NEW_YORK, "2025-03-08 12:00", ["03-09 06:30", "03-09 07:00", "03-10 05:30", "03-10 06:30"]),
        ("*/30 * * * *", NEW_YORK, "2025-03-09 06:30", ["03-09 07:00", "03-09 07:30", "03-09 08:00"]),
        ("15 2 * * *", LORD_HOWE, "2025-10-04 02:00", ["10-04 15:30", "10-05 15:15"]),
        ("45 2 * * *", LORD_HOWE, "2025-10-04 02:00", ["10-04 15:45", "10-05 15:45"]),
    ],
)
def test_a_local_time_that_the_clock_jumps_over_comes_when_it_has_jumped(
    expression: str, zone: str, after: str, ticks: list[str]
) -> None:
    assert first(expression, zone, after, len(ticks)) == ticks


# The clocks go back from 3:00 to 2:00 in Berlin, from 2:00 to 1:00 in New York, from 2:00 to 1:30 on Lord Howe.
@pytest.mark.parametrize(
    ("expression", "zone", "after", "ticks"),
    [
        ("30 2 * * *", BERLIN, "2025-10-25 12:00", ["10-26 00:30", "10-27 01:30"]),
        ("0 2,3 * * *", BERLIN, "2025-10-25 12:00", ["10-26 00:00", "10-26 02:00", "10-27 01:00", "10-27 02:00"]),
        ("*/30 2 * * *", BERLIN, "2025-10-25 12:00", ["10-26 00:00", "10-26 00:30", "10-26 01:00", "10-26 01:30"]),
        ("0 * * * *", BERLIN, "2025-10-25 23:30", ["10-26 00:00", "10-26 01:00", "10-26 02:00"]),
        ("45 1 * * *", NEW_YORK, "2025-11-01 12:00", ["11-02 05:45", "11-03 06:45"]),
        ("30 1,2 * * *", NEW_YORK, "2025-11-01 12:00", ["11-02 05:30", "11-02 07:30", "11-03 06:30"]),
        ("*/30 1 * * *", NEW_YORK, "2025-11-01 12:00", ["11-02 05:00", "11-02 05:30", "11-02 06:00", "11-02 06:30"]),
        ("45 1 * * *", LORD_HOWE, "2025-04-05 02:00", ["04-05 14:45", "04-06 15:15"]),
        ("0 2 * * *", LORD_HOWE, "2025-04-05 02:00", ["04-05 15:30", "04-06 15:30"]),
    ],
)
def test_a_local_time_that_the_clock_shows_twice_comes_the_first_time(
    expression: str, zone: str, after: str, ticks: list[str]
) -> None:
    assert first(expression, zone, after, len(ticks)) == ticks


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        (BERLIN, "2025-03-29"),
        (BERLIN, "2025-10-25"),
        (NEW_YORK, "2025-03-08"),
        (NEW_YORK, "2025-11-01"),
        (LORD_HOWE, "2025-04-05"),
        (LORD_HOWE, "2025-10-04"),
        ("Africa/Cairo", "2025-04-24"),
    ],
)
def test_the_ticks_do_not_depend_on_where_one_begins_to_look(zone: str, day: str) -> None:
    begin = at(day)
    for expression in ("30 2 * * *", "45 1,2 * * *", "0,15,30 0-3 * * *", "*/40 * * * *", "5 0 * * *"):
        cron = Cron(expression, zone)
        ticks = list(takewhile(lambda tick: tick < begin + timedelta(days=3), cron.ticks(begin)))
        for minutes in range(600, 36 * 60, 35):
            moment = begin + timedelta(minutes=minutes)
            assert cron.next(moment) == next(tick for tick in ticks if tick > moment)
            assert cron.last(begin, moment) == max((tick for tick in ticks if tick <= moment), default=None)


@pytest.mark.parametrize(
    ("expression", "after", "ticks"),
    [
        # Both fields begin with no star, so that one of them is enough; else both have to fit.
        ("0 0 13 * 5", "2026-02-01 00:00", ["02-06 00:00", "02-13 00:00", "02-20 00:00", "02-27 00:00"]),
        ("0 0 */13 * 5", "2026-02-02 00:00", ["02-27 00:00", "03-27 00:00"]),
        ("0 0 * * 5", "2026-02-01 00:00", ["02-06 00:00", "02-13 00:00"]),
        ("0 0 29 2 *", "2025-01-01 00:00", ["02-29 00:00", "02-29 00:00"]),
        ("0 0 L * *", "2026-01-31 00:00", ["02-28 00:00", "03-31 00:00"]),
        ("0 0 * * SUN#2", "2026-02-01 00:00", ["02-08 00:00", "03-08 00:00"]),
        ("0 0 * * 0,7", "2026-02-01 00:00", ["02-08 00:00", "02-15 00:00"]),
    ],
)
def test_days_are_those_of_debians_cron(expression: str, after: str, ticks: list[str]) -> None:
    assert first(expression, "UTC", after, len(ticks)) == ticks


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("61 * * * *", "'61' is no minute"),
        ("* 24 * * *", "'24' is no hour"),
        ("* * 0 * *", "'0' is no day-of-month"),
        ("* * 1-32 * *", "'1-32' is no day-of-month"),
        ("* * * 13 *", "'13' is no month"),
        ("* * * * 8", "'8' is no day-of-week"),
        ("*/0 * * * *", "'\\*/0' is no minute"),
        ("5-1 * * * *", "'5-1' is no minute"),
        ("0 0 * * MON-SUN", "MON to SUN is 1-7: a range goes up"),
        ("\N{SUPERSCRIPT TWO} * * * *", "is no minute"),
        ("0 0 31 2 *", "'31' is no day-of-month"),
        ("0 0 */31 2 MON#5", "never comes"),
        ("* * * *", "has 4 fields"),
        ("0 * * * * *", "has 6 fields, .* every= is for intervals"),
        ("@daily", "has 1 field,"),
        ("", "has 0 fields"),
        ("* " * 600, "1,200 characters, and 1,024"),
        (None, "expected a str"),
    ],
)
def test_an_expression_that_is_none_is_told_with_the_field(expression: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Cron(expression)


@pytest.mark.parametrize(
    "zone",
    [
        "Mars/Base", "../etc/passwd", "/etc/passwd", "Europe", "localtime", "", "a" * 500, "x\0", 7, None, ["UTC"],
        "europe/berlin", "right/UTC", "posix/UTC", "zone.tab", "__init__.py", "./UTC", "Europe//Berlin",
    ],
)  # fmt: skip
def test_a_zone_is_one_of_the_tz_database(zone: str) -> None:
    with pytest.raises(ConfigurationError, match="no time zone"):
        zone_of(zone)


def test_a_zone_is_the_same_whatever_the_machine_knows_of_it(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    ours = resources.files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    (tmp_path / "Europe" / "Paris").write_bytes(ours)
    zoneinfo.reset_tzpath([tmp_path])
    try:
        zoneinfo.ZoneInfo.clear_cache()
        assert zoneinfo.ZoneInfo("Europe/Paris").utcoffset(at("2025-01-01 00:00")) == timedelta(hours=9)
        assert zone_of("Europe/Paris").utcoffset(at("2025-01-01 00:00")) == timedelta(hours=1)
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache()


FIELD = st.text("0123456789*/,-#L ", max_size=12)
LONG = st.text("0123456789*/,-", min_size=100, max_size=200)


@settings(max_examples=100)
@given(st.tuples(*[FIELD | LONG | st.just("*")] * 5).map(" ".join), st.sampled_from(["UTC", BERLIN, LORD_HOWE]))
def test_whatever_is_written_is_refused_or_ticks_on(expression: str, zone: str) -> None:
    try:
        cron = Cron(expression, zone)
    except ConfigurationError:
        return
    begin = at("2025-03-28 00:00")
    ticks = list(islice(cron.ticks(begin), 3))
    assert ticks == sorted(set(ticks))
    assert all(tick > begin and tick.second == 0 for tick in ticks)
    assert cron.words()


def test_the_last_tick_of_years_of_minutes_is_found_without_going_through_them() -> None:
    cron = Cron("* * * * *", BERLIN)
    assert cron.last(at("1990-01-01 00:00"), at("2026-11-30 12:00") + timedelta(seconds=59)) == at("2026-11-30 12:00")


class TestEvery:
    def test_ticks_are_counted_from_a_time_without_drift(self) -> None:
        since = at("2026-01-01 00:00") + timedelta(microseconds=123)
        every = Every(0.1, since)
        ticks = list(islice(every.ticks(since), 100_000))
        assert ticks[0] == since + timedelta(milliseconds=100)
        assert ticks[-1] == since + timedelta(seconds=10_000)

    def test_the_next_and_the_last_are_those_around_a_moment(self) -> None:
        since = at("2026-01-01 00:00")
        every = Every(3600, since)
        assert every.next(since) == since + timedelta(hours=1)
        assert every.next(since + timedelta(minutes=59)) == since + timedelta(hours=1)
        assert every.last(since, since + timedelta(hours=5)) == since + timedelta(hours=5)
        assert every.last(since, since + timedelta(minutes=59)) is None
        assert every.next(since - timedelta(minutes=90)) == since - timedelta(hours=1)

    def test_an_interval_across_a_change_of_the_clock_is_as_long_as_ever(self) -> None:
        since = at("2025-03-30 00:00")
        assert list(islice(Every(3600, since).ticks(since), 2)) == [at("2025-03-30 01:00"), at("2025-03-30 02:00")]
