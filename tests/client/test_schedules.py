"""``client.schedules``: what can be put, and what its verbs do. What fires them is shown with a worker, elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.client.schedule import Schedule, ScheduleInfo, ScheduleOptions
from runnerq.clock import ManualClock
from runnerq.errors import (
    ConfigurationError,
    EncodingError,
    PayloadUnreadable,
    ScheduleNotFound,
    StorageUnavailable,
)
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import NewRun, Priority, RunFilter, StartReply, Status
from runnerq.runtime.firing import firing_of
from runnerq.serialization.chains import Codecs
from runnerq.serialization.compression import Compression
from runnerq.serialization.encryption import Encryption
from runnerq.serialization.sealing import sealed_by
from runnerq.workflow.declare import activity
from tests.client.shop import ORDER, checkout, checkout_v2, mail, resize

OLD, NEW = bytes(32), bytes(31) + b"1"
START = datetime(2026, 3, 1, 12, 10, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def client(clock: ManualClock) -> AsyncIterator[Client]:
    async with Client(MemoryStorage(clock)) as client:
        yield client


@dataclass
class Tagged:
    tags: set[int]
    limit: int = 1


@activity
async def tag(tags: set[int]) -> None: ...


@activity
async def sort(tagged: Tagged) -> None: ...


@activity
async def anything(of: Any) -> None: ...


def hourly(**given: Any) -> Schedule:
    return Schedule("hourly", mail, ("ann",), **{"cron": "0 * * * *"} | given)


async def known(client: Client, name: str = "hourly") -> ScheduleInfo:
    found = await client.schedules.get(name)
    assert found is not None
    return found


async def tick(client: Client) -> None:
    """Fire what is due, as a worker does."""
    due = await client.storage.due_schedules(10)
    for each in due.schedules:
        record = await client.storage.schedule(each.name)
        assert record is not None
        assert await client.storage.fire(firing_of(record, due.now)) is not None


class TestPut:
    async def test_a_schedule_is_there_as_it_was_put(self, client: Client) -> None:
        options: ScheduleOptions = {
            "queue": "reports", "priority": Priority.HIGH, "metadata": {"team": "a"}, "timeout": timedelta(minutes=1),
            "retry": 2, "limit": ("customer", "7"),
        }  # fmt: skip
        made = Schedule(
            "report", mail, ("ann",), cron="30 2 * * MON-FRI", zone="Europe/Berlin", missed="all", overlap="allow",
            jitter=timedelta(minutes=5), options=options,
        )  # fmt: skip
        assert await client.schedules.put(made)
        found = await known(client, "report")
        assert (found.workflow, found.version, found.args) == ("mail", 0, ["ann"])
        assert (found.cron, found.every, found.zone) == ("30 2 * * MON-FRI", None, "Europe/Berlin")
        assert (found.missed, found.overlap, found.jitter) == ("all", "allow", 300.0)
        assert found.options.pop("retry")["max_attempts"] == 2
        assert found.options == {
            "queue": "reports", "priority": 1, "metadata": {"team": "a"}, "timeout": 60.0, "limit": ["customer", "7"],
        }  # fmt: skip
        assert found.next_at == datetime(2026, 3, 2, 1, 30, tzinfo=UTC)
        assert found.upcoming(2) == [found.next_at, found.next_at + timedelta(days=1)]
        assert found.words() == "At 02:30 on Monday through Friday"
        assert (found.created_at, found.changed_at, found.last_at, found.runs) == (START, START, None, ())
        assert await client.schedules.list() == [await known(client, "report")]

    async def test_a_function_keeps_its_version_queue_and_priority_and_a_name_is_looked_up_when_it_fires(
        self, client: Client
    ) -> None:
        await client.schedules.put(Schedule("new", checkout_v2, (ORDER,), every=60))
        await client.schedules.put(Schedule("old", checkout, (ORDER,), every=60))
        await client.schedules.put(Schedule("any", "checkout", ({"item": "cup"},), every=60))
        new, old, by_name = [await known(client, name) for name in ("new", "old", "any")]
        assert (new.version, new.options) == (
            2, {"queue": "fast", "priority": 1, "metadata": {"team": "shop", "tier": "one"}},
        )  # fmt: skip
        assert (old.version, by_name.version, by_name.options) == (1, None, {})

    async def test_what_is_put_again_as_it_is_changes_nothing_and_no_missed_tick_is_lost(
        self, client: Client, clock: ManualClock
    ) -> None:
        await client.schedules.put(hourly())
        before = await known(client)
        clock.advance(timedelta(hours=5))
        assert not await client.schedules.put(hourly())
        assert not await client.schedules.put(hourly(missed="once", options={}))
        assert await known(client) == before
        await tick(client)
        assert (await known(client)).started == 1

    @pytest.mark.parametrize(
        ("workflow", "one", "other"),
        [
            # These two sets are equal, and yet list 0 and 8 in another order.
            (tag, {0, 8}, {8, 0}),
            (sort, Tagged({0, 8}), Tagged({8, 0})),
            (anything, {"tags": {0, 8}, "a": 1}, {"a": 1, "tags": {8, 0}}),
            ("nobody_knows", [({0, 8}, frozenset({(0, 1), (8, "a")}))], [({8, 0}, frozenset({(8, "a"), (0, 1)}))]),
            (
                "nobody_knows",
                {"a": 1, "b": {"c": [1.0, 2**70], "d": None}},
                {"b": {"d": None, "c": [1.0, 2**70]}, "a": 1},
            ),
        ],
    )
    async def test_the_same_in_another_order_is_put_as_it_is(
        self, client: Client, workflow: Any, one: Any, other: Any
    ) -> None:
        assert [*{0, 8}] != [*{8, 0}]
        names: ScheduleOptions = {"metadata": {"a": "1", "b": "2"}}
        swapped: ScheduleOptions = {"metadata": {"b": "2", "a": "1"}}
        assert await client.schedules.put(Schedule("s", workflow, (one,), every=60, options=names))
        before = await client.storage.schedule("s")
        assert not await client.schedules.put(Schedule("s", workflow, (other,), every=60, options=swapped))
        assert await client.storage.schedule("s") == before

    @pytest.mark.parametrize(
        ("workflow", "one", "other"),
        [
            ("nobody_knows", [0, 8], [8, 0]),
            ("nobody_knows", {"a": 1}, {"a": True}),
            ("nobody_knows", {"a": 1}, {"a": 1.0}),
            (anything, [[1], 2], [[2], 1]),
            (tag, {0, 8}, {0, 9}),
            (sort, Tagged({0}), Tagged({0}, limit=2)),
        ],
    )
    async def test_other_arguments_are_an_edit(self, client: Client, workflow: Any, one: Any, other: Any) -> None:
        assert await client.schedules.put(Schedule("s", workflow, (one,), every=60))
        assert await client.schedules.put(Schedule("s", workflow, (other,), every=60))
        assert await client.schedules.put(Schedule("s", workflow, (one,), every=60))

    async def test_what_is_stored_and_fits_its_function_no_more_is_put_anew(self, client: Client) -> None:
        assert await client.schedules.put(Schedule("s", "tag", ("no set",), every=60))
        record = await client.storage.schedule("s")
        assert record is not None
        row = msgspec.structs.replace(record.row, kind="activity", queue="default", priority=2)
        assert await client.storage.put_schedule(row, record.serial, record.since, record.next_at)
        assert await client.schedules.put(Schedule("s", tag, ({1},), every=60))

    @pytest.mark.parametrize(
        "edit",
        [{"cron": "5 * * * *"}, {"overlap": "allow"}, {"missed": "all"}, {"options": {"queue": "q"}}, {"jitter": 1}],
    )
    async def test_an_edited_one_counts_from_now(
        self, client: Client, clock: ManualClock, edit: dict[str, Any]
    ) -> None:
        await client.schedules.put(hourly())
        clock.advance(timedelta(hours=5))
        assert await client.schedules.put(hourly(**edit))
        found = await known(client)
        assert found.next_at is not None
        assert found.next_at > clock.now()
        assert (found.created_at, found.changed_at) == (START, clock.now())
        await tick(client)
        assert (await known(client)).started == 0

    async def test_intervals_count_from_when_they_were_put(self, client: Client, clock: ManualClock) -> None:
        await client.schedules.put(Schedule("often", mail, ("ann",), every=timedelta(minutes=7)))
        found = await known(client, "often")
        assert found.upcoming(3) == [START + timedelta(minutes=n) for n in (7, 14, 21)]
        clock.advance(timedelta(minutes=8.5))
        await tick(client)
        assert (await known(client, "often")).next_at == START + timedelta(minutes=14)
        assert found.words() == "Every 7 min"

    async def test_a_paused_one_stays_so_when_it_is_edited(self, client: Client) -> None:
        await client.schedules.put(hourly())
        await client.schedules.pause("hourly")
        assert await client.schedules.put(hourly(overlap="allow"))
        found = await known(client)
        assert (found.paused_at, found.next_at, found.upcoming()) == (START, None, [])

    async def test_arguments_that_cannot_work_are_refused_where_they_are_put(self, client: Client) -> None:
        with pytest.raises(TypeError, match="mail of schedule 'bad' cannot be started.*too many"):
            await client.schedules.put(Schedule("bad", mail, ("ann", "ben"), every=60))
        with pytest.raises(TypeError, match="resize of schedule 'bad'"):
            await client.schedules.put(Schedule("bad", resize, ("wide",), every=60))
        with pytest.raises(EncodingError, match="schedule 'bad'"):
            await client.schedules.put(Schedule("bad", "mail", (object(),), every=60))
        with pytest.raises(ConfigurationError, match="retry= is for activities"):
            await client.schedules.put(Schedule("bad", checkout, (ORDER,), every=60, options={"retry": 2}))
        with pytest.raises(ConfigurationError, match="cannot be started: decorate it"):
            await client.schedules.put(Schedule("bad", print, (), every=60))
        assert await client.schedules.list() == []

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({}, "neither cron= nor every="),
            ({"cron": "0 * * * *", "every": 5}, "both cron= and every="),
            ({"cron": "61 * * * *"}, "'61' is no minute"),
            ({"cron": "0 0 */31 2 MON#5"}, "never comes"),
            ({"every": 0}, "expected 0.1 seconds to"),
            ({"every": -1}, "not negative"),
            ({"every": timedelta(days=400_000)}, "to 1,000 years"),
            ({"every": 5, "zone": "Mars/Base"}, "no time zone"),
            ({"every": 5, "missed": "some"}, "missed='some' is not one of skip, once, all"),
            ({"every": 5, "overlap": "queue"}, "overlap='queue' is not one of allow, skip, cancel"),
            ({"every": 5, "jitter": -1}, "jitter="),
            ({"every": 5, "options": {"key": "k"}}, "names 'key': its runs take limit, metadata, priority"),
            ({"every": 5, "options": {"queue": ""}}, "queue="),
            ({"every": 5, "options": "queue"}, "expected a dict"),
            ({"every": 5, "args": "ann"}, "expected a tuple"),
            ({"every": 5, "name": "a@b"}, "'@' is kept"),
            ({"every": 5, "name": ""}, "the schedule's name"),
            ({"every": 5, "workflow": ""}, "what schedule 'hourly' starts"),
        ],
    )
    def test_a_schedule_that_cannot_be_is_refused_where_it_is_made(self, given: dict[str, Any], why: str) -> None:
        with pytest.raises(ConfigurationError, match=why):
            Schedule(**{"name": "hourly", "workflow": "mail"} | given)

    async def test_what_is_no_schedule_cannot_be_put(self, client: Client) -> None:
        with pytest.raises(ConfigurationError, match="is no Schedule"):
            await client.schedules.put("hourly")  # type: ignore[arg-type]


class TestSealed:
    @pytest.mark.parametrize(
        ("before", "after", "sealed"),
        [
            (None, Encryption({"1": OLD}, "1"), "aes-gcm=1"),
            (Encryption({"1": OLD}, "1"), Encryption({"1": OLD, "2": NEW}, "2"), "aes-gcm=2"),
            (Encryption({"1": OLD}, "1"), [Compression(min_size=10), Encryption({"1": OLD}, "1")], "aes-gcm=1,zlib"),
            (Compression(min_size=10), Compression(min_size=10_000), ""),
        ],
    )
    async def test_what_is_put_as_it_is_is_sealed_as_it_would_be_now_and_that_is_no_edit(
        self, clock: ManualClock, before: Codecs | None, after: Codecs, sealed: str
    ) -> None:
        storage = MemoryStorage(clock)
        made = Schedule("s", mail, ("a" * 500,), every=60, missed="all")
        async with Client(storage, codec=before) as one, Client(storage, codec=after) as other:
            assert await one.schedules.put(made)
            clock.advance(timedelta(minutes=1500))
            await tick(one)
            then = await one.storage.schedule("s")
            assert then is not None
            assert then.behind
            assert not await other.schedules.put(made)
            stored, now = await storage.schedule("s"), await other.storage.schedule("s")
            assert stored is not None
            assert now is not None
            assert (sealed_by(stored.row.input), now.sealed_by) == (sealed, sealed)
            assert msgspec.structs.replace(now, serial=then.serial, sealed_by=then.sealed_by) == then
            assert not await other.schedules.put(made)
            assert await other.storage.schedule("s") == now

    async def test_one_that_cannot_be_opened_here_is_not_replaced(self, clock: ManualClock) -> None:
        storage = MemoryStorage(clock)
        async with Client(storage, codec=Encryption({"1": OLD}, "1")) as keyed, Client(storage) as plain:
            await keyed.schedules.put(hourly())
            before = await storage.schedule("hourly")
            for made in (hourly(), hourly(overlap="allow")):
                with pytest.raises(PayloadUnreadable, match="the input of schedule 'hourly' is sealed by 'aes-gcm'"):
                    await plain.schedules.put(made)
            assert await storage.schedule("hourly") == before
            assert await plain.schedules.delete("hourly")
            assert await plain.schedules.put(hourly())


class TestPause:
    async def test_a_pause_passes_ticks_over_and_the_end_of_it_counts_from_now(
        self, client: Client, clock: ManualClock
    ) -> None:
        await client.schedules.put(hourly(missed="all"))
        assert await client.schedules.pause("hourly")
        assert not await client.schedules.pause("hourly")
        clock.advance(timedelta(hours=5))
        await tick(client)
        assert await client.schedules.resume("hourly")
        assert not await client.schedules.resume("hourly")
        assert (await known(client)).next_at == datetime(2026, 3, 1, 18, tzinfo=UTC)
        await tick(client)
        assert (await known(client)).started == 0
        clock.advance(timedelta(hours=1))
        await tick(client)
        assert (await known(client)).started == 1

    async def test_an_unknown_one_is_told_by_its_name(self, client: Client) -> None:
        assert await client.schedules.get("none") is None
        assert not await client.schedules.delete("none")
        for verb in (client.schedules.pause, client.schedules.resume, client.schedules.trigger):
            with pytest.raises(ScheduleNotFound, match="no schedule 'none'") as caught:
                await verb("none")
            assert caught.value.name == "none"
        with pytest.raises(ScheduleNotFound):
            await client.schedules.backfill("none", START, START)

    async def test_a_deleted_one_starts_nothing_any_more(self, client: Client, clock: ManualClock) -> None:
        await client.schedules.put(hourly())
        assert await client.schedules.delete("hourly")
        clock.advance(timedelta(hours=5))
        await tick(client)
        assert await client.count() == 0


class TestTrigger:
    async def test_a_run_is_started_now_also_while_it_is_paused(self, client: Client) -> None:
        await client.schedules.put(hourly(options={"queue": "q"}))
        await client.schedules.pause("hourly")
        run = await client.schedules.trigger("hourly")
        assert run.created
        info = await run.info()
        assert (info.workflow, info.queue, info.status, info.key) == ("mail", "q", Status.PENDING, None)
        assert info.metadata == {"schedule": "hourly", "scheduled_for": "2026-03-01T12:10:00Z"}
        assert (await known(client)).runs == (run.id,)

    async def test_by_name_it_is_what_is_known_of_the_name(self, client: Client) -> None:
        await client.schedules.put(Schedule("any", "nobody_knows", (), every=60))
        run = await client.schedules.trigger("any")
        assert (await run.info()).version == 0


class TestBackfill:
    async def test_each_tick_of_a_span_gets_the_run_that_it_has_not(self, client: Client, clock: ManualClock) -> None:
        await client.schedules.put(hourly())
        clock.advance(timedelta(hours=2))
        await tick(client)
        day = START.replace(hour=0, minute=0)
        assert await client.schedules.backfill("hourly", day, day + timedelta(hours=24)) == 14
        assert await client.schedules.backfill("hourly", day, day + timedelta(hours=24)) == 0
        runs = (await client.list(RunFilter(metadata={"schedule": "hourly"}))).items
        keys = sorted(run.key for run in runs if run.key)
        assert keys == [f"hourly@2026-03-01T{hour:02}:00:00Z" for hour in range(15)]

    async def test_a_span_has_its_first_moment_and_not_its_last_and_nothing_that_is_yet_to_come(
        self, client: Client
    ) -> None:
        await client.schedules.put(hourly())
        begin = START.replace(hour=9, minute=0)
        assert await client.schedules.backfill("hourly", begin, begin + timedelta(hours=2)) == 2
        assert await client.schedules.backfill("hourly", begin, begin + timedelta(days=9)) == 2
        assert await client.schedules.backfill("hourly", begin + timedelta(days=2), begin + timedelta(days=9)) == 0

    async def test_a_span_that_begins_before_there_were_clocks_is_refused(self, client: Client) -> None:
        await client.schedules.put(hourly())
        await client.schedules.put(Schedule("often", mail, ("ann",), every=600))
        for since in (datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)):
            for name in ("hourly", "often"):
                with pytest.raises(ConfigurationError, match=r"since=.* is before the year 1970"):
                    await client.schedules.backfill(name, since, START)
        assert (
            await client.schedules.backfill("hourly", datetime(1970, 1, 1, tzinfo=UTC), START.min.replace(tzinfo=UTC))
            == 0
        )

    async def test_its_runs_are_in_nobodys_way_and_an_edited_schedule_has_ticks_of_its_own(
        self, client: Client, clock: ManualClock
    ) -> None:
        await client.schedules.put(hourly())
        begin = START - timedelta(hours=5)
        assert await client.schedules.backfill("hourly", begin, START) == 5
        await client.schedules.put(Schedule("hourly", anything, ("ann",), cron="0 * * * *"))
        assert await client.schedules.backfill("hourly", begin, START) == 5
        clock.advance(timedelta(hours=1))
        await tick(client)
        assert ((await known(client)).started, (await known(client)).skipped) == (1, 0)

    async def test_runs_of_large_arguments_are_started_fewer_at_a_time(self, clock: ManualClock) -> None:
        storage = Counting(clock)
        async with Client(storage) as client:
            await client.schedules.put(Schedule("large", mail, ("x" * 1_000_000,), every=600))
            assert await client.schedules.backfill("large", START - timedelta(hours=5), START) == 30
        assert max(storage.started) <= 8
        assert sum(storage.started) == 30

    async def test_intervals_go_back_beyond_when_they_were_put(self, client: Client) -> None:
        await client.schedules.put(Schedule("often", mail, ("ann",), every=600))
        assert await client.schedules.backfill("often", START - timedelta(minutes=30), START) == 3

    async def test_more_than_one_backfill_may_have_is_refused_as_a_whole(self, client: Client) -> None:
        await client.schedules.put(hourly(cron="* * * * *"))
        with pytest.raises(ConfigurationError, match="more than 10,000 ticks"):
            await client.schedules.backfill("hourly", START - timedelta(days=30), START)
        assert await client.count() == 0
        assert await client.schedules.backfill("hourly", START - timedelta(minutes=1500), START) == 1500

    async def test_times_without_a_zone_are_refused(self, client: Client) -> None:
        await client.schedules.put(hourly())
        with pytest.raises(ConfigurationError, match="since="):
            await client.schedules.backfill("hourly", datetime(2026, 1, 1), START)  # noqa: DTZ001 - what is refused


class Counting(MemoryStorage):
    """Writes down how many runs each start had."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.started: list[int] = []

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        self.started.append(len(runs))
        return await super().start(runs)


class Racing(MemoryStorage):
    """A storage in which somebody else puts, or fires, just before the first change is written."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.first: Any = None

    async def put_schedule(self, *given: Any, **more: Any) -> bool:
        first, self.first = self.first, None
        if first is not None:
            await first()
        return await super().put_schedule(*given, **more)


async def test_of_two_who_put_the_same_at_once_one_finds_it_there_and_no_tick_is_lost(clock: ManualClock) -> None:
    storage = Racing(clock)
    async with Client(storage) as client:
        await client.schedules.put(hourly())

        async def other() -> None:
            await client.schedules.put(hourly(overlap="allow"))
            clock.advance(timedelta(hours=1))

        storage.first = other
        assert not await client.schedules.put(hourly(overlap="allow"))
        await tick(client)
        assert (await known(client)).started == 1


async def test_what_is_put_on_a_condition_replaces_none_that_does_not_meet_it(clock: ManualClock) -> None:
    storage = Racing(clock)
    async with Client(storage) as client:

        async def other() -> None:
            await client.schedules.put(hourly(jitter=1))

        def refuse(there: ScheduleInfo | None) -> None:
            if there is not None:
                raise ValueError(f"{there.name} is taken")

        storage.first = other
        with pytest.raises(ValueError, match="taken"):
            await client.schedules.put(hourly(jitter=2), check=refuse)
        assert (await known(client)).jitter == 1
        with pytest.raises(ValueError, match="taken"):
            await client.schedules.put(hourly(jitter=1), check=refuse)


class Lossy(MemoryStorage):
    """A storage whose first reply to a trigger is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.triggered: list[NewRun] = []

    async def trigger(self, name: str, run: NewRun) -> Any:
        reply = await super().trigger(name, run)
        self.triggered.append(run)
        if len(self.triggered) == 1:
            raise StorageUnavailable("the reply was lost")
        return reply


async def test_a_trigger_whose_reply_was_lost_starts_one_run() -> None:
    storage = Lossy()
    async with Client(storage) as client:
        await client.schedules.put(hourly())
        run = await client.schedules.trigger("hourly")
        assert len(storage.triggered) == 2
        assert await client.count() == 1
        assert (await known(client)).runs == (run.id,)


def test_a_schedule_is_a_value() -> None:
    assert hourly() == hourly()
    assert hourly() != hourly(overlap="allow")
