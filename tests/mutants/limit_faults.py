"""Faults of limits: places counted too early, gates removed over somebody's head, turns not taken."""

from __future__ import annotations

from tests.mutants.faults import Fault

_POSTGRES = "runnerq/persistence/postgres"
_SUITE = "tests/persistence/test_conformance_postgres.py"
_RACES = "tests/persistence/postgres/test_races_limits.py"

STILL_GREEN = (
    f"{_SUITE}::TestPlaces::test_no_more_runs_are_held_than_the_rule_says",
    f"{_SUITE}::TestRates::test_keys_have_rates_of_their_own_where_the_rule_says_so",
)

_LOCKED_BUCKET = """        select l.place = c.pail
        from (
            select ctid as place from runnerq.bucket
            where ctid = c.pail and exists (select from worker)
            for update skip locked offset 0
        ) as l
"""


def _fault(name: str, what: str, file: str, edits: tuple[tuple[str, str], ...], noticed_by: str) -> Fault:
    return Fault(
        name=name,
        what=what,
        file=f"{_POSTGRES}/{file}",
        edits=edits,
        noticed_by=(noticed_by,),
        still_green=STILL_GREEN,
    )


LIMIT_FAULTS = (
    _fault(
        "counted-too-early",
        "a claim admits by what its snapshot has counted, although somebody has admitted since",
        "sql/claim_runs.sql",
        (
            (
                _LOCKED_BUCKET,
                "        select true\n",
            ),
        ),
        f"{_RACES}::TestClaimAgainstClaim",
    ),
    _fault(
        "not-looked-again",
        "a claim does not look again at the gates that it has shut",
        "claiming.py",
        (("await self._open_gates(shut)", "await self._open_gates(())"),),
        f"{_RACES}::TestClaimAgainstEnd",
    ),
    _fault(
        "made-shut-unseen",
        "a claim does not look again at the gates that it has made shut",
        "claiming.py",
        (
            (
                "shut |= await self._line_up(request.pairs, *how_many) or set()",
                "await self._line_up(request.pairs, *how_many)",
            ),
        ),
        f"{_RACES}::TestLiningUpAgainstEnd",
    ),
    _fault(
        "made-open-though-full",
        "a gate is made open although its bucket is full, and claims have to find that out",
        "sql/line_up.sql",
        (("case when is_full then null else open_at end", "open_at"),),
        f"{_SUITE}::TestLimitTurns::test_keys_that_admit_nobody_are_in_no_other_keys_way",
    ),
    _fault(
        "made-open-though-used-up",
        "a gate is made open although its rate admits nobody now",
        "sql/line_up.sql",
        (
            (
                "when u.used >= l.rate then",
                "when false then",
            ),
        ),
        f"{_SUITE}::TestLimitTurns::test_keys_that_admit_nobody_are_in_no_other_keys_way",
    ),
    _fault(
        "opened-in-vain",
        "gates are opened although their buckets are full",
        "sql/open_gates.sql",
        (("where b.concurrency is null or h.running < b.concurrency", "where true"),),
        f"{_RACES}::TestClaimAgainstEnd",
    ),
    _fault(
        "gate-not-renewed",
        "a run is lined up at a gate that a claim which has not seen it removes",
        "sql/line_up.sql",
        (("do update set open_at = kept.open_at", "do nothing"),),
        f"{_RACES}::TestClaimAgainstLiningUp",
    ),
    _fault(
        "old-rule-lines-up",
        "runs are lined up by a rule that has changed meanwhile",
        "sql/line_up.sql",
        (("    where l.version = s.version\n", ""),),
        f"{_RACES}::TestRuleAgainstOthers",
    ),
    _fault(
        "lined-for-ever",
        "a run that was claimed counts as lined up when it is ready again",
        "sql/claim_runs.sql",
        (("        lined = null    ", "        lined = live.lined    "),),
        f"{_SUITE}::TestPlaces",
    ),
    _fault(
        "place-of-one-key",
        "a whole scope counts the runs without a key alone",
        "sql/claim_runs.sql",
        (("limit_scope = g.scope and b.whole", "limit_scope = g.scope and limit_key = g.key and b.whole"),),
        f"{_SUITE}::TestPlaces",
    ),
    _fault(
        "no-turns",
        "a line is emptied before the next has its turn",
        "sql/claim_runs.sql",
        (("order by round, turn_at, rank, run_id", "order by turn_at, round, rank, run_id"),),
        f"{_SUITE}::TestLimitTurns",
    ),
    _fault(
        "turn-kept",
        "a gate that was admitted from stays the first",
        "sql/claim_runs.sql",
        (
            (
                "when p.turns <= 0 then p.turns_at else now() end",
                "when p.turns <= 0 then p.turns_at else '-infinity' end",
            ),
        ),
        f"{_SUITE}::TestLimitTurns",
    ),
    _fault(
        "one-at-a-time",
        "a large claim takes one of each key, and locks and writes as many keys",
        "sql/claim_runs.sql",
        (("least(8, $3::integer / 32 + 1) as at_once", "1 as at_once"),),
        "tests/persistence/postgres/test_plans_limits.py",
    ),
    _fault(
        "slice-too-short",
        "what a rate has admitted is forgotten with the first of its slice",
        "sql/claim_runs.sql",
        (("select max(at) as at, sum(n)", "select min(at) as at, sum(n)"),),
        f"{_RACES}::TestMending::test_a_slice_of_a_rate_counts_from_its_latest_time",
    ),
    _fault(
        "rate-forgotten",
        "a rule that changes forgets what its rate has admitted",
        "sql/apply_rule.sql",
        (("recent_at = case when kept.whole = excluded.whole then kept.recent_at else '{}' end", "recent_at = '{}'"),),
        f"{_SUITE}::TestRules",
    ),
    _fault(
        "lost-line",
        "nobody looks for waiting runs that no gate leads to",
        "limits.py",
        (("        mended = await self._mend()\n", "        mended: list[str] = []\n"),),
        f"{_RACES}::TestMending",
    ),
)
