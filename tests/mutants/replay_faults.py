"""Faults of the interpreter and the journal. Each breaks one rule of DESIGN section 5, and says which.

A replay must be the same as the first run, and must notice what is not: so most of these leave a workflow that was
never interrupted as it is.
"""

from __future__ import annotations

from tests.mutants.faults import Fault

_FLOOR = "runnerq/workflow"
_TESTS = "tests/workflow"

BASICS = (
    f"{_TESTS}/test_commands.py::test_a_step_answers_its_value_to_yield_and_to_yield_from",
    f"{_TESTS}/test_commands.py::test_an_answer_is_decoded_into_the_annotated_type",
    f"{_TESTS}/test_commands.py::test_any_callable_is_a_step_even_one_that_cannot_be_hashed",
)


def _fault(name: str, what: str, file: str, *edits: tuple[str, str], by: tuple[str, ...]) -> Fault:
    return Fault(name, what, f"{_FLOOR}/{file}", edits, tuple(f"{_TESTS}/test_{each}.py" for each in by), BASICS)


REPLAY_FAULTS = (
    # --- 1: what is fed -----------------------------------------------------------------------------------------------
    _fault(
        "other-class",
        "rule 1: a failure whose class cannot be rebuilt here is thrown as another, and does not block",
        "answers.py",
        (
            "cannot:\n        raise Blocked(\n",
            "cannot:\n        return Thrown(RuntimeError(str(cannot)))\n        raise Blocked(\n",
        ),
        by=("divergence",),
    ),
    # --- 3: one order -------------------------------------------------------------------------------------------------
    _fault(
        "replaying-ends-early",
        "rule 3: replaying turns false while recorded rows are left",
        "interpreter.py",
        (
            "        self.recorder.open_recorded(place, at, asked)\n",
            "        self.recorder.open_recorded(place, at, asked)\n        self.recorder.replaying = place < 1\n",
        ),
        by=("chance_and_time",),
    ),
    _fault(
        "derived-unchecked",
        "rule 3: how a composite was decided is not compared with what is on record",
        "interpreter.py",
        ("(row.kind, row.position, row.value) != (kind, position, value)", "row.position != position"),
        by=("replay_rules",),
    ),
    # --- 4: strict ----------------------------------------------------------------------------------------------------
    _fault(
        "digest-unchecked",
        "rule 4: arguments are not compared",
        "recorder.py",
        (
            "                recorded.digest == asked.digest\n                and recorded.name",
            "                recorded.name",
        ),
        by=("divergence",),
    ),
    _fault(
        "name-unchecked",
        "rule 4: names are not compared",
        "recorder.py",
        ("                and recorded.name == asked.name\n", ""),
        by=("divergence",),
    ),
    _fault(
        "kind-unchecked",
        "rule 4: kinds of commands are not compared",
        "recorder.py",
        ("                and recorded.kind == asked.kind\n", ""),
        ("recorded.position == asked.position and recorded.kind == asked.kind", "recorded.position == asked.position"),
        by=("replay_rules",),
    ),
    _fault(
        "rows-left-over",
        "rule 4: rows that are left when the code has returned are passed over",
        "interpreter.py",
        ('            raise other_row(row, "the workflow has ended", self._line_left(""))\n', "            return\n"),
        by=("divergence",),
    ),
    _fault(
        "asks-left-over",
        "rule 4: what is on record as asked and is asked no more, at the end of the code, is passed over",
        "interpreter.py",
        ("        if missing is not None:\n", "        if missing is not None and self.end is None:\n"),
        by=("divergence", "changed_code"),
    ),
    _fault(
        "asks-too-many",
        "rule 4: what is asked beyond what is on record is taken for new",
        "recorder.py",
        (
            "            raise diverged(asked.position, None, asked, line_of(parent))\n",
            "            return asked\n",
        ),
        by=("divergence",),
    ),
    # --- 5: builds ----------------------------------------------------------------------------------------------------
    _fault(
        "newer-rules",
        "rule 5: a journal of newer rules is replayed by older code",
        "interpreter.py",
        ("            if rules > RULES:\n", "            if rules > RULES + 1:\n"),
        by=("divergence", "changed_code", "continuing"),
    ),
    _fault(
        "workers-fault",
        "rule 5: a fault of the worker counts against the build",
        "ending.py",
        ("        return isinstance(self.error, WORKER_FAULTS)", "        return isinstance(self.error, MemoryError)"),
        by=("code_faults", "ending"),
    ),
    # --- 6: ways to change code ---------------------------------------------------------------------------------------
    _fault(
        "patched-midway",
        "rule 6: a run that went the old way turns to the new one in replay",
        "recorder.py",
        ("            taken += 1\n        return False\n", "            taken += 1\n        return True\n"),
        by=("patching",),
    ),
    _fault(
        "patch-forgotten",
        "rule 6: an older build passes over the mark of a newer one",
        "recorder.py",
        ("mark.deadline is not None and mark.deadline < self._build_seen", "mark.deadline is not None"),
        by=("patching",),
    ),
    _fault(
        "patch-of-its-own-build",
        "rule 6: a build first seen with the mark's, and not after it, leaves the mark out",
        "recorder.py",
        ("mark.deadline < self._build_seen", "mark.deadline <= self._build_seen"),
        by=("patching",),
    ),
    _fault(
        "formerly-anything",
        "rule 6: a step that has a former name may have had any",
        "recorder.py",
        ("recorded.name in (options.formerly or ())", "options.formerly is not None"),
        by=("replay_rules",),
    ),
    # --- 8: time and chance -------------------------------------------------------------------------------------------
    _fault(
        "time-goes-back",
        "rule 8: a row may be earlier than the one before",
        "recorder.py",
        ("        if at > self.at:  # noqa: PLR1730 - max() is a call, on the hot path\n", "        if at:\n"),
        by=("chance_and_time",),
    ),
    _fault(
        "sleep-ends-early",
        "rule 8: the time of a sleep's answer is earlier than its deadline",
        "interpreter.py",
        ("            at = max(at, deadline)\n", "            at = min(at, deadline)\n"),
        by=("chance_and_time",),
    ),
    _fault(
        "chance-of-all-branches",
        "rule 8: branches share their chance",
        "chance.py",
        ('f"{branch.prefix}{branch.count}"', 'f"{branch.count}"'),
        by=("chance_and_time",),
    ),
    _fault(
        "chance-shifts",
        "rule 8: what was drawn before a command shifts what is drawn behind it",
        "chance.py",
        ("branch.drawn_at, branch.draws, branch.rng = branch.count, 0, None", "branch.drawn_at = branch.count"),
        by=("chance_and_time",),
    ),
    # --- 9: parking ---------------------------------------------------------------------------------------------------
    _fault(
        "not-silent-while-closed",
        "rule 9: while a parked generator is closed, its context says that it does not replay",
        "driver.py",
        ("self._recorder.replaying or self._inert", "self._recorder.replaying"),
        by=("closing",),
    ),
    # --- 10: how a run ends -------------------------------------------------------------------------------------------
    _fault(
        "fault-behind-a-failure",
        "rule 10: a code fault that came of a recorded failure blocks the run",
        "ending.py",
        (
            "_looks_like_a_fault(error) and not any(recorded_failure(at) is not None for at in chain(error))",
            "_looks_like_a_fault(error)",
        ),
        by=("code_faults", "ending"),
    ),
    _fault(
        "fault-decides",
        "rule 10: a fault of the code in a branch decides its composite",
        "advance.py",
        (
            "        if isinstance(answer, Thrown) and is_code_fault(answer.error):\n",
            "        if isinstance(answer, Thrown) and branch.parent is None and is_code_fault(answer.error):\n",
        ),
        by=("code_faults",),
    ),
    _fault(
        "exhausted-behind",
        "rule 10: used-up attempts behind another error make no dead letter",
        "ending.py",
        ("(recorded_failure(at) for at in chain(error))", "(recorded_failure(at) for at in (error,))"),
        by=("ending", "effects_and_ends"),
    ),
    _fault(
        "blocked-keeps-asks",
        "rule 10: what the code asked on the answer that it failed on is on record",
        "recorder.py",
        ("self._write(kind, position, value, None)", "self._write(kind, position, value, asked_text(self._asks))"),
        by=("code_faults",),
    ),
    # --- 11: cancellation ---------------------------------------------------------------------------------------------
    _fault(
        "cancelled-twice",
        "rule 11: a branch gets Cancelled again when its composite is closed in a cancelled run",
        "deciding.py",
        ("        if node.cancelled:\n            return\n", ""),
        by=("cancel", "closing"),
    ),
    _fault(
        "cancelled-at-once",
        "rule 11: a branch that waits for a step does not get its answer first",
        "deciding.py",
        (
            "isinstance(waiting, Leaf) and waiting.command.kind not in EFFECTS:\n            self._drop",
            "isinstance(waiting, Leaf):\n            self._drop",
        ),
        by=("cancel",),
    ),
    _fault(
        "interrupted-and-cancelled",
        "rule 11: a branch whose step was cut off gets Cancelled at its next yield, too",
        "deciding.py",
        ("parent.cancelled, parent.pending = True, False", "parent.cancelled = True"),
        by=("cancel",),
    ),
    _fault(
        "cancelled-composite-answers",
        "rule 11: a cancelled composite answers with what decided it",
        "deciding.py",
        ("composite.cancelled or composite.closed or decision is None", "composite.closed or decision is None"),
        by=("cancel", "composites"),
    ),
    _fault(
        "cancelled-out-of-order",
        "rule 11: members get their Cancelled last first",
        "deciding.py",
        (
            "        composite.open += 1\n        for index, member in enumerate(composite.members):\n",
            "        composite.open += 1\n        for index, member in reversed(list(enumerate(composite.members))):\n",
        ),
        by=("cancel",),
    ),
    _fault(
        "second-cancel",
        "rule 11: a second cancel is on record",
        "interpreter.py",
        ("self.end is None and not self.cancel_requested and self._undoing", "self.end is None and self._undoing"),
        by=("cancel",),
    ),
    _fault(
        "cancel-in-an-undo",
        "rule 11: a cancel adds something to a run whose undos have begun",
        "interpreter.py",
        ("not self.cancel_requested and self._undoing is None", "not self.cancel_requested"),
        by=("undo",),
    ),
    # --- 12: undo -----------------------------------------------------------------------------------------------------
    _fault(
        "undone-in-order",
        "rule 12: undos run in the order in which they were registered",
        "advance.py",
        ("undoing.left.pop()", "undoing.left.pop(0)"),
        by=("undo",),
    ),
    _fault(
        "undo-stops",
        "rule 12: an undo that fails leaves the others undone",
        "advance.py",
        (
            "            undoing.failed = answer.take()\n",
            "            undoing.failed = answer.take()\n            undoing.left.clear()\n",
        ),
        by=("undo",),
    ),
    _fault(
        "undo-failure-unsaid",
        "rule 12: a run whose undo has failed ends as if it had not",
        "advance.py",
        ("            undoing.failed = answer.take()\n", "            answer.take()\n"),
        by=("undo",),
    ),
    # --- 13: composites -----------------------------------------------------------------------------------------------
    _fault(
        "losers-unfinished",
        "rule 13: a decided composite answers before its losing branches have cleaned up",
        "deciding.py",
        (
            "        self._close_members(composite)\n        if composite.open == 0:\n            self._finish",
            "        self._close_members(composite)\n        if composite.open >= 0:\n            self._finish",
        ),
        by=("closing", "branches"),
    ),
    _fault(
        "losing-children-go-on",
        "rule 13: children that a decided composite leaves are not cancelled",
        "deciding.py",
        ("            self.cancels.append(child)\n", ""),
        by=("branches", "composites"),
    ),
    _fault(
        "handles-lost",
        "rule 13: who loses a wait for a child handle cancels the child",
        "deciding.py",
        ("child is not None and leaf.command.spec == ChildSpec(None)", "child is not None"),
        by=("branches", "composites", "continuing"),
    ),
    _fault(
        "cancel-as-a-value",
        "rule 13: return_errors takes a branch's Cancelled for one of them",
        "deciding.py",
        ("spec.return_errors and isinstance(answer.error, Exception)", "spec.return_errors"),
        by=("composites", "cancel", "branches"),
    ),
    _fault(
        "no-limit",
        "rule 13: a gather's limit is not kept",
        "advance.py",
        ("composite.open < composite.limit and not", "not"),
        by=("composites",),
    ),
    # --- 14: continue_as_new ------------------------------------------------------------------------------------------
    _fault(
        "continue-swallowed",
        "rule 14: a workflow that returns behind its continue_as_new has returned",
        "advance.py",
        (
            "branch.parent is None and self.driver.continued is not None:",
            "branch.parent is None and self.driver.continued is not None and isinstance(answer, Thrown):",
        ),
        by=("continuing",),
    ),
    _fault(
        "continue-forgets-undos",
        "rule 14: a run with undos continues as new",
        "driver.py",
        ("            if self.undos:\n", "            if self.undos and self._inert:\n"),
        by=("continuing", "undo"),
    ),
    _fault(
        "continue-in-a-branch",
        "rule 14: a branch continues the run as new",
        "driver.py",
        ("            if branch.parent is not None:\n", "            if branch.parent is not None and self._inert:\n"),
        by=("continuing",),
    ),
    # --- 15: what is yielded ------------------------------------------------------------------------------------------
    _fault(
        "used-twice",
        "rule 15: a command may be used twice",
        "yields.py",
        ("    if yielded.used:\n", "    if yielded.used and not yielded.driven:\n"),
        by=("misuse",),
    ),
    _fault(
        "other-runs-command",
        "rule 15: a command of another run is taken for one of this run",
        "yields.py",
        ("    if yielded.owner is not owner:\n", "    if yielded.owner is None:\n"),
        by=("misuse",),
    ),
    _fault(
        "judged-again",
        "DESIGN 5.6: a call that is on record is judged by what its function takes today",
        "prepare.py",
        ('        return self._recorder.patched(f"{command!r} refused", branch.place)\n', "        return True\n"),
        by=("not_judged_again",),
    ),
    _fault(
        "refused-and-forgotten",
        "DESIGN 5.6: a call that was refused, and the error caught, is asked for by replay",
        "prepare.py",
        (
            '        return self._recorder.patched(f"{command!r} refused", branch.place)\n',
            "        return self._recorder.recording\n",
        ),
        by=("not_judged_again",),
    ),
    # --- 16: retry and fork -------------------------------------------------------------------------------------------
    _fault(
        "cut-too-late",
        "rule 16: the failure that a retry takes back is fed again",
        "reopening.py",
        ("        if row.place < reopened.upto\n", "        if row.place <= reopened.upto\n"),
        by=("reopening",),
    ),
    _fault(
        "forks-own-digests",
        "rule 16: a fork compares digests that are keyed by its original",
        "forking.py",
        (
            '    return (*copied, Row(place, "reopened", "", copied[-1].at, _json(accepting)))',
            "    return tuple(copied) if accepting else ()",
        ),
        by=("forking",),
    ),
)
