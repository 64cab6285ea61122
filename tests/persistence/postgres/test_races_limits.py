"""Limits on Postgres, with the other transaction held open in between, in both orders.

Beside what races.py says: a run *waits* when it was lined up, so that a gate leads to it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from runnerq.errors import StorageRefused
from runnerq.persistence.records import Claimed, ClaimRequest, Limit, LimitRule, NewRun, Sent, Verdict
from runnerq.testing.conformance.limits import SCOPE, claim, complete, ids, limited, taken
from runnerq.testing.conformance.world import COMPLETED, PAIRS, Holder, a_holder, a_turn, an_activity
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import held_open, rolled_back, stopped, until_waiting
from tests.persistence.postgres.races import a_request

pytestmark = pytest.mark.asyncio(loop_scope="module")


def rule(concurrency: int | None, **given: Any) -> LimitRule:
    return LimitRule(scope="stripe", concurrency=concurrency, **given)


async def waiting(world: PostgresWorld, holder: Holder, *keys: str, then: LimitRule) -> list[NewRun]:
    """A run of each key that waits, under this rule."""
    await world.storage.set_limit(rule(0, per_key=then.per_key))
    new = [limited(key) for key in keys]
    await world.storage.start(new)
    assert await taken(holder) == []
    await world.storage.set_limit(then)
    return new


def knowing(writes: Any) -> Any:
    """Writes whose claims know of limits from the first on."""
    writes._limited = True
    return writes


def arriving(writes: Any) -> Any:
    """Writes whose claims begin by lining up."""
    knowing(writes)._arrived = True
    return writes


class TestClaimAgainstClaim:
    async def test_one_is_held_and_the_other_takes_nothing_of_its_bucket_and_says_so(
        self, world: PostgresWorld
    ) -> None:
        one, other = await a_holder(world.storage), await a_holder(world.storage)
        await waiting(world, one, "", "", then=rule(1))
        async with held_open(world) as writes:
            assert len((await knowing(writes).claim(a_request(one))).runs) == 1
            reply = await world.storage.claim(a_request(other))
            assert (reply.runs, reply.more) == ((), True)
        reply = await world.storage.claim(a_request(other))
        assert (reply.runs, reply.more) == ((), False)

    @pytest.mark.parametrize("per_key", [False, True])
    async def test_one_is_stopped_while_the_other_takes_the_place(self, world: PostgresWorld, per_key: bool) -> None:
        one, other = await a_holder(world.storage), await a_holder(world.storage)
        await waiting(world, one, "7", "7", then=rule(1, per_key=per_key))
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(knowing(gate.writes).claim(a_request(one)))
            assert len(await taken(other)) == 1
            await gate.go()
            assert (await claiming).runs == ()
        assert await taken(one) == []

    async def test_one_is_stopped_while_the_other_takes_the_place_at_another_gate(self, world: PostgresWorld) -> None:
        """Types of their own have gates of their own, and one bucket."""
        one, other = await a_holder(world.storage), await a_holder(world.storage)
        await world.storage.set_limit(rule(0))
        await world.storage.start([limited(), an_activity(limit=SCOPE)])
        assert await taken(one) == []
        await world.storage.set_limit(rule(1))
        async with stopped(world, "claim_runs") as gate:
            request = msgspec.structs.replace(a_request(one), pairs=(("q", "order@1"),))
            claiming = await gate.begin(knowing(gate.writes).claim(request))
            assert len((await claim(other, pairs=(("q", "work"),))).runs) == 1
            await gate.go()
            reply = await claiming
            assert (reply.runs, reply.more) == ((), True)

    async def test_one_is_stopped_while_the_other_uses_up_the_rate(self, world: PostgresWorld) -> None:
        one, other = await a_holder(world.storage), await a_holder(world.storage)
        await waiting(world, one, *[""] * 6, then=rule(None, rate=2, per=60.0))
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(knowing(gate.writes).claim(a_request(one)))
            first = await taken(other)
            await complete(other, *first)
            await gate.go()
            assert (len(first), (await claiming).runs) == (2, ())
        assert await taken(one) == []

    async def test_a_claim_that_is_rolled_back_has_admitted_nothing(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = await waiting(world, holder, "", then=rule(1, rate=1, per=60.0))
        async with rolled_back(world) as writes:
            assert len((await knowing(writes).claim(a_request(holder))).runs) == 1
        assert ids(await taken(holder)) == ids(new)

    async def test_other_buckets_are_claimed_from_meanwhile(self, world: PostgresWorld) -> None:
        one, other = await a_holder(world.storage), await a_holder(world.storage)
        await waiting(world, one, "1", "1", "2", "2", then=rule(1, per_key=True))
        async with held_open(world) as writes:
            [first] = (await knowing(writes).claim(a_request(one, 1))).runs
            [second] = (await world.storage.claim(a_request(other))).runs
            assert {first.limit, second.limit} == {Limit("stripe", "1"), Limit("stripe", "2")}


class TestClaimAgainstEnd:
    async def test_a_place_that_becomes_free_before_a_claim_shuts_the_gate_is_found_by_the_claim(
        self, world: PostgresWorld
    ) -> None:
        """The claim has counted, and is stopped while the run ends and its worker says so: the gate is open still."""
        holder, run = await self.full(world)
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(knowing(gate.writes).claim(a_request(holder)))
            assert await holder.commit(run, COMPLETED) is Verdict.DONE
            assert await world.postgres._open_gates([SCOPE]) == set()
            await gate.go()
            reply = await claiming
            assert (reply.runs, reply.more) == ((), True)
        assert len(await taken(holder)) == 1

    async def test_the_word_of_a_free_place_does_not_wait_for_a_claim_that_shuts_the_gate(
        self, world: PostgresWorld
    ) -> None:
        """It finds the gate open; the claim looks at the gate again once it has committed."""
        holder, run = await self.full(world)
        async with held_open(world) as writes:
            head, _ = await knowing(writes)._claim(a_request(holder), [None] * len(PAIRS), 10, 20)
            shut = {Limit(*bucket) for bucket in zip(head["shut_scopes"], head["shut_keys"], strict=True)}
            assert shut == {SCOPE}
            assert await holder.commit(run, COMPLETED) is Verdict.DONE
            assert await world.postgres._open_gates([SCOPE]) == set()
        assert await world.postgres._open_gates(shut) == {("q", "order@1")}
        assert len(await taken(holder)) == 1

    async def test_a_place_that_becomes_free_after_the_claim_has_looked_again_is_found_by_who_says_so(
        self, world: PostgresWorld
    ) -> None:
        holder, run = await self.full(world)
        async with stopped(world, "open_gates") as gate:
            claiming = await gate.begin(knowing(gate.writes).claim(a_request(holder)))
            assert await holder.commit(run, COMPLETED) is Verdict.DONE
            assert await world.postgres._open_gates([SCOPE]) == {("q", "order@1")}
            await gate.go()
            reply = await claiming
            assert (reply.runs, reply.more) == ((), False)
        assert len(await taken(holder)) == 1

    async def test_a_gate_stays_shut_whatever_is_said_while_its_bucket_is_full(self, world: PostgresWorld) -> None:
        holder, _ = await self.full(world)
        reply = await claim(holder)
        assert (reply.runs, reply.more) == ((), False)
        assert await world.postgres._open_gates([SCOPE]) == set()
        assert await world.connection.fetchval("select open_at from runnerq.gate") is None

    async def full(self, world: PostgresWorld) -> tuple[Holder, Claimed]:
        """A run that is held, another that waits for its place, and a gate that is open, as a claim may find it that
        begins right now."""
        holder = await a_holder(world.storage)
        await waiting(world, holder, "", "", then=rule(1))
        [run] = await taken(holder)
        await world.connection.execute("update runnerq.gate set open_at = now()")
        return holder, run

    async def test_an_end_that_is_not_committed_has_freed_nothing(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, "", "", then=rule(1))
        [run] = await taken(holder)
        async with held_open(world) as writes:
            assert await writes.commit([a_turn(run, COMPLETED)]) == [Verdict.DONE]
            assert await taken(holder, freed=[run]) == []
        assert len(await taken(holder, freed=[run])) == 1


class TestLargeClaims:
    async def test_a_large_claim_takes_a_few_of_each_key_and_as_many_of_the_next(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, *(f"{key}" for key in range(10) for _ in range(10)), then=rule(9, per_key=True))
        runs = await taken(holder, 40)
        assert Counter(run.limit for run in runs) == {Limit("stripe", f"{key}"): 4 for key in range(10)}

    async def test_it_looks_at_all_gates_there_are_where_few_wait_at_each(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, *(f"{key}" for key in range(100)), then=rule(9, per_key=True))
        assert len(await taken(holder, 100)) == 100

    async def test_a_claim_that_has_found_full_gates_alone_says_that_there_are_others(
        self, world: PostgresWorld
    ) -> None:
        """Others have taken the places, through gates of other queues and types: these are still open."""
        holder = await a_holder(world.storage)
        await waiting(world, holder, *(f"{key}" for key in range(60) for _ in range(2)), then=rule(1, per_key=True))
        held = await taken(holder)
        assert len(held) == 60
        await world.connection.execute("update runnerq.gate set open_at = now()")
        await complete(holder, *(run for run in held if run.limit == Limit("stripe", "59")))
        replies = [await claim(holder, 10)]
        while replies[-1].more:
            replies.append(await claim(holder, 10))
        assert [run.limit for reply in replies for run in reply.runs] == [Limit("stripe", "59")]
        assert len(replies) > 1


@pytest.mark.parametrize("per_key", [False, True])
class TestClaimAgainstLiningUp:
    async def test_a_claim_does_not_remove_the_gate_of_a_run_it_has_not_seen(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        """It would take the last of the line; the other one comes while it is stopped."""
        holder = await a_holder(world.storage)
        new = await waiting(world, holder, "7", then=rule(5, per_key=per_key))
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(knowing(gate.writes).claim(a_request(holder)))
            new.append(limited("7"))
            await world.storage.start(new[1:])
            assert await world.postgres._line_up(PAIRS) is not None
            await gate.go()
            first = list((await claiming).runs)
        assert ids(first + await taken(holder)) == ids(new)

    async def test_a_run_is_lined_up_while_a_claim_that_removes_its_gate_is_held(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, "7", then=rule(5, per_key=per_key))
        async with held_open(world) as writes:
            assert len((await knowing(writes).claim(a_request(holder))).runs) == 1
            late = limited("7")
            await world.storage.start([late])
            lining = asyncio.create_task(world.postgres._line_up(PAIRS))
            await until_waiting(world)
        assert await lining is not None
        assert ids(await taken(holder)) == {late.id}

    async def test_it_is_stopped_while_a_claim_removes_its_gate(self, world: PostgresWorld, per_key: bool) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, "7", then=rule(5, per_key=per_key))
        late = limited("7")
        await world.storage.start([late])
        async with stopped(world, "line_up") as gate:
            lining = await gate.begin(gate.writes._line_up(PAIRS))
            first = (await world.storage.claim(_of_one(holder))).runs
            await gate.go()
            assert await lining is not None
        rest = await taken(holder)
        assert (len(first), len(rest)) == (1, 1)

    async def test_a_run_that_is_claimed_before_it_was_lined_up_is_left_alone(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, "7", then=rule(5, per_key=per_key))
        late = limited("7", priority=0)
        await world.storage.start([late])
        async with stopped(world, "line_up") as gate:
            lining = await gate.begin(gate.writes._line_up(PAIRS))
            [run] = await taken(holder, 1)
            assert run.id == late.id
            await gate.go()
            assert await lining is not None
        assert await world.connection.fetchval("select lined from runnerq.live where run_id = $1", run.id) is None

    async def test_only_one_lines_up_at_a_time_and_the_others_go_on(self, world: PostgresWorld, per_key: bool) -> None:
        holder = await a_holder(world.storage)
        await world.storage.set_limit(rule(5, per_key=per_key))
        await world.storage.start([limited("7")])
        async with held_open(world) as writes:
            assert await writes._line_up(PAIRS) is not None
            await world.storage.start([limited("8")])
            reply = await world.storage.claim(a_request(holder))
            assert (reply.runs, reply.more) == ((), True)
        assert len(await taken(holder)) == 2


@pytest.mark.parametrize("per_key", [False, True])
class TestLiningUpAgainstEnd:
    async def test_a_gate_is_made_shut_where_the_bucket_is_full(self, world: PostgresWorld, per_key: bool) -> None:
        holder, run = await self.arrived(world, rule(1, per_key=per_key))
        assert await world.postgres._line_up(PAIRS) == {self.bucket(per_key=per_key)}
        assert await self.gates(world) == [None]
        assert (await claim(holder)).runs == ()
        await complete(holder, run)
        assert len(await taken(holder, freed=[run])) == 1

    async def test_a_gate_is_made_open_where_there_is_a_place(self, world: PostgresWorld, per_key: bool) -> None:
        await self.arrived(world, rule(2, per_key=per_key))
        assert await world.postgres._line_up(PAIRS) == set()
        [open_at] = await self.gates(world)
        assert open_at is not None

    async def test_a_gate_that_is_there_stays_as_it_is(self, world: PostgresWorld, per_key: bool) -> None:
        await self.arrived(world, rule(1, per_key=per_key))
        await world.postgres._line_up(PAIRS)
        await world.storage.start([limited("7")])
        assert await world.postgres._line_up(PAIRS) == set()
        assert await self.gates(world) == [None]

    async def test_a_place_that_becomes_free_before_the_gate_is_made_is_found_by_the_claim(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        """Lining up has counted, and is stopped while the run ends and its worker says so: there is no gate yet."""
        holder, run = await self.arrived(world, rule(1, per_key=per_key))
        async with stopped(world, "line_up") as gate:
            claiming = await gate.begin(arriving(gate.writes).claim(a_request(holder)))
            assert await holder.commit(run, COMPLETED) is Verdict.DONE
            assert await world.postgres._open_gates([Limit("stripe", "7")]) == set()
            await gate.go()
            reply = await claiming
            assert (reply.runs, reply.more) == ((), True)
        assert len(await taken(holder)) == 1

    async def test_the_word_of_a_free_place_does_not_wait_for_who_makes_the_gate(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        """It finds no gate; who has lined up looks at it again once it has committed."""
        holder, run = await self.arrived(world, rule(1, per_key=per_key))
        async with held_open(world) as writes:
            shut = await writes._line_up(PAIRS)
            assert shut == {self.bucket(per_key=per_key)}
            assert await holder.commit(run, COMPLETED) is Verdict.DONE
            assert await world.postgres._open_gates([Limit("stripe", "7")]) == set()
        assert await world.postgres._open_gates(shut) == {("q", "order@1")}
        assert len(await taken(holder)) == 1

    async def test_a_place_that_becomes_free_after_the_gate_was_made_is_found_by_who_says_so(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        holder, run = await self.arrived(world, rule(1, per_key=per_key))
        async with stopped(world, "open_gates") as gate:
            claiming = await gate.begin(arriving(gate.writes).claim(a_request(holder)))
            assert await holder.commit(run, COMPLETED) is Verdict.DONE
            assert await world.postgres._open_gates([Limit("stripe", "7")]) == {("q", "order@1")}
            await gate.go()
            reply = await claiming
            assert (reply.runs, reply.more) == ((), False)
        assert len(await taken(holder)) == 1

    async def test_a_gate_is_made_shut_where_nobody_is_let_in_and_opens_with_the_rule(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        holder, run = await self.arrived(world, rule(1, per_key=per_key), then=rule(0, per_key=per_key))
        await complete(holder, run)
        assert await world.postgres._line_up(PAIRS) == {self.bucket(per_key=per_key)}
        assert await taken(holder, freed=[run]) == []
        assert await self.gates(world) == [None]
        await world.storage.set_limit(rule(1, per_key=per_key))
        assert len(await taken(holder)) == 1

    async def test_a_gate_is_made_for_the_time_at_which_its_rate_admits_the_next(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        await self.arrived(world, rule(None, rate=1, per=60.0, per_key=per_key))
        assert await world.postgres._line_up(PAIRS) == set()
        wait = "select extract(epoch from open_at - now())::integer from runnerq.gate"
        assert 50 <= await world.connection.fetchval(wait) <= 60

    async def arrived(
        self, world: PostgresWorld, under: LimitRule, then: LimitRule | None = None
    ) -> tuple[Holder, Claimed]:
        """A run that is held, and another of its key that has just arrived where there is no gate."""
        holder = await a_holder(world.storage)
        await world.storage.set_limit(under)
        await world.storage.start([limited("7")])
        [run] = await taken(holder)
        if then is not None:
            await world.storage.set_limit(then)
        # That of a whole scope stays for a while when its last lane goes.
        await world.connection.execute("delete from runnerq.gate")
        await world.storage.start([limited("7")])
        return holder, run

    async def gates(self, world: PostgresWorld) -> list[Any]:
        return [row["open_at"] for row in await world.connection.fetch("select open_at from runnerq.gate")]

    def bucket(self, *, per_key: bool) -> Limit:
        return Limit("stripe", "7" if per_key else "")


class TestRuleAgainstOthers:
    @pytest.mark.parametrize("per_key", [False, True])
    async def test_a_gate_is_shut_where_the_bucket_is_full_under_the_new_rule(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, "7", "7", then=rule(1, per_key=per_key))
        [run] = await taken(holder)
        await world.storage.set_limit(rule(1, rate=9, per=60.0, per_key=per_key))
        assert await world.connection.fetchval("select open_at from runnerq.gate") is None
        await complete(holder, run)
        assert len(await taken(holder, freed=[run])) == 1

    @pytest.mark.parametrize("per_key", [False, True])
    async def test_a_place_that_becomes_free_before_that_gate_is_seen_to_be_shut_is_found(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        """The change has counted, and is held while the run ends and its worker says so: its gate is open still."""
        holder = await a_holder(world.storage)
        await waiting(world, holder, "7", "7", then=rule(2, per_key=per_key))
        [run] = await taken(holder, 1)
        async with stopped(world, "apply_rule") as gate:
            changing = await gate.begin(gate.writes.set_limit(rule(1, per_key=per_key)))
            assert await holder.commit(run, COMPLETED) is Verdict.DONE
            assert await world.postgres._open_gates([Limit("stripe", "7")]) == set()
            await gate.go()
            await changing
        assert len(await taken(holder)) == 1

    async def test_a_rule_that_is_set_as_it_was_changes_no_gate(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, "7", "7", then=rule(1))
        assert len(await taken(holder)) == 1
        before = await world.connection.fetch("select xmin, * from runnerq.gate")
        await world.storage.set_limit(rule(1))
        assert await world.connection.fetch("select xmin, * from runnerq.gate") == before

    async def test_a_change_waits_for_a_claim_under_the_old_rule(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, "1", "2", "3", then=rule(1, per_key=True))
        async with held_open(world) as writes:
            assert len((await knowing(writes).claim(a_request(holder, 2))).runs) == 2
            changing = asyncio.create_task(world.storage.set_limit(rule(2)))
            await until_waiting(world)
        await changing
        assert await taken(holder) == []

    @pytest.mark.parametrize("per_key", [False, True])
    async def test_a_claim_that_was_stopped_admits_nothing_by_the_old_rule(
        self, world: PostgresWorld, per_key: bool
    ) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, "1", "1", "2", "2", then=rule(1, per_key=not per_key))
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(knowing(gate.writes).claim(a_request(holder)))
            await world.storage.set_limit(rule(0, per_key=per_key))
            await gate.go()
            assert (await claiming).runs == ()
        assert await taken(holder) == []
        await world.storage.set_limit(rule(1, per_key=per_key))
        assert len(await taken(holder)) == (2 if per_key else 1)

    @pytest.mark.parametrize("per_key", [False, True])
    async def test_nothing_is_lined_up_by_the_old_rule(self, world: PostgresWorld, per_key: bool) -> None:
        holder = await a_holder(world.storage)
        await world.storage.set_limit(rule(1, per_key=not per_key))
        await world.storage.start([limited(key) for key in ("1", "1", "2", "2")])
        async with stopped(world, "line_up") as gate:
            lining = await gate.begin(gate.writes._line_up(PAIRS))
            await world.storage.set_limit(rule(1, per_key=per_key))
            await gate.go()
            assert await lining is None
        assert len(await taken(holder)) == (2 if per_key else 1)

    async def test_a_change_waits_for_who_lines_up_and_applies_to_that(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        await world.storage.set_limit(rule(1))
        await world.storage.start([limited("1"), limited("2")])
        async with held_open(world) as writes:
            assert await writes._line_up(PAIRS) is not None
            changing = asyncio.create_task(world.storage.set_limit(rule(1, per_key=True)))
            await until_waiting(world)
        await changing
        assert len(await taken(holder)) == 2

    async def test_a_bucket_that_is_forgotten_is_made_anew(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        await waiting(world, holder, "1", then=rule(1, per_key=True))
        await complete(holder, *await taken(holder))
        await world.advance(7200)
        await world.connection.execute("update runnerq.bucket set made_at = made_at - interval '2 hours'")
        async with held_open(world) as writes:
            assert (await writes.relieve(None, 10)).mended == 1
            await world.storage.start([limited("1")])
            assert (await world.storage.claim(a_request(holder))).more
        assert len(await taken(holder)) == 1


class TestMending:
    async def test_a_waiting_run_that_no_gate_leads_to_is_found(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = await waiting(world, holder, "1", "2", "3", then=rule(1, per_key=True))
        await world.connection.execute("delete from runnerq.gate where key <> '2'; delete from runnerq.bucket")
        assert await taken(holder) == []
        assert (await world.storage.relieve(None, 10)).mended == 3
        assert ids(await taken(holder)) == ids(new)

    async def test_a_key_of_a_whole_scope_without_a_lane_is_found(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = await waiting(world, holder, "1", "2", then=rule(5))
        await world.connection.execute("delete from runnerq.lane where key = '1'")
        assert len(await taken(holder)) == 1
        assert (await world.storage.relieve(None, 10)).mended == 1
        assert ids(await taken(holder)) == {new[0].id}

    async def test_a_run_that_ends_while_a_claim_is_stopped_takes_no_place(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = await waiting(world, holder, "", "", then=rule(1, rate=1, per=60.0))
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(knowing(gate.writes).claim(_of_one(holder)))
            assert await world.storage.cancel([new[0].id]) == [Sent.SENT]
            await gate.go()
            first = list((await claiming).runs)
        assert ids(first + await taken(holder)) == {new[1].id}

    async def test_what_no_index_could_hold_is_refused_when_it_is_started(self, world: PostgresWorld) -> None:
        """Later it would stop the waking of all others that are due."""
        with pytest.raises(StorageRefused, match="at most 2,500"):
            await world.storage.start([limited("k" * 1024, "s" * 1500, due_in=60.0)])
        await world.storage.start([limited("\U0001f511" * 256, "s" * 1400)])

    async def test_a_slice_of_a_rate_counts_from_its_latest_time(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        per = 64e6
        await waiting(world, holder, *[""] * 4, then=rule(None, rate=2, per=per))
        assert len(await taken(holder, 1)) == 1
        # Two in the same slice, a minute apart: but for one in 16,000 runs of this test.
        await world.connection.execute(
            "update runnerq.bucket set recent_at = array(select at - interval '60 s' from unnest(recent_at) as r(at))"
        )
        assert len(await taken(holder)) == 1
        await world.advance(per - 30)
        assert await taken(holder) == []
        await world.advance(31)
        assert len(await taken(holder)) == 2


def _of_one(holder: Holder) -> ClaimRequest:
    return a_request(holder, 1)
