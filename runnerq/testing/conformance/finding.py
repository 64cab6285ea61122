"""Runs that are looked for: by what they are, by what they failed with, in both directions, and not for ever."""

from __future__ import annotations

from datetime import timedelta

from runnerq.persistence.records import GOING, End, FailureGroup, NewRun, RunFilter, Status
from runnerq.testing.conformance.reads import one_of_each
from runnerq.testing.conformance.world import COMPLETED, Holder, World, a_child, a_holder, a_run, an_activity, look

REFUSED = '{"type":"Refused","module":"shop","message":"card 4242 of order-7 was \\"refused\\"","stack":"File pay.py"}'
REFUSED_TOO = '{"type" : "Refused", "module" : "shop", "message" : "card 17 of order-12345 was \\"refused\\""}'
LATE = '{"type":"TimeoutError","module":"builtins","message":""}'


class TestFinding:
    async def test_runs_are_found_by_the_beginning_of_their_id(self, world: World) -> None:
        ids = [f"{first}-7a0c-7c2b-8b7e-0a1b2c3d4e5f" for first in ("018f3d5e", "018f3d5f", "018f3e00")]
        await world.storage.start([a_run(id=run_id) for run_id in ids])
        assert await _ids(world, RunFilter(id_prefix="018f3d")) == [ids[1], ids[0]]
        assert await _ids(world, RunFilter(id_prefix="018f3d5e7a0c7")) == [ids[0]]
        assert await _ids(world, RunFilter(id_prefix=ids[2].replace("-", ""))) == [ids[2]]
        assert await _ids(world, RunFilter(id_prefix="018f3d60")) == []

    async def test_runs_are_found_by_version_and_by_having_no_parent(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child, second = a_child(run), a_run(version=2)
        await holder.commit(run, GOING, children=(child,))
        await world.storage.start([second])
        assert await _ids(world, RunFilter(version=2)) == [second.id]
        assert await _ids(world, RunFilter(roots=True)) == [second.id, run.id]
        assert await _ids(world, RunFilter(version=1, roots=True)) == [run.id]

    async def test_a_running_run_says_which_worker_has_it_and_is_found_by_that(self, world: World) -> None:
        one, other = await a_holder(world.storage), await a_holder(world.storage)
        mine, theirs, over = await one.start(a_run()), await other.start(a_run()), await one.start(a_run())
        await one.commit(over, COMPLETED)
        ready = a_run()
        await world.storage.start([ready])
        listed = (await world.storage.list_runs(RunFilter(), 10)).runs
        assert {record.id: record.worker_id for record in listed} == {
            mine.id: one.id,
            theirs.id: other.id,
            over.id: None,
            ready.id: None,
        }
        assert (await look(world.storage, mine.id)).worker_id == one.id
        for where, wanted in (
            (RunFilter(worker=one.id), [mine.id]),
            (RunFilter(worker=one.id, root=mine.id), [mine.id]),
            (RunFilter(worker=one.id, root=theirs.id), []),
            (RunFilter(worker=one.id, status=Status.RUNNING), [mine.id]),
            (RunFilter(worker=one.id, status=Status.COMPLETED), []),
            (RunFilter(worker=one.id + 1), []),
        ):
            assert await _ids(world, where) == wanted
            assert (await world.storage.count_runs(where, 10)).count == len(wanted)

    async def test_runs_are_found_by_when_they_ended(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, failed = await holder.start(a_run()), await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        await holder.commit(failed, End(status="failed"))
        await world.storage.start([a_run()])
        ended = (await look(world.storage, run.id)).ended_at
        assert ended is not None
        before, after = ended - timedelta(seconds=1), ended + timedelta(hours=1)
        assert await _ids(world, RunFilter(ended_since=before, ended_until=after)) == [failed.id, run.id]
        assert await _ids(world, RunFilter(ended_since=before, status=Status.FAILED)) == [failed.id]
        assert await _ids(world, RunFilter(ended_until=before)) == []
        assert await _ids(world, RunFilter(ended_since=after)) == []

    async def test_runs_are_found_by_a_piece_of_what_they_failed_with(self, world: World) -> None:
        holder = await a_holder(world.storage)
        refused = await _failed(holder, REFUSED)
        late = await _failed(holder, LATE, "dead_letter")
        await holder.commit(await holder.start(a_run()), COMPLETED)
        await world.storage.start([a_run()])
        assert await _ids(world, RunFilter(error='was "REFUSED"')) == [refused]
        assert await _ids(world, RunFilter(error="PAY.py")) == [refused]
        assert await _ids(world, RunFilter(error="timeouterror")) == [late]
        assert await _ids(world, RunFilter(error="timeouterror", status=Status.FAILED)) == []
        assert await _ids(world, RunFilter(error="timeouterror", status=(Status.DEAD_LETTER, Status.RUNNING))) == [late]
        assert await _ids(world, RunFilter(error="e", status=Status.COMPLETED)) == []
        assert await _ids(world, RunFilter(error="4%2")) == []
        assert await _ids(world, RunFilter(error="4_42")) == []

    async def test_each_status_is_found_from_both_ends(self, world: World) -> None:
        by_status = await one_of_each(world)
        several = (
            (Status.RUNNING, Status.BLOCKED),
            (Status.FAILED, Status.CANCELLED),
            (Status.COMPLETED, Status.WAITING),
        )
        for wanted in (*((status,) for status in Status), *several):
            ids = sorted(by_status[status] for status in wanted)
            found = await world.storage.list_runs(RunFilter(status=wanted), 10, oldest=True)
            assert [record.id for record in found.runs] == ids
            assert await _ids(world, RunFilter(status=wanted)) == ids[::-1]

    async def test_a_list_is_read_in_both_directions_while_runs_are_started(self, world: World) -> None:
        first = sorted(run.id for run in await _started(world, 5))
        list_runs = world.storage.list_runs
        page = await list_runs(RunFilter(), 2)
        assert [record.id for record in page.runs] == first[:2:-1]
        later = sorted(run.id for run in await _started(world, 3))
        following = await list_runs(RunFilter(), 2, page.next)
        assert [record.id for record in following.runs] == [first[2], first[1]]
        back = await list_runs(RunFilter(), 2, following.runs[0].id, oldest=True)
        assert [record.id for record in back.runs] == first[3:]
        newer = await list_runs(RunFilter(), 10, back.next, oldest=True)
        assert ([record.id for record in newer.runs], newer.next) == (later, None)

    async def test_a_page_looks_at_no_more_runs_than_it_is_told_to_and_says_where_it_ended(self, world: World) -> None:
        [sought] = await _started(world, 1, "sought")
        others = sorted(run.id for run in await _started(world, 4))
        where = RunFilter(workflow="sought")
        first = await world.storage.list_runs(where, 10, look=3)
        assert (first.runs, first.next) == ((), others[1])
        second = await world.storage.list_runs(where, 10, first.next, look=3)
        assert ([record.id for record in second.runs], second.next) == ([sought.id], None)

    async def test_whatever_the_way_pages_that_look_at_few_find_all_together(self, world: World) -> None:
        holder = await a_holder(world.storage)
        root = await holder.start(a_run())
        children = [a_child(root, str(nth)) for nth in range(3)]
        await holder.commit(root, GOING, children=tuple(children))
        failed = [await _failed(holder, LATE) for _ in range(3)]
        waiting = [run.id for run in await _started(world, 3, "rare")]
        ways = {
            RunFilter(workflow="rare"): waiting,
            RunFilter(parent=root.id): [child.id for child in children],
            RunFilter(root=root.id): [root.id, *(child.id for child in children)],
            RunFilter(status=(Status.FAILED, Status.CANCELLED)): failed,
            RunFilter(status=Status.PENDING, workflow="rare"): waiting,
            RunFilter(status=Status.RUNNING, workflow="order"): [root.id],
        }
        for where, wanted in ways.items():
            assert await _walked(world, where, oldest=False) == sorted(wanted, reverse=True)
            assert await _walked(world, where, oldest=True) == sorted(wanted)


class TestFailures:
    async def test_failures_that_differ_in_numbers_and_ids_alone_are_alike(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await _failed(holder, LATE)
        first, last = await _failed(holder, REFUSED), await _failed(holder, REFUSED_TOO)
        dead = await _failed(holder, REFUSED, "dead_letter")
        found = await world.storage.failures(RunFilter(), 100)
        assert not found.capped
        assert [(group.status, group.count, group.error) for group in found.groups[:1]] == [
            (Status.FAILED, 2, REFUSED_TOO)
        ]
        ends = [(await look(world.storage, run_id)).ended_at for run_id in (first, last)]
        group = found.groups[0]
        assert (group.first_at, group.last_at, group.sample_id, group.name) == (*ends, last, "order")
        assert sorted((each.status, each.count) for each in found.groups[1:]) == [("dead_letter", 1), ("failed", 1)]
        assert {each.fingerprint for each in found.groups if each.sample_id in (last, dead)} == {group.fingerprint}

    async def test_a_group_is_found_by_its_fingerprint(self, world: World) -> None:
        holder = await a_holder(world.storage)
        runs = [await _failed(holder, error, "dead_letter") for error in (REFUSED, LATE, REFUSED_TOO)]
        await holder.commit(await holder.start(a_run()), End(status="cancelled", error=REFUSED))
        found = await world.storage.failures(RunFilter(status=Status.DEAD_LETTER), 100)
        by_fingerprint = [
            await _ids(world, RunFilter(workflow=group.name, status=group.status, fingerprint=group.fingerprint))
            for group in found.groups
        ]
        assert by_fingerprint == [[runs[2], runs[0]], [runs[1]]]
        assert await _ids(world, RunFilter(fingerprint=found.groups[0].fingerprint)) == [runs[2], runs[0]]

    async def test_what_ended_without_an_error_is_told_apart_by_its_reason(self, world: World) -> None:
        holder = await a_holder(world.storage)
        for reason in ("crash_loop", "crash_loop", "gone"):
            await _failed(holder, None, "dead_letter", reason)
        found = await world.storage.failures(RunFilter(), 100)
        assert [(group.count, group.error, group.reason) for group in found.groups] == [
            (2, None, "crash_loop"),
            (1, None, "gone"),
        ]

    async def test_only_what_fits_and_only_the_newest_are_looked_at(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        await holder.commit(run, End(status="failed", error=LATE))
        for _ in range(3):
            await _failed(holder, LATE)
        assert [each.count for each in (await world.storage.failures(RunFilter(workflow="work"), 9)).groups] == [1]
        newest = await world.storage.failures(RunFilter(), 2)
        assert ([group.count for group in newest.groups], newest.capped) == ([2], True)
        assert (await world.storage.failures(RunFilter(status=Status.COMPLETED), 9)).groups == ()

    async def test_texts_that_are_no_failures_are_grouped_too(self, world: World) -> None:
        holder = await a_holder(world.storage)
        for error in ("{}", '"sealed"', '{"type":"A\\u0000","message":"b"}', '{"type":"A","message":"\\ud800"}'):
            await _failed(holder, error)
        groups: tuple[FailureGroup, ...] = (await world.storage.failures(RunFilter(), 100)).groups
        assert sorted(group.count for group in groups) == [1, 1, 2]


async def _started(world: World, count: int, name: str = "order") -> list[NewRun]:
    runs = [a_run(name) for _ in range(count)]
    await world.storage.start(runs)
    return runs


async def _failed(holder: Holder, error: str | None, status: str = "failed", reason: str | None = None) -> str:
    run = await holder.start(a_run())
    await holder.commit(
        run, End(status="dead_letter" if status == "dead_letter" else "failed", error=error, reason=reason)
    )
    return run.id


async def _walked(world: World, where: RunFilter, *, oldest: bool) -> list[str]:
    """What all pages have that look at two runs each."""
    seen: list[str] = []
    cursor: str | None = None
    while True:
        found = await world.storage.list_runs(where, 10, cursor, oldest=oldest, look=2)
        seen += [record.id for record in found.runs]
        if found.next is None:
            return seen
        cursor = found.next


async def _ids(world: World, where: RunFilter) -> list[str]:
    return [record.id for record in (await world.storage.list_runs(where, 100)).runs]
