from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from uuid import RFC_4122, UUID

import pytest

from runnerq import ids
from runnerq.ids import check_run_id, derived_run_id, new_run_id, new_token

AT = datetime(2024, 5, 9, 12, 30, 15, 123456, tzinfo=UTC)


def milliseconds(run_id: str) -> int:
    return UUID(run_id).int >> 80


def test_a_new_id_is_a_version_7_uuid_of_the_present_millisecond():
    before = datetime.now(UTC)
    run_id = new_run_id()
    made = UUID(run_id)
    assert str(made) == run_id
    assert (made.version, made.variant) == (7, RFC_4122)
    assert -5 <= milliseconds(run_id) - before.timestamp() * 1000 <= 60_000


def test_ids_ascend_and_differ_also_within_a_millisecond():
    made = [new_run_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_ascend_when_the_clock_steps_back(monkeypatch):
    first = new_run_id()
    monkeypatch.setattr(ids, "time_ns", lambda: 1_000_000_000_000_000_000)
    second, third = new_run_id(), new_run_id()
    assert first < second < third


def test_a_millisecond_that_is_full_runs_over_into_the_next(monkeypatch):
    source = ids._Source()
    source.enter(1_700_000_000_000)
    source.tail = (1 << 74) - 2
    monkeypatch.setattr(ids, "_source", source)
    monkeypatch.setattr(ids, "time_ns", lambda: 1_700_000_000_000 * 1_000_000)
    made = [new_run_id() for _ in range(50)]
    assert made == sorted(made)
    assert milliseconds(made[-1]) == 1_700_000_000_001
    assert {UUID(each).version for each in made} == {7}


def test_threads_never_make_the_same_id():
    made: list[str] = []

    def make() -> None:
        mine = [new_run_id() for _ in range(2_000)]
        assert mine == sorted(mine)
        made.extend(mine)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 16_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_makes_other_ids_and_tokens():
    program = """
import os, sys
from runnerq.ids import new_run_id, new_token
new_run_id()
read, write = os.pipe()
child = os.fork()
mine = f"{new_run_id()} {new_token()} {new_token()}"
if child == 0:
    os.write(write, mine.encode())
    os._exit(0)
os.waitpid(child, 0)
theirs = os.read(read, 1000).decode()
print(len(set(mine.split()) | set(theirs.split())))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "6"


def test_a_derived_id_is_the_same_for_the_same_time_and_parts():
    run_id = derived_run_id(AT, "018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f", "5.1")
    assert run_id == derived_run_id(AT, "018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f", "5.1")
    # On record: another answer here would name other children than journals that are already written.
    assert run_id == "018f5d55-3053-70a7-8641-010ae7ea3ea6"
    assert UUID(run_id).version == 7
    assert milliseconds(run_id) == 1_715_257_815_123


@pytest.mark.parametrize(
    ("at", "parts"),
    [
        (AT, ("a", "c")),
        (AT, ("ab", "")),
        (AT, ("", "ab")),
        (AT, ("ab",)),
        (AT, ("b", "a")),
        (AT + timedelta(milliseconds=1), ("a", "b")),
    ],
)
def test_a_derived_id_is_another_for_another_time_or_other_parts(at, parts):
    assert derived_run_id(at, *parts) != derived_run_id(AT, "a", "b")


def test_a_derived_id_does_not_depend_on_the_zone_of_its_time():
    assert derived_run_id(AT, "a") == derived_run_id(AT.astimezone(timezone(timedelta(hours=5))), "a")


@pytest.mark.parametrize("at", [datetime(2024, 1, 1), datetime(1969, 12, 31, tzinfo=UTC)])  # noqa: DTZ001  # the point
def test_a_derived_id_needs_an_aware_time_since_1970(at):
    with pytest.raises(ValueError, match="aware time since 1970"):
        derived_run_id(at, "a")


def test_a_run_id_is_checked_and_given_back_in_lower_case():
    run_id = new_run_id()
    assert check_run_id(run_id) == run_id
    assert check_run_id(run_id.upper()) == run_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "order-42",
        "018f3d5e7a0c7c2b8b7e0a1b2c3d4e5f",
        "018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5",
        "018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f\n",
        "{018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f}",
        "018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5g",
        None,
        7,
    ],
)
def test_what_can_be_no_run_id_is_refused(text):
    with pytest.raises(ValueError, match="is not a run id"):
        check_run_id(text)


def test_tokens_are_positive_63_bit_numbers_that_do_not_repeat():
    tokens = [new_token() for _ in range(10_000)]
    assert all(0 < token < 2**63 for token in tokens)
    assert len(set(tokens)) == len(tokens)
