"""Faults of the client without an event loop, and of the supervisor of worker processes."""

from __future__ import annotations

from tests.mutants.faults import Fault

_SYNC = "tests/client/test_sync_life.py"
_SUPERVISOR = "tests/cli/test_processes.py"


def _sync(name: str, what: str, *edits: tuple[str, str], by: tuple[str, ...]) -> Fault:
    green = (f"{_SYNC}::test_it_cannot_be_called_where_it_would_wait_for_itself",)
    return Fault(name, what, "runnerq/client/sync/loops.py", edits, tuple(f"{_SYNC}::{each}" for each in by), green)


def _supervisor(
    name: str, what: str, *edits: tuple[str, str], by: tuple[str, ...], file: str = "processes.py"
) -> Fault:
    green = (f"{_SUPERVISOR}::test_pauses_double_up_to_half_a_minute",)
    return Fault(name, what, f"runnerq/cli/{file}", edits, tuple(f"{_SUPERVISOR}::{each}" for each in by), green)


PROCESS_FAULTS = (
    _sync(
        "sync-left-running",
        "a wait that a signal has ended leaves its call on the loop",
        ("        asked.cancel()\n        raise\n", "        raise\n"),
        by=("test_what_ends_the_wait_cancels_the_call",),
    ),
    _sync(
        "sync-forked-open",
        "a process made by fork takes the parent's connections for its own",
        ("        if self._forked:\n", "        if False:\n"),
        by=("test_a_process_made_by_fork_opens_its_own_and_leaves_the_parents_alone",),
    ),
    _sync(
        "sync-forked-thread",
        "a process made by fork waits for a thread that only the parent has",
        ("        pid = os.getpid()\n        here", "        pid = 0\n        here"),
        by=("test_a_process_made_by_fork_opens_its_own_and_leaves_the_parents_alone",),
    ),
    _sync(
        "sync-closed-unlocked",
        "one that is opened while another thread closes it is ended with it",
        (
            (
                "                    _answered(_handed_over(self._close(), loop))\n"
                "                finally:\n                    self._end(loop)\n"
            ),
            (
                "                    closing = _handed_over(self._close(), loop)\n"
                "                finally:\n                    pass\n"
                "        try:\n            _answered(closing)\n        finally:\n            self._end(loop)\n"
            ),
        ),
        by=("test_threads_may_close_and_open_it_at_once",),
    ),
    _sync(
        "sync-half-open",
        "what could not be opened leaves its thread behind",
        ("            self._loop = None\n            self._end(loop)\n            raise\n", "            raise\n"),
        by=("test_one_that_cannot_be_opened_says_so_each_time_and_leaves_no_thread",),
    ),
    _sync(
        "sync-deadlock",
        "a signal's handler that calls in the middle of a call waits for itself",
        ("threading.RLock()", "threading.Lock()"),
        by=("test_a_signals_handler_that_calls_it_while_it_opens_is_told_so",),
    ),
    _supervisor(
        "supervised-by-stdin",
        "what reads stdin in a worker waits for its supervisor",
        ("    os.dup2(nothing, _STDIN)\n", ""),
        by=("test_what_reads_stdin_finds_its_end_and_never_the_supervisors_pipe",),
        file="leash.py",
    ),
    _supervisor(
        "supervised-imports",
        "a worker that a signal to the whole group ends as it imports counts as failed",
        ("self.stops.first is None or code", "True or code"),
        by=("test_one_that_the_signal_to_all_has_ended_before_it_could_catch_it_has_stopped",),
    ),
    _supervisor(
        "supervised-in-one-group",
        "Ctrl-C reaches the workers as well as their supervisor",
        (", start_new_session=True", ""),
        by=("test_each_is_in_a_group_of_its_own_that_the_terminal_does_not_signal",),
        file="leashed.py",
    ),
    _supervisor(
        "supervised-undrained",
        "another worker is started for one that was drained",
        ("        if code == DRAINED:\n", "        if False:\n"),
        by=("test_where_all_were_drained_it_ends", "test_one_that_was_drained_stays_away_and_the_others_are_kept"),
    ),
    _supervisor(
        "supervised-importing",
        "a worker that hangs as it imports has all the time to stop that others have",
        ("        self._nothing_to_stop = True\n", ""),
        by=("test_one_that_hangs_while_it_imports_ends_as_soon_as_it_is_told_to",),
        file="leash.py",
    ),
    _supervisor(
        "supervised-for-ever",
        "what every worker would say again is tried again",
        ("frozenset({2, 5})", "frozenset[int]()"),
        by=("test_what_another_one_would_say_as_well_is_said_once_and_passed_on",),
    ),
    _supervisor(
        "supervised-code-lost",
        "the exit code of a worker that failed as it stopped is lost",
        ("next((code for code in self._codes if code), 0)", "0"),
        by=("test_an_exit_code_of_a_process_that_was_stopped_is_passed_on",),
    ),
    _supervisor(
        "supervised-steady",
        "a worker that was up for long is taken for one that ends in a row",
        ("1 if clock() - began >= self._steady else deaths + 1", "deaths + 1"),
        by=("test_one_that_was_up_for_long_counts_as_the_first_that_ended",),
    ),
    _supervisor(
        "supervised-twice",
        "the supervisor's word counts as a first signal, and the next one ends a worker in the middle of a step",
        ("    def closed() -> None:\n", "    def closed() -> None:\n        stop()\n"),
        by=("test_a_signal_after_stdin_has_closed_is_the_first_and_not_the_second",),
        file="worker.py",
    ),
)
