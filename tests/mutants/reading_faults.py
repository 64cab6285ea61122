"""Faults of what attempts say of themselves, of the tail of events, and of counts."""

from __future__ import annotations

from tests.mutants.faults import Fault

_SQL = "runnerq/persistence/postgres/sql"
_SUITE = "tests/persistence/test_conformance_postgres.py"
_DETAILS = "tests/persistence/postgres/test_races_details.py"
_EVENTS = "tests/persistence/postgres/test_races_events.py"


def _fault(name: str, what: str, file: str, edits: tuple[tuple[str, str], ...], noticed_by: str) -> Fault:
    return Fault(name=name, what=what, file=f"{_SQL}/{file}", edits=edits, noticed_by=(noticed_by,))


READING_FAULTS = (
    _fault(
        "answer-forgotten",
        "details that come after the answer bring the attempt back",
        "commit.sql",
        (
            (
                "unnest(t.settled) as u(position)\n        where d.move",
                "unnest(t.settled) as u(position)\n        where false and d.move",
            ),
        ),
        f"{_DETAILS}::TestBeatIsLate::test_the_step_is_answered_and_stays_so",
    ),
    _fault(
        "late-words",
        "what an earlier attempt said replaces the last words of a later one",
        "keep_details.sql",
        (("where kept.number = excluded.number or", "where kept.number >= 0 or"),),
        f"{_DETAILS}::TestBeatIsLate::test_the_attempt_fails_with_newer_words",
    ),
    _fault(
        "details-of-anybody",
        "details are written whatever token holds the run",
        "keep_details.sql",
        ((" and h.token = s.token", ""),),
        f"{_DETAILS}::TestBeatIsLate::test_somebody_else_holds_the_run",
    ),
    _fault(
        "details-of-old",
        "details of an earlier generation are written",
        "keep_details.sql",
        ((" and h.generation = s.generation", ""),),
        f"{_DETAILS}::TestBeatIsLate::test_the_generation_ends",
    ),
    _fault(
        "details-inherited",
        "a generation inherits what a beat wrote while the one before ended",
        "read_claimed.sql",
        ((" and coalesce(generation, l.generation) = l.generation", ""),),
        f"{_DETAILS}::TestBeatIsUnseen::test_the_next_generation_has_none_and_may_speak",
    ),
    _fault(
        "details-kept-back",
        "nobody hears whose details were left out because somebody held the row",
        "keep_details.sql",
        (("where h.run_id is null", "where false"),),
        f"{_DETAILS}::TestBeatIsInTheWay::test_those_of_a_held_row_are_named_and_the_others_kept",
    ),
    _fault(
        "reopened-with-details",
        "a run is opened again with what a beat wrote while it ended",
        "reopen_runs.sql",
        (("      and (number < 0 or run_id", "      and (number < 0 and run_id"),),
        f"{_DETAILS}::TestBeatIsUnseen::test_an_ended_run_shows_none_and_is_opened_without_any",
    ),
    _fault(
        "tail-missed",
        "a tail passes over what was not committed when it came by",
        "read_events.sql",
        ((" or r.xid = any($3::bigint[])", " and $3::bigint[] is not null"),),
        f"{_EVENTS}::TestLateCommits::test_a_start_that_commits_late_is_told_then_and_once",
    ),
    _fault(
        "tail-end-missed",
        "a tail passes over ends that were not committed when it came by",
        "read_events.sql",
        ((" or o.xid = any($3::bigint[])", ""),),
        f"{_EVENTS}::TestLateCommits::test_an_end_that_commits_late_is_told_then_and_once",
    ),
    _fault(
        "tail-twice",
        "a tail tells twice what committed between its two snapshots",
        "read_events.sql",
        ((" and not r.xid = any($5::bigint[])", ""),),
        f"{_EVENTS}::TestLateCommits::test_one_that_began_later_than_what_the_pages_hold_is_not_told_twice",
    ),
    _fault(
        "depth-of-delayed",
        "runs that are due later count as waiting for a worker",
        "read_depths.sql",
        (
            (
                "sum(how_many) filter (where state = 'pending' and not is_due)",
                "sum(how_many) filter (where state = 'pending')",
            ),
        ),
        f"{_SUITE}::TestStats",
    ),
    _fault(
        "capped-unsaid",
        "queues that were not all counted do not say so",
        "read_queues.sql",
        (("limit $1::integer + 1", "limit $1::integer"),),
        "tests/persistence/postgres/test_surveying.py::TestCapped",
    ),
    _fault(
        "head-start-counted",
        "the oldest ready run is said to wait for as long as its priority's head start",
        "read_depths.sql",
        (("when 0 then interval '1 hour'", "when 0 then interval '0'"),),
        f"{_SUITE}::TestStats",
    ),
    _fault(
        "served-by-the-dead",
        "a name counts as served by workers that are gone",
        "read_definitions.sql",
        (("w.reaped_at is null\n             and", ""),),
        f"{_SUITE}::TestDefinitions::test_what_a_worker_serves_is_known",
    ),
    _fault(
        "silent-and-alive",
        "a worker that has missed several beats counts as living for as long as its lease",
        "read_workers.sql",
        (("least(w.lease, greatest(3, w.lease / 6))", "w.lease"),),
        f"{_SUITE}::TestWorkers",
    ),
)
