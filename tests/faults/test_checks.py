"""The fault suite's own judgement: a ledger and a record that agree pass, and each way to disagree is found."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.faults.checks import judge
from tests.faults.flows import expected
from tests.faults.ledger import Ledger
from tests.faults.record import Record, Run

ORDER, CHILD, SHAKY = "order-run", "child-run", "shaky-run"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """One order with its child and one shaky activity, and nothing went wrong."""
    made = Ledger(tmp_path)
    for key, run, result in (("order-4", ORDER, expected("order", 4)), ("shaky-3", SHAKY, 3)):
        made.write("asked", key)
        made.write("accepted", key, run)
        made.write("results", run, "completed", result)
        made.write("claimed", 7, run, 99, 0)
    made.write("ran", f"{ORDER}:1:1:step:double", 1)
    made.write("ran", f"{CHILD}:1::activity:plus_one", 1)
    made.write("ran", f"{SHAKY}:1::activity:shaky", 1)
    made.write("ran", f"{SHAKY}:1::activity:shaky", 2)
    return made


@pytest.fixture
def record(ledger: Ledger) -> Record:
    late = 4e9
    order = Run(ORDER, None, "workflow", "order", "order-4", "completed", str(expected("order", 4)), late)
    child = Run(CHILD, ORDER, "activity", "plus_one", None, "completed", "9", late)
    shaky = Run(SHAKY, None, "activity", "shaky", "shaky-3", "completed", "3", late)
    entries = {(ORDER, 1, "1"): late, (CHILD, 1, ""): late, (SHAKY, 1, ""): late}
    return Record({run.id: run for run in (order, child, shaky)}, entries, [])


def wrong(ledger: Ledger, record: Record, *, may_repeat: bool = False) -> str:
    return "\n".join(judge(ledger, record, may_repeat=may_repeat).faults)


def with_run(record: Record, run_id: str, **changes: object) -> Record:
    changed = msgspec.structs.replace(record.runs[run_id], **changes)
    return msgspec.structs.replace(record, runs={**record.runs, run_id: changed})


def test_a_ledger_that_agrees_with_the_database_passes(ledger: Ledger, record: Record) -> None:
    found = judge(ledger, record, may_repeat=False)
    assert (found.faults, found.runs, found.repeats, found.crashes) == ([], 2, 0, 0)


def test_an_accepted_run_that_is_not_there_is_found(ledger: Ledger, record: Record) -> None:
    ledger.write("asked", "plus_one-1")
    ledger.write("accepted", "plus_one-1", "gone-run")
    assert "accepted under another id than it is there with: 1, such as plus_one-1" in wrong(ledger, record)


def test_a_run_that_nobody_asked_for_is_found(ledger: Ledger, record: Record) -> None:
    extra = Run("extra", None, "activity", "plus_one", "plus_one-5", "completed", "6", 4e9)
    assert "nobody has asked for it" in wrong(ledger, msgspec.structs.replace(record, runs={**record.runs, "x": extra}))


def test_a_second_run_of_one_key_is_found(ledger: Ledger, record: Record) -> None:
    twin = msgspec.structs.replace(record.runs[SHAKY], id="twin")
    doubled = msgspec.structs.replace(record, runs={**record.runs, "twin": twin})
    assert "1 runs are there more than once" in wrong(ledger, doubled)


def test_a_run_without_an_outcome_is_found(ledger: Ledger, record: Record) -> None:
    assert "not ended as completed" in wrong(ledger, with_run(record, SHAKY, status=None, result=None))


def test_a_wrong_result_is_found(ledger: Ledger, record: Record) -> None:
    assert "its result is 5, not 3" in wrong(ledger, with_run(record, SHAKY, result="5"))


def test_a_result_that_its_client_never_saw_is_found(tmp_path: Path, ledger: Ledger, record: Record) -> None:
    (tmp_path / "results").write_text("")
    assert "its client saw no end" in wrong(ledger, record)


def test_a_step_that_began_after_its_entry_was_committed_is_found(ledger: Ledger, record: Record) -> None:
    early = msgspec.structs.replace(record, entries={**record.entries, (ORDER, 1, "1"): 1.0})
    assert "a recorded step ran again: 1" in wrong(ledger, early, may_repeat=True)


def test_a_step_that_ran_and_left_no_entry_is_found(ledger: Ledger, record: Record) -> None:
    ledger.write("ran", f"{ORDER}:1:2:step:double", 1)
    assert "ran, and not on record" in wrong(ledger, record)


def test_an_entry_of_a_step_that_never_ran_is_found(ledger: Ledger, record: Record) -> None:
    more = msgspec.structs.replace(record, entries={**record.entries, (ORDER, 1, "9"): 4e9})
    assert "on record, and never ran" in wrong(ledger, more)


def test_an_attempt_that_ran_twice_is_counted_and_is_a_fault_where_nothing_can_cause_it(
    ledger: Ledger, record: Record
) -> None:
    ledger.write("ran", f"{ORDER}:1:1:step:double", 1)
    assert judge(ledger, record, may_repeat=True).repeats == 1
    assert wrong(ledger, record, may_repeat=True) == ""
    assert "1 attempts ran again" in wrong(ledger, record)


def test_an_attempt_too_many_is_found(ledger: Ledger, record: Record) -> None:
    ledger.write("ran", f"{ORDER}:1:1:step:double", 2)
    assert "with other attempts than it takes" in wrong(ledger, record, may_repeat=True)


def test_a_sweep_that_mended_something_is_found(ledger: Ledger, record: Record) -> None:
    ledger.write("mended", 17, 2)
    assert "sweeps had to mend 2 runs" in wrong(ledger, record)
