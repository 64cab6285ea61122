"""Codecs around every stored payload: what is on disk, keys that change or are missing, payloads that were changed."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from runnerq.client.client import Client
from runnerq.client.schedule import Schedule
from runnerq.errors import NonRetryableError, PayloadTooLarge, PayloadUnreadable, ResultTimeout, RunFailed
from runnerq.persistence.records import RunFilter, Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.runtime.dead_letters import DeadLetter
from runnerq.serialization.chains import Codecs
from runnerq.serialization.compression import Compression
from runnerq.serialization.encryption import Encryption
from runnerq.serialization.sealing import SEALED
from runnerq.testing.crashes import explore_crashes
from runnerq.testing.environment import Environment
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage, Tapped

ROOT = Path(__file__).parents[2]
HUSHED = "4711-0815-hush"
OLD, NEW = secrets.token_bytes(32), secrets.token_bytes(32)
HUSH: Signal[str] = Signal("hush", str)
ONCE = RetryPolicy(max_attempts=1)
LATER = RetryPolicy(max_attempts=2, base=3600, jitter=0)

SEARCHED = {"metadata", "options", "schema"}
"""JSON columns that hold no payload."""
WORDS = {("event", "data")}
"""JSON that Postgres makes, of a text that may be sealed."""


def encryption(current: str = "old", **keys: bytes) -> Encryption:
    return Encryption(keys or {"old": OLD}, current)


def with_codec(stage: Stage, codec: Codecs | None) -> Stage:
    """The same storage and queue, through a client with this codec."""
    other = stage.on(stage.storage)
    other.base = Client(stage.storage, codec=codec)
    other.client = other.base.options(queue=stage.queue)
    return other


# --- a rich workflow, and where its secret would be -------------------------------------------------------------------


@activity
async def whisper(words: str) -> str:
    current().heartbeat({"heard": words})
    return words


@activity(retry=ONCE)
async def shout(words: str) -> str:
    raise NonRetryableError(words)


@activity(retry=LATER)
async def stumble(words: str) -> str:
    current().heartbeat(words)
    raise ConnectionError(words)


@activity
async def console(letter: DeadLetter) -> str:
    return f"{letter.input} {letter.error}"


@workflow
def confide(ctx: Context, words: str, round_: int = 1) -> Flow[dict[str, str]]:
    heard = yield from ctx.step(whisper, words)
    yield ctx.publish(heard=heard)
    if round_ == 1:
        ctx.continue_as_new(words, 2)
    sent = yield from ctx.signal(HUSH)
    child = yield from ctx.child(whisper, sent)
    spawned = yield ctx.spawn(whisper, sent)
    told = yield spawned.result()
    try:
        yield from ctx.step(shout, words)
    except NonRetryableError as error:
        child += str(error)
    return {heard: child + told}


async def keeping(connection: asyncpg.Connection, words: str) -> str:
    return str(await connection.fetchval("select $1::text", words))


@workflow
def keep(ctx: Context, words: str) -> Flow[str]:
    return (yield from ctx.transaction(keeping, words))


@workflow
def trip(ctx: Context, words: str) -> Flow[str]:
    return (yield from ctx.step(stumble, words))


@workflow
def break_down(ctx: Context, words: str) -> Flow[None]:
    yield ctx.step(whisper, words)
    raise LookupError(words)


@activity(retry=RetryPolicy(max_attempts=1), on_dead_letter=console)
async def despair(words: str) -> None:
    raise ConnectionError(words)


FUNCTIONS = (confide, trip, break_down, whisper, shout, stumble, despair, console)


async def live_it(stage: Stage, key: str = "a-key") -> list[str]:
    """Put the secret everywhere; the ids of the runs that keep it."""
    async with stage.serving(*FUNCTIONS) as client:
        confided = await client.options(metadata={"team": "shop"}, key=key).start(confide, HUSHED)
        await confided.send(HUSH, HUSHED)
        assert await confided.result(timeout=SOON) == {HUSHED: HUSHED * 3}
        assert await confided.state() == {"heard": HUSHED}
        parked = await client.options(signals=[("other", HUSHED)]).start(confide, HUSHED)
        await parked.reached(Status.WAITING, timeout=SOON)
        tripped = await client.start(trip, HUSHED)
        await tripped.reached(Status.WAITING, timeout=SOON)
        broken = await client.start(break_down, HUSHED)
        await broken.reached(Status.BLOCKED, timeout=SOON)
        lost = await client.start(despair, HUSHED)
        with pytest.raises(RunFailed, match=HUSHED):
            await lost.result(timeout=SOON)
        [letter] = (await client.list(RunFilter(workflow="console", queue=stage.queue))).items
        assert HUSHED in await client.handle(letter.id).result(timeout=SOON)
        return [confided.id, parked.id, tripped.id, broken.id, lost.id]


async def tables(connection: asyncpg.Connection) -> dict[str, dict[str, str]]:
    """Every table of ours, with its columns and their types."""
    found = await connection.fetch(
        "select table_name, column_name, data_type from information_schema.columns where table_schema = 'runnerq'"
    )
    every: dict[str, dict[str, str]] = {}
    for row in found:
        every.setdefault(row["table_name"], {})[row["column_name"]] = row["data_type"]
    return every


async def shows(connection: asyncpg.Connection, needle: str) -> set[tuple[str, str]]:
    """The columns in which this text stands, of all columns of all tables."""
    return {
        (table, column)
        for table, columns in (await tables(connection)).items()
        for column in columns
        if await connection.fetchval(
            f'select count(*) from runnerq.{table} where strpos("{column}"::text, $1) > 0', needle
        )
    }


PAYLOADS = {
    ("run", "input"), ("journal", "value"), ("outcome", "result"), ("outcome", "error"), ("attempt", "error"),
    ("attempt", "details"), ("signal", "value"), ("state", "value"), ("block", "message"), ("block", "traceback"),
    ("event", "data"),
}  # fmt: skip


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    opened = await asyncpg.connect(database)
    yield opened
    await opened.close()


@asynccontextmanager
async def a_stage(dsn: str, codec: Codecs | None) -> AsyncIterator[Stage]:
    from runnerq.persistence.postgres import PostgresStorage

    stage = with_codec(Stage(PostgresStorage(dsn), cache=0), codec)
    async with stage.base:
        yield stage


class TestWhatIsOnDisk:
    async def test_without_a_codec_a_secret_stands_in_every_column_that_holds_payloads(
        self, database: str, connection: asyncpg.Connection
    ) -> None:
        async with a_stage(database, None) as stage:
            await live_it(stage)
        assert await shows(connection, HUSHED) == PAYLOADS

    async def test_with_encryption_no_column_of_any_table_shows_it_and_all_payloads_are_sealed(
        self, database: str, connection: asyncpg.Connection
    ) -> None:
        async with a_stage(database, [Compression(), encryption()]) as stage:
            ids = await live_it(stage)
            told = [await stage.client.export(each) for each in ids]
        assert await shows(connection, HUSHED) == set()
        for table, columns in (await tables(connection)).items():
            for column, type_ in columns.items():
                if type_ != "json" or column in SEARCHED or (table, column) in WORDS:
                    continue
                plain = await connection.fetch(
                    f'select "{column}"::text from runnerq.{table} where not starts_with("{column}"::text, $1)', SEALED
                )
                assert plain == [], f"{table}.{column}"
        # What is searched stays plain, and who has the key reads all of it.
        assert await shows(connection, "a-key") == {("run", "key"), ("key", "key")}
        assert await shows(connection, '"team":"shop"') == {("run", "metadata")}
        assert all(HUSHED in json.dumps(each) for each in told)

    async def test_what_a_blocked_run_says_is_sealed_and_read_by_who_has_the_key(
        self, database: str, connection: asyncpg.Connection
    ) -> None:
        async with a_stage(database, encryption()) as stage:
            before = (await stage.client.storage.events(None, 1)).cursor
            async with stage.serving(*FUNCTIONS) as client:
                broken = await client.start(break_down, HUSHED)
                await broken.reached(Status.BLOCKED, timeout=SOON)
            block = await stage.client.storage.block(broken.id)
            assert block is not None
            assert block.message == f"LookupError: {HUSHED}"
            assert f"LookupError: {HUSHED}" in (block.traceback or "")
            events = (await stage.client.storage.events(before, 10)).events
            [told] = [json.loads(event.data or "") for event in events if event.kind == "blocked"]
            assert told["message"] == f"LookupError: {HUSHED}"
        assert await shows(connection, HUSHED) == set()

    async def test_transactions_schedules_and_starts_in_a_callers_transaction_are_sealed_too(
        self, database: str, connection: asyncpg.Connection
    ) -> None:
        async with a_stage(database, encryption()) as stage, stage.serving(keep, whisper) as client:
            kept = await client.start(keep, HUSHED)
            assert await kept.result(timeout=SOON) == HUSHED
            await client.schedules.put(
                Schedule("nightly", whisper, (HUSHED,), cron="0 0 1 1 *", options={"queue": stage.queue})
            )
            triggered = await client.schedules.trigger("nightly")
            assert await triggered.result(timeout=SOON) == HUSHED
            [shown] = await client.schedules.list()
            async with connection.transaction():
                joined = await client.options(connection=connection).start(whisper, HUSHED)
            assert await joined.result(timeout=SOON) == HUSHED
        assert shown.args == [HUSHED]
        assert await shows(connection, HUSHED) == set()

    async def test_the_keys_that_are_in_use_can_be_counted(self, database: str, connection: asyncpg.Connection) -> None:
        """By the statement of docs/guides/payloads.md, and whatever column of whatever table they are in."""
        guide = (ROOT / "docs/guides/payloads.md").read_text()
        [statement] = re.findall(r"```sql\n(.*?)```", guide, re.DOTALL)
        both = Encryption({"old": OLD, "new": NEW}, "new")
        async with a_stage(database, encryption()) as stage:
            await live_it(stage)
            await stage.client.schedules.put(Schedule("yearly", whisper, (HUSHED,), cron="0 0 1 1 *"))
        async with a_stage(database, both) as rotated:
            [_, parked, *_] = await live_it(rotated, "another-key")
            await rotated.client.send(parked, "unread", HUSHED)
        stored = {
            key: [
                count
                for table, columns in (await tables(connection)).items()
                for column in columns
                if (
                    count := await connection.fetchval(
                        f'select count(*) from runnerq.{table} where strpos("{column}"::text, $1) > 0',
                        f"aes-gcm={key}:",
                    )
                )
            ]
            for key in ("old", "new")
        }
        # Of all that can hold a payload, but for what only a run that diverged has.
        assert len(stored["old"]) >= len(PAYLOADS)
        counted = {row["sealed_by"]: row["count"] for row in await connection.fetch(statement)}
        assert counted == {f"aes-gcm={key}": sum(counts) for key, counts in stored.items()}


# --- on both backends -------------------------------------------------------------------------------------------------


async def test_a_rich_workflow_is_the_same_with_codecs_live_and_on_replay(stage: Stage) -> None:
    sealed = with_codec(stage, [Compression(min_size=20), encryption()])
    [confided, *_] = await live_it(sealed)
    entries = await sealed.client.history(confided)
    assert [(entry.kind, entry.value) for entry in entries if entry.kind == "signal"] == [("signal", HUSHED)]
    [failed] = [entry for entry in entries if entry.error is not None]
    assert failed.error is not None
    assert failed.error.message == HUSHED


async def test_a_fork_opens_what_it_copies_and_seals_it_anew(plain_stage: Stage) -> None:
    sealed = with_codec(plain_stage, encryption())
    async with sealed.serving(*FUNCTIONS) as client:
        run = await client.start(confide, HUSHED, 2)
        await run.send(HUSH, HUSHED)
        await run.result(timeout=SOON)
        forked = await client.fork(run.id, from_entry="3")
        await forked.send(HUSH, "other")
        assert await forked.result(timeout=SOON) == {HUSHED: f"other{HUSHED}other"}


async def test_runs_of_before_the_codec_go_on_with_it(plain_stage: Stage) -> None:
    async with plain_stage.serving(*FUNCTIONS) as client:
        run = await client.start(confide, HUSHED, 2)
        await run.reached(Status.WAITING, timeout=SOON)
    async with with_codec(plain_stage, encryption()).serving(*FUNCTIONS) as client:
        again = client.handle(run.id, returns=dict[str, str])
        await again.send(HUSH, HUSHED)
        assert await again.result(timeout=SOON) == {HUSHED: HUSHED * 3}
        journal = await plain_stage.storage.journal(run.id)
    assert journal is not None
    assert [row.value is not None and row.value.startswith(SEALED) for row in journal.rows][:2] == [False, False]
    assert all(row.value is None or row.value.startswith(SEALED) for row in journal.rows[-2:])


async def test_keys_are_changed_while_runs_are_open(plain_stage: Stage) -> None:
    before = with_codec(plain_stage, encryption())
    async with before.serving(*FUNCTIONS) as client:
        run = await client.start(confide, HUSHED, 2)
        await run.reached(Status.WAITING, timeout=SOON)
    after = with_codec(plain_stage, encryption("new", old=OLD, new=NEW))
    async with after.serving(*FUNCTIONS) as client:
        await client.send(run.id, HUSH, HUSHED)
        assert await client.handle(run.id, returns=dict[str, str]).result(timeout=SOON) == {HUSHED: HUSHED * 3}
    journal = await plain_stage.storage.journal(run.id)
    assert journal is not None
    keys = [value.split(":")[1] for row in journal.rows if (value := row.value) is not None]
    assert keys[0] == "aes-gcm=old"
    assert keys[-1] == "aes-gcm=new"


OTHERS: Mapping[str, tuple[Codecs | None, str]] = {
    "another key": (Encryption({"new": NEW}, "new"), "'aes-gcm' with the key 'old', and this process has no such key"),
    "a wrong key of that name": (Encryption({"old": NEW}, "old"), "the key of that name is another one"),
    "no codec": (None, "this process has no such key: give it to connect(codec=...)"),
}
every_other = pytest.mark.parametrize(("codec", "why"), OTHERS.values(), ids=OTHERS.keys())


@every_other
async def test_a_worker_that_cannot_read_a_run_does_not_fail_it_but_is_at_fault_itself(
    plain_stage: Stage, codec: Codecs | None, why: str
) -> None:
    sealed = with_codec(plain_stage, encryption())
    runs = [await sealed.client.start(confide, HUSHED, 2), await sealed.client.start(whisper, HUSHED)]
    async with with_codec(plain_stage, codec).serving(*FUNCTIONS):
        for run in runs:
            await run.reached(Status.BLOCKED, timeout=SOON)
            block = await plain_stage.storage.block(run.id)
            assert block is not None
            # No build is to blame, and it is tried again by itself.
            assert (block.builds, block.retry_at is not None) == ((), True)
            shown = await with_codec(plain_stage, codec).client.storage.block(run.id)
            assert shown is not None
            assert why in shown.message
            assert f"the input of run {run.id}" in shown.message
    for run in runs:
        assert await with_codec(plain_stage, codec).client.retry(run.id)
    async with sealed.serving(*FUNCTIONS) as client:
        await client.send(runs[0].id, HUSH, HUSHED)
        assert await runs[0].result(timeout=SOON) == {HUSHED: HUSHED * 3}
        assert await runs[1].result(timeout=SOON) == HUSHED


async def test_a_signal_that_nobody_will_read_blocks_no_activity(plain_stage: Stage) -> None:
    ours, theirs = with_codec(plain_stage, encryption()), with_codec(plain_stage, encryption("new", new=NEW))
    run = await ours.client.start(whisper, HUSHED)
    await theirs.client.send(run.id, "anything", HUSHED)
    async with ours.serving(whisper):
        assert await run.result(timeout=SOON) == HUSHED


@pytest.mark.parametrize("holds", [False, True], ids=["parked", "held"])
async def test_a_signal_that_cannot_be_read_blocks_its_run_and_is_not_consumed(
    plain_stage: Stage, *, holds: bool
) -> None:
    begun = asyncio.Event()

    async def linger() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    def wait(ctx: Context) -> Flow[str]:
        if holds:
            winner = yield ctx.race(ctx.step(linger), ctx.signal(HUSH))
            return str(winner.value)
        return (yield from ctx.signal(HUSH))

    sealed = with_codec(plain_stage, encryption())
    other = with_codec(plain_stage, Encryption({"new": NEW, "old": OLD}, "new"))
    async with sealed.serving(wait, beat=0.05) as client:
        run = await client.start(wait)
        await (begun.wait() if holds else run.reached(Status.WAITING, timeout=SOON))
        await other.client.send(run.id, HUSH, HUSHED)
        await run.reached(Status.BLOCKED, timeout=SOON)
        block = await client.storage.block(run.id)
        assert block is not None
        assert "signal 'hush'" in block.message
        assert "'new'" in block.message
    assert await client.retry(run.id)
    async with other.serving(wait):
        assert await other.client.handle(run.id, returns=str).result(timeout=SOON) == HUSHED


@every_other
async def test_a_client_that_cannot_read_says_which_payload_of_which_run_and_shows_what_needs_none(
    plain_stage: Stage, codec: Codecs | None, why: str
) -> None:
    sealed = with_codec(plain_stage, encryption())
    async with sealed.serving(*FUNCTIONS) as client:
        run = await client.start(confide, HUSHED, 2)
        await run.send(HUSH, HUSHED)
        await run.result(timeout=SOON)
    blind = with_codec(plain_stage, codec).client
    handle = blind.handle(run.id)
    assert await handle.status() is Status.COMPLETED
    listed = await blind.list(RunFilter(queue=plain_stage.queue, workflow="confide"))
    assert [info.id for info in listed.items] == [run.id]
    reads: list[tuple[Callable[[], Any], str]] = [
        (lambda: handle.result(timeout=SOON), "the result"),
        (handle.state, "the published state"),
        (handle.history, "row 0"),
        (lambda: blind.export(run.id), "row 0"),
        (lambda: blind.fork(run.id, from_entry="1"), "the input"),
    ]
    for read, entry in reads:
        with pytest.raises(PayloadUnreadable) as refused:
            await read()
        assert (refused.value.run_id, refused.value.key) == (run.id, "old")
        assert refused.value.entry.startswith(entry)
        assert why in str(refused.value)


@every_other
async def test_what_is_shown_without_the_key_says_that_it_is_sealed(
    plain_stage: Stage, codec: Codecs | None, why: str
) -> None:
    sealed = with_codec(plain_stage, encryption())
    blind = with_codec(plain_stage, codec).client
    schedule = f"yearly-{plain_stage.queue}"
    await sealed.client.schedules.put(Schedule(schedule, whisper, (HUSHED,), cron="0 0 1 1 *"))
    cursor = (await blind.storage.events(None, 1)).cursor
    async with sealed.serving(*FUNCTIONS) as client:
        lost, broken = await client.start(shout, HUSHED), await client.start(break_down, HUSHED)
        with pytest.raises(RunFailed):
            await lost.result(timeout=SOON)
        await broken.reached(Status.BLOCKED, timeout=SOON)
    error = (await blind.handle(lost.id).info()).error
    assert error is not None
    assert (error.type, why in error.message) == ("PayloadUnreadable", True)
    found = await blind.schedules.get(schedule)
    assert found is not None
    assert (found.args, why in (found.sealed or "")) == (None, True)
    with pytest.raises(ResultTimeout) as late:
        await blind.handle(broken.id).result(timeout=0)
    assert f"why it is blocked of run {broken.id} is sealed by 'aes-gcm' with the key 'old'" in str(late.value)
    async for event in blind.events(cursor):
        if (event.kind, event.run_id) == ("blocked", broken.id):
            assert why in event.data["message"]
            break
    with pytest.raises(PayloadUnreadable):
        await blind.retry(broken.id, accept="arguments")


async def test_a_payload_that_was_moved_to_another_run_is_not_read_there(
    on_postgres: Stage, shared_database: str
) -> None:
    sealed = with_codec(on_postgres, encryption())
    mine, other = await sealed.client.start(whisper, "mine"), await sealed.client.start(whisper, "another's")
    connection = await asyncpg.connect(shared_database)
    await connection.execute(
        "update runnerq.run set input = (select input from runnerq.run where id = $1) where id = $2", mine.id, other.id
    )
    await connection.close()
    async with sealed.serving(*FUNCTIONS):
        assert await mine.result(timeout=SOON) == "mine"
        await other.reached(Status.BLOCKED, timeout=SOON)
        block = await sealed.client.storage.block(other.id)
    assert block is not None
    assert "it was changed since it was written, or is not where it was written" in block.message


async def test_the_limit_is_of_the_plain_payload(plain_stage: Stage) -> None:
    client = Client(plain_stage.storage, codec=Compression(min_size=0), payload_limit=10_000)
    await client.start(whisper, "x" * 9_000)
    with pytest.raises(PayloadTooLarge, match="the limit is 10,000"):
        await client.start(whisper, "x" * 10_000)


class Picky:
    """Fails on what is bad, but for what runs are started with."""

    name = "picky"

    def encode(self, payload: bytes, place: bytes, /) -> bytes | None:
        if b"bad" in payload and b"input" not in place:
            raise ValueError("not that")
        return None

    def decode(self, payload: bytes, place: bytes, /) -> bytes:
        return payload


async def test_a_codec_that_fails_in_a_turn_blocks_that_run_alone(plain_stage: Stage) -> None:
    picky = with_codec(plain_stage, Picky())
    async with picky.serving(*FUNCTIONS) as client:
        bad, good = await client.start(whisper, "bad"), await client.start(whisper, "good")
        assert await good.result(timeout=SOON) == "good"
        await bad.reached(Status.BLOCKED, timeout=SOON)


async def test_a_codec_that_fails_on_heartbeat_details_costs_those_details_and_nothing_else(
    plain_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    tapped = Tapped(plain_stage.storage)
    go, beaten, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    @activity
    async def say(words: str) -> str:
        current().heartbeat(words)
        await go.wait()
        return "said"

    def listen() -> None:
        if any(details.text == '"good"' for details in tapped.details):
            loop.call_soon_threadsafe(beaten.set)

    picky = with_codec(plain_stage.on(tapped), Picky())
    with caplog.at_level(logging.WARNING, "runnerq"):
        async with picky.serving(say, beat=0.05) as client:
            runs = [await client.start(say, words) for words in ("bad", "good")]
            tapped.beaten = listen
            for _ in range(2):
                # By then what was said is written, and a beat that had failed would have been told.
                await asyncio.wait_for(beaten.wait(), SOON)
                beaten.clear()
            go.set()
            assert [await run.result(timeout=SOON) for run in runs] == ["said", "said"]
    assert {details.text for details in tapped.details} == {'"good"'}
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"run {runs[0].id}: the details of '' are not kept: the details at ")
    assert [tapped.claimed(run.id) for run in runs] == [1, 1]


# --- codecs that come and go ------------------------------------------------------------------------------------------


SIDE_BY_SIDE: Mapping[str, tuple[Codecs | None, Codecs | None]] = {
    "before encryption is read": (None, Encryption({"old": OLD}, None)),
    "before all encrypt": (Encryption({"old": OLD}, None), encryption()),
    "before compression is read": (None, Compression(min_size=None)),
    "before all compress": (Compression(min_size=None), Compression(min_size=0)),
    "before both": ([Compression(min_size=None), Encryption({"old": OLD}, None)], [Compression(), encryption()]),
}


@pytest.mark.parametrize(("one", "other"), SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE.keys())
async def test_each_step_of_introducing_a_codec_or_taking_it_away_leaves_all_workers_reading_all(
    plain_stage: Stage, one: Codecs | None, other: Codecs | None
) -> None:
    # Nothing is kept of parked runs: whoever takes one up reads what another one wrote.
    plain_stage.cache = 0
    sides = [with_codec(plain_stage, codec) for codec in (one, other)]
    async with sides[0].serving(*FUNCTIONS) as client, sides[1].serving(*FUNCTIONS) as also:
        runs = [await each.start(confide, "x" * 2000, 2) for each in (client, also) * 5]
        for number, run in enumerate(runs):
            await (also if number % 3 else client).send(run.id, HUSH, HUSHED)
        for run in runs:
            assert list((await run.result(timeout=SOON)).values()) == [HUSHED + "x" * 2000 + HUSHED]


# --- the testing kit --------------------------------------------------------------------------------------------------


async def test_an_environment_takes_a_codec_and_its_journals_are_plain() -> None:
    async with Environment([confide], [whisper, shout], codec=[Compression(min_size=10), encryption()]) as env:
        run = await env.start(confide, HUSHED)
        await env.send(run.id, HUSH, HUSHED)
        assert await run.result() == {HUSHED: HUSHED * 3}
        stored = await env.stage.storage.run(run.id)
        assert stored is not None
        assert (stored.input or "").startswith(SEALED)
        assert HUSHED in json.dumps(env.journals())


async def test_crashes_at_every_commit_change_nothing_with_a_codec() -> None:
    report = await explore_crashes(
        confide, HUSHED, activities=[whisper, shout], signals=[(HUSH, HUSHED)], codec=encryption()
    )
    assert report.result == {HUSHED: HUSHED * 3}
    assert report.crashes > 10
