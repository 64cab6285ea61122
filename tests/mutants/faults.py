"""Faults to put into the product, one at a time, and the tests that must notice each.

Rules
- A fault is a replacement of text that must be there; when the code moves on, the fault moves with it.
- ``noticed_by`` are pytest ids or files; at least one of those tests must fail.
- A fault must be subtle: the tests of its ``still_green`` pass with it, else it would only show that broken code is
  broken.

m1 to m9 are those that the prototype of the statements was tried with.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_SQL = "runnerq/persistence/postgres/sql"
_RACES = "tests/persistence/postgres/test_races.py"
_SUITE = "tests/persistence/test_conformance_postgres.py"

STILL_GREEN = (
    f"{_SUITE}::TestStarts::test_a_claimed_run_has_all_that_it_was_started_with",
    f"{_SUITE}::TestTurns::test_rows_of_later_turns_follow",
    f"{_SUITE}::TestSignals::test_signals_of_one_call_arrive_in_order",
)


@dataclass(frozen=True)
class Fault:
    """A fault, by name and in words; ``edits`` are (old, new) in ``file``, each old text wherever it stands."""

    name: str
    what: str
    file: str
    edits: tuple[tuple[str, str], ...]
    noticed_by: tuple[str, ...]
    still_green: tuple[str, ...] = STILL_GREEN

    def put_into(self, tree: Path) -> None:
        """Change the file in this copy of the source tree."""
        file = tree / self.file
        text = file.read_text("utf-8")
        for old, new in self.edits:
            if old not in text:
                raise LookupError(f"{self.name}: {self.file} does not hold {old!r} any more; adapt the fault")
            text = text.replace(old, new)
        file.write_text(text, "utf-8")


FAULTS = (
    Fault(
        name="m1",
        what="a park ignores what has come",
        file=f"{_SQL}/commit.sql",
        edits=(
            ("d.inbox <> d.seen or c.run_id is not null", "false"),
            ("d.inbox = d.seen and c.run_id is null", "true"),
            ("d.move = 'park' and d.inbox = d.seen", "d.move = 'park'"),
        ),
        noticed_by=(f"{_RACES}::TestSignalAgainstPark", f"{_RACES}::TestCancelAgainstPark"),
    ),
    Fault(
        name="m2",
        what="a child that ends in the batch of its parent's park is ignored",
        file=f"{_SQL}/commit.sql",
        edits=(
            ("d.inbox <> d.seen or c.run_id is not null", "d.inbox <> d.seen"),
            ("d.inbox = d.seen and c.run_id is null", "d.inbox = d.seen"),
        ),
        noticed_by=(f"{_SUITE}::TestChildren::test_a_park_and_the_childs_end_in_one_batch_lose_no_wake",),
    ),
    Fault(
        name="m3",
        what="what is seen is taken from the locked row, not from the snapshot that read the mailbox",
        file=f"{_SQL}/claim_runs.sql",
        edits=(
            ("    select c.run_id, c.inbox as seen\n", "    select c.run_id, l.inbox as seen\n"),
            ("        select token, state, due_at\n", "        select token, state, due_at, inbox\n"),
        ),
        noticed_by=(f"{_RACES}::TestSignalAgainstPark::test_the_claim_is_stopped_while_the_signal_is_sent",),
    ),
    Fault(
        name="m4",
        what="a sender does not lock",
        file=f"{_SQL}/send_signals.sql",
        edits=(("        where run_id = s.run_id\n        for update\n", "        where run_id = s.run_id\n"),),
        noticed_by=(f"{_RACES}::TestSignalAgainstPark",),
    ),
    Fault(
        name="m5",
        what="a turn's token is not compared",
        file=f"{_SQL}/commit.sql",
        edits=(("    where h.holder = h.token and h.state = 'running'", "    where h.state = 'running'"),),
        noticed_by=(f"{_SUITE}::TestFence",),
    ),
    Fault(
        name="m6",
        what="a child's end does not count for a parent that runs",
        file=f"{_SQL}/commit.sql",
        edits=(
            (
                "    where not exists (select from done as d where d.run_id = c.run_id)",
                "    where p.state = 'waiting' and not exists (select from done as d where d.run_id = c.run_id)",
            ),
        ),
        noticed_by=(f"{_SUITE}::TestChildren::test_a_childs_end_counts_for_a_parent_that_runs",),
    ),
    Fault(
        name="m7",
        what="a sender judges by what it saw before it had the lock",
        file=f"{_SQL}/send_signals.sql",
        edits=(
            (
                "    select l.run_id, l.state, l.inbox, l.priority, l.wants_signals\n",
                (
                    "    select l.run_id, (select x.state from runnerq.live as x where x.run_id = l.run_id) as state,\n"
                    "           l.inbox, l.priority,\n"
                    "           (select x.wants_signals from runnerq.live as x where x.run_id = l.run_id)\n"
                ),
            ),
        ),
        noticed_by=(f"{_RACES}::TestSignalAgainstPark::test_the_signal_is_stopped_while_the_run_parks",),
    ),
    Fault(
        name="m8",
        what="a claim does not lock what it chose",
        file=f"{_SQL}/claim_runs.sql",
        edits=(("        for update skip locked offset 0\n", "        offset 0\n"),),
        noticed_by=(f"{_RACES}::TestStaleClaim::test_a_claim_older_than_a_whole_turn_of_another_worker_takes_nothing",),
    ),
    Fault(
        name="m9",
        what="a claim takes a run whose journal it read too early",
        file=f"{_SQL}/claim_runs.sql",
        edits=(("l.due_at is null and l.token = c.token", "l.due_at is null"),),
        noticed_by=(f"{_RACES}::TestStaleClaim",),
    ),
    Fault(
        name="rows-without-token",
        what="rows are appended under any token",
        file=f"{_SQL}/append.sql",
        edits=(("h.run_id = e.run_id and h.token = e.token and", "h.run_id = e.run_id and"),),
        noticed_by=(f"{_SUITE}::TestFence", f"{_RACES}::TestReaperAgainstTheLiving"),
    ),
    Fault(
        name="end-without-token",
        what="a run is ended under any token",
        file=f"{_SQL}/end_runs.sql",
        edits=(("    where l.token = t.token and l.state = 'running' and", "    where l.state = 'running' and"),),
        noticed_by=(f"{_SUITE}::TestFence", f"{_RACES}::TestReaperAgainstTheLiving"),
    ),
    Fault(
        name="childs-end-alone",
        what="a child is ended without telling its parent",
        file=f"{_SQL}/end_runs.sql",
        edits=((" and l.generation = t.generation and l.parent_id is null", " and l.generation = t.generation"),),
        noticed_by=(f"{_SUITE}::TestChildren",),
    ),
    Fault(
        name="row-without-token",
        what="a single row is appended under any token",
        file=f"{_SQL}/append_one.sql",
        edits=(
            ("    where token = $2::bigint and state", "    where state"),
            ("select 1 as written from held where token = $2::bigint and", "select 1 as written from held where"),
        ),
        noticed_by=(f"{_SUITE}::TestFence", f"{_RACES}::TestReaperAgainstTheLiving"),
    ),
    Fault(
        name="repeated-again",
        what="a park that was too late is DONE when it is sent again, because its rows are there",
        file=f"{_SQL}/commit.sql",
        edits=(
            (
                "       d.move = 'park' and (d.inbox <> d.seen or c.run_id is not null) as again,\n",
                (
                    "       d.move = 'park' and (d.inbox <> d.seen or c.run_id is not null) and not exists (\n"
                    "           select from runnerq.journal as j join turn as t on t.n = d.n\n"
                    "           where j.run_id = d.run_id and j.token = d.token and j.place = t.place) as again,\n"
                ),
            ),
        ),
        noticed_by=(f"{_SUITE}::TestSentAgain::test_a_park_that_was_too_late_is_too_late_again",),
    ),
    Fault(
        name="late-claim",
        what="a worker that was reaped may claim",
        file=f"{_SQL}/claim_runs.sql",
        edits=(("where id = $4 and reaped_at is null and", "where id = $4 and"),),
        noticed_by=(f"{_RACES}::TestLateClaim", f"{_SUITE}::TestClaimedOnce"),
    ),
    Fault(
        name="stray-claim",
        what="what a claim took whose reply was lost is not given back",
        file=f"{_SQL}/release_runs.sql",
        edits=(("token <> all($2::bigint[])", "token = any($2::bigint[]) and false"),),
        noticed_by=(f"{_SUITE}::TestGivingBack",),
    ),
    Fault(
        name="missing-nudge",
        what="the beat's reply leaves out what has come",
        file=f"{_SQL}/beat.sql",
        edits=(("and inbox > 0", "and inbox < 0"),),
        noticed_by=(f"{_SUITE}::TestArrivals",),
    ),
    Fault(
        name="uncounted-signal",
        what="a signal to a running run is not counted",
        file=f"{_SQL}/send_signals.sql",
        edits=(
            (
                "    set inbox = n.inbox,\n",
                "    set inbox = case when live.state = 'running' then live.inbox else n.inbox end,\n",
            ),
        ),
        noticed_by=(f"{_SUITE}::TestArrivals", f"{_RACES}::TestSignalAgainstPark"),
    ),
    Fault(
        name="revived-worker",
        what="a beat revives a worker that was reaped",
        file=f"{_SQL}/beat.sql",
        edits=(
            ("    set beat_at = now(),", "    set reaped_at = null, beat_at = now(),"),
            ("    where id = $1 and reaped_at is null\n", "    where id = $1\n"),
        ),
        noticed_by=(f"{_SUITE}::TestBeat::test_a_beat_never_revives_a_worker_that_was_reaped",),
    ),
    Fault(
        name="unfenced-cancel",
        what="the children that a decided composite leaves are cancelled before the write that decides it is DONE",
        file="runnerq/runtime/held.py",
        edits=(
            (
                "            self._cancels += progress.cancels\n",
                '            self._parts.effects.cancel_children(progress.cancels, "at once")\n',
            ),
        ),
        noticed_by=("tests/runtime/test_stale_worker.py",),
    ),
)

_OPENING = "tests/persistence/postgres/test_races_opening.py"


def _sql(name: str, what: str, file: str, old: str, new: str, *noticed_by: str) -> Fault:
    return Fault(name, what, f"{_SQL}/{file}", ((old, new),), noticed_by)


OPENING_FAULTS = (
    _sql(
        "reopened-blind",
        "a stale request opens a run that was blocked anew",
        "reopen_runs.sql",
        "and w.token = l.token as fits",
        "as fits",
        f"{_OPENING}::TestReopenAgainstItsHolder",
    ),
    _sql(
        "reopened-twice",
        "two requests open one run at once",
        "reopen_runs.sql",
        "from runnerq.outcome where run_id = w.run_id for update offset 0",
        "from runnerq.outcome where run_id = w.run_id offset 0",
        f"{_OPENING}::TestTwoReopens",
    ),
    _sql(
        "reopened-numbers",
        "signals of an opened run are numbered from the start again",
        "reopen_runs.sql",
        "coalesce((select max(s.number) from runnerq.signal as s where s.run_id = o.run_id), 0)",
        "0",
        f"{_SUITE}::TestReopenEnded::test_its_mailbox_stays_and_goes_on_in_order",
    ),
    _sql(
        "generation-unchecked",
        "a late copy of an older generation's turn is written",
        "commit.sql",
        " and h.generation = h.present",
        "",
        f"{_SUITE}::TestRenew::test_sent_again_it_is_done_and_changes_nothing",
    ),
    _sql(
        "attempts-outlive",
        "failed attempts outlive their generation",
        "commit.sql",
        "select run_id from done where move in ('end', 'renew')",
        "select run_id from done where move in ('end')",
        "tests/persistence/postgres/test_races_details.py::TestRows",
    ),
    _sql(
        "faults-uncounted",
        "the faults of workers in a row are not counted",
        "commit.sql",
        "coalesce(d.faults, 0) + 1",
        "1",
        f"{_SUITE}::TestBlocks::test_faults_of_workers_in_a_row_are_counted",
    ),
    _sql(
        "reopened-orphans",
        "a child that a person opened again is cancelled with its long ended parent",
        "sweep_runs.sql",
        "> coalesce(a.reopened_at, '-infinity'::timestamptz)",
        "> '-infinity'::timestamptz",
        f"{_SUITE}::TestReopenFamily",
    ),
)
