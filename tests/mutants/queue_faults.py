"""Faults of what people ask of runs and queues, and of what deletes trees."""

from __future__ import annotations

from tests.mutants.faults import Fault

_SQL = "runnerq/persistence/postgres/sql"
_SUITE = "tests/persistence/test_conformance_postgres.py"
_VERBS = "tests/persistence/postgres/test_races_verbs.py"
_DELETING = "tests/persistence/postgres/test_races_deleting.py"


def _fault(name: str, what: str, file: str, edits: tuple[tuple[str, str], ...], noticed_by: str) -> Fault:
    return Fault(name=name, what=what, file=f"{_SQL}/{file}", edits=edits, noticed_by=(noticed_by,))


QUEUE_FAULTS = (
    _fault(
        "now-but-stale",
        "run_now takes the attempts as its snapshot shows them for those of the row it has waited for",
        "run_now.sql",
        (("s.version is null or s.version <> h.version", "false"),),
        f"{_VERBS}::TestRunNowAgainstItsHolder",
    ),
    _fault(
        "now-wakes-sleep",
        "run_now cuts a plain sleep short, where a step of the run has failed before",
        "run_now.sql",
        (
            (
                "from runnerq.attempt where run_id = h.run_id and next_at is not null",
                "from runnerq.attempt where run_id = h.run_id",
            ),
        ),
        f"{_SUITE}::TestRunNow::test_a_plain_sleep_is_not_cut_short",
    ),
    _fault(
        "now-but-later",
        "run_now wakes a parked run and leaves its step's next attempt to its time",
        "run_now.sql",
        (("where run_id = $1::uuid and next_at > now() and", "where false and"),),
        f"{_SUITE}::TestRunNow",
    ),
    _fault(
        "cancel-put-off",
        "a run that is to cancel is put off",
        "reschedule_run.sql",
        (("w.state <> 'pending' or w.cancel is not null", "w.state <> 'pending'"),),
        f"{_SUITE}::TestReschedule",
    ),
    _fault(
        "rank-kept",
        "a run that is ready keeps the rank of its old priority",
        "prioritize_run.sql",
        (("rank = live.rank + f.later", "rank = live.rank"),),
        f"{_SUITE}::TestPriority",
    ),
    _fault(
        "pause-unheard",
        "a claim takes from paused queues",
        "claim_runs.sql",
        (("    where w.queue <> all(array(select name from runnerq.queue))", "    where true"),),
        f"{_SUITE}::TestPause",
    ),
    _fault(
        "adopted-twice",
        "a run that another worker has adopted meanwhile is renamed under it",
        "adopt_runs.sql",
        (("l.served = concat(r.name, '@?') as fits", "true as fits"),),
        f"{_VERBS}::TestAdoptAgainstOthers",
    ),
    _fault(
        "detached-child",
        "a run that a turn starts apart is a child all the same",
        "commit.sql",
        (("case when not coalesce(c.detached, false) then d.run_id end as parent_id", "d.run_id as parent_id"),),
        f"{_SUITE}::TestDetached",
    ),
    _fault(
        "child-too-late",
        "a child from outside looks for its parent and does not hold it",
        "start_runs.sql",
        (("where run_id = r.parent_id for key share offset 0", "where run_id = r.parent_id offset 0"),),
        f"{_VERBS}::TestChildFromOutsideAgainstItsParent",
    ),
    _fault(
        "doomed-opens",
        "a root that is to be deleted opens again",
        "reopen_runs.sql",
        (("           o.doomed_at is null and o.status = w.status", "           o.status = w.status"),),
        f"{_DELETING}::TestDeleteAgainstReopen",
    ),
    _fault(
        "doomed-child-opens",
        "a child of a root that is to be deleted opens again",
        "reopen_runs.sql",
        (("where s.run_id is not null or o.stays", "where s.run_id is not null or o.run_id is not null"),),
        f"{_DELETING}::TestDeleteAgainstReopen",
    ),
    _fault(
        "root-out-of-sight",
        "a child opens again although its root, open in the snapshot, is neither open nor ended any more",
        "reopen_runs.sql",
        (("where s.run_id is not null or o.stays", "where s.run_id is not null or coalesce(o.stays, true)"),),
        f"{_DELETING}::TestDeleteAgainstReopen",
    ),
    _fault(
        "tree-unheld",
        "a tree is judged while somebody opens it again",
        "hold_tree.sql",
        (("from runnerq.outcome where run_id = $1::uuid for update", "from runnerq.outcome where run_id = $1::uuid"),),
        f"{_DELETING}::TestDeleteAgainstReopen",
    ),
    _fault(
        "key-taken-along",
        "a key that has moved on goes with its old run",
        "doom_trees.sql",
        (
            (" where holder = run_id))", "))"),
            (" and k.holder = k.run_id", ""),
        ),
        f"{_DELETING}::TestDeleteAgainstKeys",
    ),
    _fault(
        "root-first",
        "a root is deleted while something of its tree is left",
        "purge_runs.sql",
        (("           limit 1) is null\n", "           limit 1) is null or true\n"),),
        f"{_DELETING}::TestDeleteAgainstKeys",
    ),
)
