"""Wake-ups between processes: what is told, to whom, and what becomes of it when listening fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
import msgspec
import pytest

from runnerq.persistence.postgres import PostgresStorage, changes
from runnerq.persistence.postgres.changes import PAYLOAD_LIMIT, payloads
from runnerq.persistence.records import Definition, Wake
from runnerq.testing.conformance.world import COMPLETED, a_holder, a_run


class Ears:
    """Hears a storage's wakes, and waits for one."""

    def __init__(self, storage: PostgresStorage) -> None:
        self._wakes: asyncio.Queue[Wake] = asyncio.Queue()
        storage.subscribe(self._wakes.put_nowait)

    async def hear(self, is_it: Callable[[Wake], bool]) -> Wake:
        """The next wake that is it."""
        async with asyncio.timeout(30):
            while not is_it(wake := await self._wakes.get()):
                pass
        return wake


@asynccontextmanager
async def opened(dsn: str, schema: str = "runnerq") -> AsyncIterator[PostgresStorage]:
    """One that listens: where that takes longer than to open it may, it begins with a look at everything."""
    storage = PostgresStorage(dsn, schema=schema)
    await storage.open()
    try:
        async with asyncio.timeout(30):
            await storage._changes._listening.wait()
        yield storage
    finally:
        await storage.close()


@pytest.fixture
async def here(database: str) -> AsyncIterator[PostgresStorage]:
    async with opened(database) as storage:
        yield storage


@pytest.fixture
async def there(database: str) -> AsyncIterator[PostgresStorage]:
    async with opened(database) as storage:
        yield storage


class TestPayloads:
    def test_a_small_wake_is_one_note(self) -> None:
        wake = Wake(queues=frozenset("ab"), workers=frozenset({2**62}), runs=frozenset({"x"}))
        [note] = _notes(wake)
        assert note == {"origin": "me", "queues": ["a", "b"], "workers": [2**62], "runs": ["x"]}

    def test_more_runs_than_fit_are_many(self) -> None:
        wake = Wake(queues=frozenset("a"), runs=frozenset(f"{number:036}" for number in range(300)))
        [note] = _notes(wake)
        assert note == {"origin": "me", "queues": ["a"], "many_runs": True}

    def test_more_queues_and_workers_than_fit_are_several_notes(self) -> None:
        queues = frozenset(f"queue-{number:0500}-é" for number in range(40))
        workers = frozenset(range(2**61, 2**61 + 1000))
        notes = _notes(Wake(queues=queues, workers=workers))
        assert len(notes) > 1
        assert {queue for note in notes for queue in note.get("queues", ())} == queues
        assert {worker for note in notes for worker in note.get("workers", ())} == workers

    def test_a_name_that_fits_in_no_note_is_left_to_polling(self) -> None:
        assert _notes(Wake(queues=frozenset({"q" * 9000, "r"}))) == [{"origin": "me", "queues": ["r"]}]


class TestOtherProcesses:
    async def test_they_hear_which_queues_have_ready_runs(self, here: PostgresStorage, there: PostgresStorage) -> None:
        ears = Ears(there)
        await here.start([a_run(queue="left")])
        await ears.hear(lambda wake: "left" in wake.queues)

    async def test_they_hear_which_queues_have_runs_that_were_adopted_and_nothing_of_a_look_in_vain(
        self, here: PostgresStorage, there: PostgresStorage
    ) -> None:
        await here.start([a_run(version=0, queue="left")])
        heard: list[Wake] = []
        there.subscribe(heard.append)
        known = [Definition(kind="workflow", name="order", version=1, queue="left", build="b1")]
        assert [await here.adopt(known, 10) for _ in range(3)] == [1, 0, 0]
        ears = Ears(there)
        await here.start([a_run(queue="last")])
        await ears.hear(lambda wake: "last" in wake.queues)
        assert [wake for wake in heard if wake.many_runs] == []
        assert {queue for wake in heard for queue in wake.queues} == {"left", "last"}

    async def test_they_hear_which_runs_have_ended(self, here: PostgresStorage, there: PostgresStorage) -> None:
        ears = Ears(there)
        holder = await a_holder(here)
        run = await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        await ears.hear(lambda wake: run.id in wake.runs)

    async def test_what_is_told_last_before_closing_is_heard(self, database: str, there: PostgresStorage) -> None:
        ears = Ears(there)
        async with opened(database) as storage:
            await storage.start([a_run(queue="first")])
            await storage.start([a_run(queue="last")])
        await ears.hear(lambda wake: "last" in wake.queues)

    async def test_what_one_tells_itself_is_heard_once(self, here: PostgresStorage, there: PostgresStorage) -> None:
        ears, heard = Ears(there), []
        here.subscribe(heard.append)
        await here.start([a_run(queue="mine")])
        await ears.hear(lambda wake: "mine" in wake.queues)
        await there.start([a_run(queue="theirs")])
        await Ears(here).hear(lambda wake: "theirs" in wake.queues)
        assert sum("mine" in wake.queues for wake in heard) == 1

    async def test_a_burst_is_told_in_few_notes(
        self, here: PostgresStorage, there: PostgresStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changes, "GATHER", 0.3)
        heard: list[Wake] = []
        there.subscribe(heard.append)
        ears = Ears(there)
        for number in range(50):
            await here.start([a_run(queue=f"q{number}")])
        await ears.hear(lambda wake: "q49" in wake.queues)
        told = [wake for wake in heard if wake.queues]
        assert frozenset().union(*(wake.queues for wake in told)) == {f"q{number}" for number in range(50)}
        assert len(told) < 25

    async def test_those_of_another_schema_hear_nothing(self, database: str, here: PostgresStorage) -> None:
        async with opened(database, "other") as theirs, opened(database, "other") as mine:
            ears, heard = Ears(mine), []
            mine.subscribe(heard.append)
            await here.start([a_run(queue="here")])
            await theirs.start([a_run(queue="there")])
            await ears.hear(lambda wake: "there" in wake.queues)
        assert not any("here" in wake.queues for wake in heard)

    async def test_words_of_another_version_are_a_reason_to_look(self, database: str, there: PostgresStorage) -> None:
        ears = Ears(there)
        connection = await asyncpg.connect(database)
        for payload in ("", "2 hello", '{"origin": 7}'):
            await connection.execute("select pg_notify('runnerq_runnerq', $1)", payload)
            await ears.hear(lambda wake: wake.many_runs)
        await connection.close()

    async def test_who_no_longer_subscribes_hears_nothing(self, here: PostgresStorage) -> None:
        heard: list[Wake] = []
        end = here.subscribe(heard.append)
        end()
        end()
        await here.start([a_run()])
        assert heard == []


class TestListening:
    async def test_a_listener_whose_backend_was_killed_listens_again_and_looks_at_everything(
        self, database: str, here: PostgresStorage, there: PostgresStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ears = Ears(there)
        connection = await asyncpg.connect(database)
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_notify%'"
            " and datname = current_database() and pid <> pg_backend_pid()"
        )
        await connection.close()
        await ears.hear(lambda wake: wake.many_runs)
        await here.start([a_run(queue="after")])
        await ears.hear(lambda wake: "after" in wake.queues)

    async def test_a_listener_that_does_not_hear_itself_is_made_anew(
        self, database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changes, "PROBE_INTERVAL", 0.01)
        monkeypatch.setattr(changes, "PROBE_PATIENCE", 0.2)
        monkeypatch.setattr(changes, "_PAUSE", 0.01)
        async with opened(database) as storage:
            ears = Ears(storage)
            listening = storage._changes._listener
            assert listening is not None
            # As it is behind some poolers, or on a connection that died without a word: nothing comes any more.
            listening._listeners.clear()
            await ears.hear(lambda wake: wake.many_runs)
            assert storage._changes._listener is not listening

    async def test_without_listening_everything_moves(self, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        async def deaf(self: changes.Changes) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(changes.Changes, "_listen", deaf)
        monkeypatch.setattr(changes, "FIRST_PATIENCE", 0.01)
        storage = PostgresStorage(database)
        await storage.open()
        holder = await a_holder(storage)
        run = await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        [outcome] = await storage.outcomes([run.id])
        assert outcome.status == "completed"
        await storage.close()


def _notes(wake: Wake) -> list[dict[str, object]]:
    texts = payloads("me", wake)
    assert all(len(text.encode()) <= PAYLOAD_LIMIT for text in texts)
    return [msgspec.json.decode(text) for text in texts]
