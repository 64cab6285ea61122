"""Faults of schedules: ticks that are fired twice, never, or while they must not be."""

from __future__ import annotations

from tests.mutants.faults import Fault

_SQL = "runnerq/persistence/postgres/sql"
_SUITE = "tests/persistence/test_conformance_postgres.py"
_FIRING = "tests/runtime/test_firing.py"


def _fault(name: str, what: str, file: str, edits: tuple[tuple[str, str], ...], noticed_by: str) -> Fault:
    return Fault(name=name, what=what, file=file, edits=edits, noticed_by=(noticed_by,))


SCHEDULE_FAULTS = (
    _fault(
        "tick-twice",
        "a firing does not look whether the schedule is the one that was seen",
        f"{_SQL}/hold_schedule.sql",
        (("where h.serial = $2", "where $2::bigint is not null"),),
        f"{_SUITE}::TestFiring::test_a_schedule_that_was_changed_since_is_not_fired",
    ),
    _fault(
        "serial-again",
        "a schedule that was deleted and made anew counts from the same serial",
        "runnerq/persistence/postgres/migrations/0007_schedules.sql",
        (("(random() * 1e15)::bigint", "1"),),
        f"{_SUITE}::TestFiring::test_a_schedule_that_was_changed_since_is_not_fired",
    ),
    _fault(
        "edit-over-edit",
        "an edit replaces whatever is there",
        f"{_SQL}/replace_schedule.sql",
        (("and serial = $6", "and $6::bigint is not null"),),
        f"{_SUITE}::TestScheduleRows",
    ),
    _fault(
        "ended-is-open",
        "a run that has ended is in the way of the next tick",
        f"{_SQL}/hold_schedule.sql",
        (("cross join lateral (select run_id", "left join lateral (select run_id"), (" as l\n", " as l on true\n")),
        f"{_SUITE}::TestOverlap",
    ),
    _fault(
        "paused-is-due",
        "a paused schedule is due",
        f"{_SQL}/read_due_schedules.sql",
        (("where paused_at is null and next_at is not null and next_at <= now()", "where next_at <= now()"),),
        f"{_SUITE}::TestScheduleRows",
    ),
    _fault(
        "skipped-then-started",
        "what was missed beyond a firing that was passed over is started beside the open run",
        "runnerq/persistence/postgres/schedules.py",
        (("behind = firing.behind and not skips", "behind = firing.behind"),),
        f"{_SUITE}::TestOverlap::test_what_follows_a_firing_that_was_passed_over_is_judged_anew",
    ),
    _fault(
        "window-of-the-unfireable",
        "schedules that cannot be fired fill all that a worker sees of those that are due",
        "runnerq/runtime/ticker.py",
        (("if len(fresh) >= PICKED or len(found.schedules) < SEEN:", "if fresh is not None:"),),
        "tests/runtime/test_ticker.py::test_any_number_that_cannot_be_fired_hold_up_no_other_and_are_each_told_once",
    ),
    _fault(
        "page-of-one-moment",
        "of those that are due at one moment some are never seen",
        f"{_SQL}/read_due_schedules.sql",
        (
            (
                "(next_at, name) > (coalesce($2::timestamptz, '-infinity'), coalesce($3::text, ''))",
                "(next_at, $3::text) > (coalesce($2::timestamptz, '-infinity'), coalesce($3::text, ''))",
            ),
        ),
        f"{_SUITE}::TestDueSchedules::test_those_behind_one_that_was_seen_are_found_also_where_all_are_due_at_once",
    ),
    _fault(
        "another-order-is-an-edit",
        "a set that lists its items in another order is an edit of its schedule",
        "runnerq/client/schedule_rows.py",
        ((" or self._digest(stored.input) == self._digest(self.row.input)", ""),),
        "tests/client/test_schedules.py::TestPut::test_the_same_in_another_order_is_put_as_it_is",
    ),
    _fault(
        "late-is-missed",
        "a tick that is a moment late counts as missed",
        "runnerq/runtime/firing.py",
        (("ON_TIME = timedelta(seconds=60)", "ON_TIME = timedelta(0)"),),
        f"{_FIRING}::test_missed_ticks_are_run_as_the_schedule_says",
    ),
    _fault(
        "twice-at-night",
        "a tick that is over comes again, where the clock shows it twice",
        "runnerq/cron.py",
        (("if at > last:", "if True:"),),
        "tests/test_cron.py::test_the_ticks_do_not_depend_on_where_one_begins_to_look",
    ),
)
