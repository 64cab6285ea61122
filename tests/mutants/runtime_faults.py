"""Faults of the parts of the runtime that carry a rule of replay: each breaks one rule of DESIGN section 5."""

from __future__ import annotations

from tests.mutants.faults import Fault

_TESTS = "tests/runtime"

BASICS = (
    f"{_TESTS}/test_arrivals.py::test_what_came_is_fed_by_time_and_then_by_position",
    f"{_TESTS}/test_steps.py::test_a_failed_attempt_is_tried_again_by_the_policy",
)


def _fault(name: str, what: str, file: str, *edits: tuple[str, str], by: tuple[str, ...]) -> Fault:
    return Fault(name, what, f"runnerq/runtime/{file}", edits, tuple(f"tests/{each}" for each in by), BASICS)


RUNTIME_FAULTS = (
    _fault(
        "signal-by-the-clock",
        "rule 3: a signal that came by its wait's deadline and is read behind it has come too late",
        "arrivals.py",
        (
            "mail is not None and (deadline is None or mail[0].at <= deadline)",
            "mail is not None and (deadline is None or now <= deadline)",
        ),
        by=("runtime/test_arrivals.py",),
    ),
    _fault(
        "timed-out-unread",
        "rule 3: a wait times out though the mailbox was last read before its deadline",
        "arrivals.py",
        (
            "deadline is not None and self.read_at is not None and deadline <= self.read_at",
            "deadline and deadline <= now",
        ),
        by=("runtime/test_arrivals.py",),
    ),
    _fault(
        "begun-unwritten",
        "rule 7: a step is begun before the turn that asked for it is written",
        "held.py",
        (
            "submit(turn, self._written)\n",
            "submit(turn, self._written)\n        self._carrying.begin(stopping=self._stopping)\n",
        ),
        by=("edges/test_guarantee.py::test_a_step_does_not_begin_before_it_is_on_record[memory]",),
    ),
    _fault(
        "resumed-for-another",
        "rule 9: a kept generator goes on though another worker has had the run since",
        "taking.py",
        ("        if kept is not None and claimed.resumed:\n", "        if kept is not None:\n"),
        by=("runtime/test_resuming.py",),
    ),
    _fault(
        "cut-off-in-time",
        "rule 11: a step that a cancel finds between two attempts is interrupted only when the next one is due",
        "carrying.py",
        (
            " or leaf.position in self._interpreter.cutting",
            "",
        ),
        by=(
            "runtime/test_held_cancel.py::test_a_cancel_between_two_attempts_of_a_step_ends_it_at_once[memory-replayed]",
        ),
    ),
    _fault(
        "closed-and-tried-again",
        "rule 13: a step that its decided composite lost between two attempts keeps its timer",
        "carrying.py",
        ('            if row.kind == "closed":\n', '            if row.kind == "cancel":\n'),
        by=("runtime/test_steps.py::test_a_loser_between_two_attempts_keeps_no_timer[memory-replayed]",),
    ),
    _fault(
        "keys-of-all-generations",
        "rule 16: the steps of two generations share their idempotency keys",
        "current.py",
        ('f"{run_id}:{generation}:{position}', 'f"{run_id}:1:{position}'),
        by=("runtime/test_current.py", "runtime/test_generations.py"),
    ),
)
