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
        "rates-put-off",
        "limits: a worker that comes too late for what a rate has let in looks ever less often",
        "claimer.py",
        ("        if claim.next_due > claim.now:\n", "        if claim.runs:\n"),
        by=("runtime/test_claimer.py::test_a_time_at_which_others_were_faster_puts_off_none_that_comes_later",),
    ),
    _fault(
        "left-and-forgotten",
        "limits: what a claim has left because others were at it is looked for no sooner than anything else",
        "claimer.py",
        ("if claim.runs or claim.more else min(", "if claim.runs else min("),
        by=("runtime/test_claimer.py::test_where_something_was_left_because_others_were_at_it_it_looks_again_soon",),
    ),
    _fault(
        "freed-untold",
        "limits: a claim does not tell of the places that its worker has freed",
        "freed.py",
        ("        return tuple(sorted(freed))\n", "        return ()\n"),
        by=(
            "runtime/test_limits.py::test_the_next_claim_tells_of_places_that_ends_parks_and_failed_attempts_have_freed",
        ),
    ),
    _fault(
        "the-same-thousand",
        "limits: each look for free places begins where the one before began",
        "upkeep.py",
        ("        after = relieved.next\n", ""),
        by=("runtime/test_maintenance.py::test_each_look_for_free_places_goes_on_where_the_last_one_ended",),
    ),
    _fault(
        "keys-of-all-generations",
        "rule 16: the steps of two generations share their idempotency keys",
        "current.py",
        ('f"{run_id}:{generation}:{position}', 'f"{run_id}:1:{position}'),
        by=("runtime/test_current.py", "runtime/test_generations.py"),
    ),
)
