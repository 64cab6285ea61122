from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq.errors import ConfigurationError, NonRetryableError, RetryableError
from runnerq.retry import GiveUp, Retry, RetryPolicy, seconds

CENTRE = 0.5
"""The random number that leaves a delay as it is."""


class Declined(Exception):
    class Fraud(Exception):
        pass


class SoftDeclined(Declined):
    pass


def delays(policy: RetryPolicy, attempts: int) -> list[float]:
    decisions = [policy.decide(ValueError(), n, jitter=CENTRE) for n in range(1, attempts + 1)]
    return [decision.after for decision in decisions if isinstance(decision, Retry)]


def test_delays_double_from_one_second_and_stop_with_the_attempts():
    policy = RetryPolicy()
    assert policy.decide(ValueError(), 1, jitter=CENTRE) == Retry(1.0)
    assert policy.decide(ValueError(), 2, jitter=CENTRE) == Retry(2.0)
    assert policy.decide(ValueError(), 3, jitter=CENTRE) == GiveUp("exhausted")


def test_delays_stay_under_the_cap_and_sub_second_ones_work():
    policy = RetryPolicy(max_attempts=10, base=0.01, factor=10, cap=timedelta(seconds=5))
    assert delays(policy, 6) == [0.01, 0.1, 1.0, 5.0, 5.0, 5.0]


def test_no_attempts_means_no_end_and_the_delay_never_overflows():
    policy = RetryPolicy(max_attempts=0)
    assert policy.decide(ValueError(), 10**6, jitter=CENTRE) == Retry(3600.0)


def test_a_base_of_nothing_never_waits():
    policy = RetryPolicy(max_attempts=0, base=0)
    assert delays(policy, 3) == [0.0, 0.0, 0.0]
    assert policy.decide(ValueError(), 10**6, jitter=CENTRE) == Retry(0.0)


def test_jitter_is_a_fraction_of_the_delay_to_either_side():
    policy = RetryPolicy(base=10, jitter=0.2)
    assert policy.decide(ValueError(), 1, jitter=0.0) == Retry(8.0)
    assert policy.decide(ValueError(), 1, jitter=CENTRE) == Retry(10.0)
    latest = policy.decide(ValueError(), 1, jitter=math.nextafter(1, 0))
    assert isinstance(latest, Retry)
    assert latest.after == pytest.approx(12.0)


@pytest.mark.parametrize(
    "exc", [NonRetryableError("no"), SystemExit(1), GeneratorExit(), StopIteration(), StopAsyncIteration()]
)
def test_what_time_does_not_heal_is_not_tried_again(exc):
    policy = RetryPolicy(max_attempts=0, retry_on=[BaseException])
    assert policy.decide(exc, 1, jitter=CENTRE) == GiveUp("not_retryable")


def test_the_exception_can_set_the_delay_exactly():
    policy = RetryPolicy(cap=10)
    assert policy.decide(RetryableError(after=30), 1, jitter=0.0) == Retry(30.0)
    assert policy.decide(RetryableError(after=timedelta(minutes=1)), 1, jitter=0.9) == Retry(60.0)
    assert policy.decide(RetryableError(after=0), 1, jitter=0.9) == Retry(0.0)
    assert policy.decide(RetryableError(), 1, jitter=CENTRE) == Retry(1.0)


def test_a_retryable_error_is_tried_again_whatever_the_classes_but_not_for_ever():
    policy = RetryPolicy(max_attempts=2, give_up_on=[RetryableError])
    assert policy.decide(RetryableError(after=3), 1, jitter=CENTRE) == Retry(3.0)
    assert policy.decide(RetryableError(after=3), 2, jitter=CENTRE) == GiveUp("exhausted")


@pytest.mark.parametrize("after", [-1, math.nan, math.inf, "soon", 10**400])
def test_a_delay_that_makes_no_sense_leaves_the_policys_own(after):
    assert RetryPolicy().decide(RetryableError(after=after), 1, jitter=CENTRE) == Retry(1.0)


def test_classes_are_matched_along_the_exceptions_ancestors():
    policy = RetryPolicy(retry_on=[Declined, OSError])
    assert isinstance(policy.decide(SoftDeclined(), 1, jitter=CENTRE), Retry)
    assert isinstance(policy.decide(ConnectionResetError(), 1, jitter=CENTRE), Retry)
    assert policy.decide(ValueError(), 1, jitter=CENTRE) == GiveUp("not_retryable")
    assert policy.decide(Declined.Fraud(), 1, jitter=CENTRE) == GiveUp("not_retryable")


def test_giving_up_on_a_class_beats_retrying_on_its_base():
    policy = RetryPolicy(retry_on=Exception, give_up_on=SoftDeclined)
    assert isinstance(policy.decide(Declined(), 1, jitter=CENTRE), Retry)
    assert policy.decide(SoftDeclined(), 1, jitter=CENTRE) == GiveUp("not_retryable")


def test_classes_can_be_given_by_qualified_name_and_built_in_ones_by_their_name():
    by_class = RetryPolicy(retry_on=(Declined.Fraud, ValueError))
    by_name = RetryPolicy(retry_on=(f"{__name__}.Declined.Fraud", "ValueError"))
    assert by_class == by_name
    assert by_name.retry_on == (f"{__name__}.Declined.Fraud", "builtins.ValueError")
    assert hash(by_class) == hash(by_name)


def test_an_option_means_a_policy():
    policy = RetryPolicy(base=5)
    assert RetryPolicy.of(policy) is policy
    assert RetryPolicy.of(2) == RetryPolicy(max_attempts=2)
    assert RetryPolicy.of(None) == RetryPolicy()


@pytest.mark.parametrize("value", [-1, True, 2.5, "3"])
def test_an_option_that_is_no_policy_is_refused(value):
    with pytest.raises(ConfigurationError, match="max_attempts"):
        RetryPolicy.of(value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_attempts", -1),
        ("max_attempts", True),
        ("base", -1),
        ("base", math.nan),
        ("base", "1s"),
        ("cap", math.inf),
        ("cap", timedelta(seconds=-1)),
        ("factor", 0.5),
        ("factor", math.nan),
        ("factor", 10**400),
        ("factor", "2"),
        ("jitter", 1.5),
        ("jitter", -0.1),
        ("jitter", True),
        ("retry_on", [int]),
        ("retry_on", 5),
        ("retry_on", {"ValueError": True}),
        ("give_up_on", [""]),
        ("give_up_on", [ValueError()]),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_its_field_and_value(field, value):
    with pytest.raises(ConfigurationError, match=rf"RetryPolicy\.{field}"):
        RetryPolicy(**{field: value})


def test_a_policy_cannot_be_changed():
    policy = RetryPolicy()
    with pytest.raises(AttributeError):
        policy.base = 5  # type: ignore[misc]


def test_a_policy_of_other_code_is_read_with_what_it_has():
    assert RetryPolicy.from_json('{"max_attempts": 7, "of_a_later_version": true}') == RetryPolicy(max_attempts=7)


@given(
    attempts=st.integers(0, 10**9),
    base=st.floats(0, 1e9),
    factor=st.floats(1, 1e6),
    cap=st.floats(0, 1e9),
    jitter=st.floats(0, 1),
    failures=st.integers(1, 10**9),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_every_policy_survives_json_and_decides_a_delay_within_its_bounds(  # drawn by name
    attempts, base, factor, cap, jitter, failures, draw
):
    policy = RetryPolicy(attempts, base, factor, cap, jitter, [ValueError], ["a.B"])
    assert RetryPolicy.from_json(policy.to_json()) == policy
    match policy.decide(ValueError(), failures, jitter=draw):
        case Retry(after):
            assert 0 <= after <= cap * (1 + jitter)
            assert not attempts or failures < attempts
        case GiveUp(reason):
            assert (reason, 0 < attempts <= failures) == ("exhausted", True)


@pytest.mark.parametrize(
    ("duration", "expected"), [(1, 1.0), (0.25, 0.25), (0, 0.0), (timedelta(minutes=2, microseconds=5), 120.000005)]
)
def test_durations_are_seconds_or_timedelta(duration, expected):
    assert seconds(duration, "timeout") == expected


@pytest.mark.parametrize("duration", [-0.1, math.inf, math.nan, "5", None, True, 10**400, timedelta(seconds=-1)])
def test_what_is_no_duration_is_refused_with_its_name(duration):
    with pytest.raises(ConfigurationError, match=r"^timeout is "):
        seconds(duration, "timeout")
