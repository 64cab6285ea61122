"""Connections that fail at the worst moment: replies that are lost, silence, a frozen server, none left to be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import asyncpg
import psutil
import pytest

from runnerq.errors import StorageUnavailable
from runnerq.persistence.postgres import PostgresStorage, changes, connections, heart
from runnerq.persistence.records import GOING, Move, Park, Turn, Verdict, Wake
from runnerq.testing.conformance.world import COMPLETED, Holder, a_holder, a_row, a_run, a_signal, look, rows_of
from tests.faults.proxy import Fate, Link, Proxy, pass_all
from tests.faults.server import Server
from tests.pgbouncer import pgbouncer
from tests.postgres import a_template, fresh_database, open_folder, run_apart, server_folder

T = TypeVar("T")

PATIENCE = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of the module's own: it is frozen and exhausted."""
    with server_folder() as folder:
        server = Server(folder)
        run_apart(server.start())
        yield server
        run_apart(server.stop())


@pytest.fixture(scope="module")
def own_template(server: Server) -> Iterator[str]:
    with a_template(server.dsn) as name:
        yield name


@pytest.fixture
def own_database(server: Server, own_template: str) -> Iterator[str]:
    with fresh_database(server.dsn, template=own_template) as dsn:
        yield dsn


@pytest.fixture
async def proxy(own_database: str) -> AsyncIterator[Proxy]:
    """Before the server."""
    async with a_proxy(own_database) as proxy:
        yield proxy


@asynccontextmanager
async def a_proxy(dsn: str) -> AsyncIterator[Proxy]:
    with open_folder() as folder:
        proxy = Proxy(folder, dsn)
        yield proxy
        await proxy.close()


@asynccontextmanager
async def opened(dsn: str, direct_dsn: str | None = None) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(dsn, direct_dsn=direct_dsn)
    await storage.open()
    try:
        yield storage
    finally:
        await storage.close()


@pytest.fixture(params=["direct", "pooled"])
async def way(request: pytest.FixtureRequest, own_database: str) -> AsyncIterator[tuple[PostgresStorage, Proxy]]:
    """A storage behind a proxy, and that: before the server, and before a pooler."""
    async with AsyncExitStack() as stack:
        before = own_database
        if request.param == "pooled":
            before = stack.enter_context(pgbouncer(own_database))
        proxy = await stack.enter_async_context(a_proxy(before))
        storage = await stack.enter_async_context(opened((await proxy.door("way")).dsn))
        yield storage, proxy


class Loses:
    """A rule: the answer to the first of these statements is lost, and the connection with it."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.lost = 0

    def __call__(self, _link: Link, name: str) -> Fate:
        if self.lost or name not in self._names:
            return Fate.PASS
        self.lost = 1
        return Fate.CUT


class LosesEnd:
    """The same, for what is a transaction's: the answer to its commit is lost."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun: Link | None = None
        self.lost = 0

    def __call__(self, link: Link, name: str) -> Fate:
        if self._begun is link and not self.lost:
            self.lost = 1
            return Fate.CUT
        if name == self._name:
            self._begun = link
        return Fate.PASS


COMMITS = ("append_one", "append", "commit", "end_runs")


class TestLostReplies:
    @pytest.mark.parametrize(
        ("move", "verdict", "rows"),
        [
            (GOING, Verdict.DONE, 1),
            (Park(signals=("other",)), Verdict.DONE, 1),
            (Park(signals=("go",)), Verdict.AGAIN, 1),
            (COMPLETED, Verdict.DONE, 1),
            (COMPLETED, Verdict.DONE, 0),
        ],
        ids=["a row", "a park", "a park to do again", "the last turn", "the last turn alone"],
    )
    async def test_a_commit_whose_reply_was_lost_counts_once_and_gets_its_verdict_again(
        self, way: tuple[PostgresStorage, Proxy], move: Move, verdict: Verdict, rows: int
    ) -> None:
        storage, proxy = way
        holder = await a_holder(storage)
        run = await holder.start(a_run())
        if verdict is Verdict.AGAIN:
            # What this turn has not seen.
            await storage.send([a_signal(run.id)])
        rule = Loses(*COMMITS)
        proxy.set(rule)
        turn = Turn(run_id=run.id, token=run.token, seen=run.seen, move=move, rows=(a_row(0),)[:rows])
        with pytest.raises(StorageUnavailable):
            await storage.commit([turn])
        assert rule.lost
        assert await storage.commit([turn]) == [verdict]
        assert len(await rows_of(storage, run.id)) == rows
        if move is COMPLETED:
            assert (await look(storage, run.id)).status == "completed"

    async def test_a_claim_whose_reply_was_lost_is_given_back_by_its_worker(
        self, way: tuple[PostgresStorage, Proxy]
    ) -> None:
        storage, proxy = way
        holder = await a_holder(storage)
        new = a_run()
        await storage.start([new])
        pooled = not storage._connections.has_sessions
        rule = LosesEnd("claim_runs_free") if pooled else Loses("claim_runs_free")
        proxy.set(rule)
        with pytest.raises(StorageUnavailable):
            await holder.claim()
        assert rule.lost
        assert (await look(storage, new.id)).status == "running"
        assert await storage.release(holder.id, held=()) == 1
        assert await holder.ready() == [new.id]

    async def test_a_claim_that_was_cut_before_its_transaction_ended_took_nothing(self, own_database: str) -> None:
        with pgbouncer(own_database) as pooled:
            async with a_proxy(pooled) as proxy, opened((await proxy.door("way")).dsn) as storage:
                holder = await a_holder(storage)
                new = a_run()
                await storage.start([new])
                proxy.set(Loses("claim_runs_free"))
                with pytest.raises(StorageUnavailable):
                    await holder.claim()
                assert await _at_last(holder.ready, until=bool) == [new.id]

    async def test_a_start_whose_reply_was_lost_is_sent_again_and_makes_one_run(
        self, way: tuple[PostgresStorage, Proxy]
    ) -> None:
        storage, proxy = way
        new = a_run(key="k")
        rule = Loses("start_runs", "start_alike")
        proxy.set(rule)
        with pytest.raises(StorageUnavailable):
            await storage.start([new])
        assert rule.lost
        [reply] = await storage.start([new])
        assert (reply.id, reply.refused) == (new.id, False)
        assert await storage.by_key(new.name, "k") == new.id


class TestCancels:
    async def test_a_transaction_that_is_cancelled_anywhere_is_open_nowhere(self, own_database: str) -> None:
        other = await asyncpg.connect(own_database)
        async with opened(own_database) as storage:
            for pause in range(40):
                new = a_run(key=f"cancelled {pause}")
                calling = asyncio.ensure_future(storage.start_or_send(new, [a_signal(new.id)]))
                for _ in range(pause // 2):
                    await asyncio.sleep(0)
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)
                # Whoever is lent that connection next commits what it writes.
                [kept], _ = await asyncio.gather(storage.start([a_run()]), storage.send([a_signal(new.id)]))
                sent, _ = await storage.start_or_send(a_run(key=f"kept {pause}"), [])
                visible = "select count(*) from runnerq.run where id = any($1)"
                assert await other.fetchval(visible, [kept.id, sent.id]) == 2
        await other.close()


@pytest.fixture
async def hasty(monkeypatch: pytest.MonkeyPatch, own_database: str) -> AsyncIterator[Holder]:
    """A holder; what is opened from here on gives up soon what is silent.

    A machine that stands still for a moment is silent, too: the holder has its runs by a storage that is patient.
    """
    async with opened(own_database) as patient:
        holder = await a_holder(patient)
        monkeypatch.setattr(connections, "PROMPT_TIMEOUT", 0.5)
        monkeypatch.setattr(heart, "_PATIENCE", 0.5)
        yield holder


class TestSilence:
    async def test_a_listening_connection_that_goes_silent_is_noticed_and_all_moves_meanwhile(
        self, proxy: Proxy, own_database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changes, "PROBE_INTERVAL", 0.05)
        monkeypatch.setattr(changes, "PROBE_PATIENCE", 3.0)
        monkeypatch.setattr(changes, "_PAUSE", 0.01)
        async with opened((await proxy.door("ears")).dsn) as ears, opened(own_database) as other:
            await asyncio.wait_for(ears._changes._listening.wait(), PATIENCE)
            heard: asyncio.Queue[Wake] = asyncio.Queue()
            ears.subscribe(heard.put_nowait)
            deaf = ears._changes._listener
            proxy.set(lambda link, _: Fate.UNANSWERED if link.listens else Fate.PASS)
            async with asyncio.timeout(PATIENCE):
                while "notify" not in proxy.lost:
                    await asyncio.sleep(0.01)
            holder = await a_holder(ears)
            run = await holder.start(a_run())
            assert await holder.commit(run, COMPLETED) == Verdict.DONE
            proxy.set(pass_all)
            async with asyncio.timeout(PATIENCE):
                # All that was told in between is made good by a look at everything.
                while not (await heard.get()).many_runs:
                    pass
                assert ears._changes._listener is not deaf
                await other.start([a_run(queue="after")])
                while "after" not in (await heard.get()).queues:
                    pass

    async def test_a_commit_that_is_met_with_silence_is_given_up_and_counts_once(
        self, proxy: Proxy, hasty: Holder
    ) -> None:
        run = await hasty.start(a_run())
        async with opened((await proxy.door("way")).dsn) as storage:
            hasty.storage = storage
            proxy.set(lambda _, name: Fate.UNANSWERED if name in COMMITS else Fate.PASS)
            with pytest.raises(StorageUnavailable, match="did not answer"):
                await hasty.commit(run, COMPLETED)
            proxy.set(pass_all)
            assert await _at_last(lambda: hasty.commit(run, COMPLETED)) == Verdict.DONE

    async def test_a_frozen_server_is_given_up_and_found_again(
        self, server: Server, hasty: Holder, own_database: str
    ) -> None:
        holder = hasty
        run, other = await holder.start(a_run()), await holder.start(a_run())
        async with opened(own_database) as storage:
            holder.storage = storage
            beating = storage.heart()
            # So that none of them has to connect first.
            await _at_last(lambda: holder.commit(other, GOING))
            await _at_last(lambda: holder.claim(limit=1))
            await _at_last(lambda: beating.beat(holder.id))
            server.freeze()
            try:
                calls = (holder.commit(run, COMPLETED), holder.claim(limit=1), beating.beat(holder.id))
                answers = await asyncio.gather(*calls, return_exceptions=True)
            finally:
                server.thaw()
            assert [type(answer) for answer in answers] == [StorageUnavailable] * 3
            # Whether it came through or not, it is sent again.
            assert await _at_last(lambda: holder.commit(run, COMPLETED)) == Verdict.DONE
            assert await _at_last(lambda: holder.commit(other, COMPLETED)) == Verdict.DONE
            assert (await _at_last(lambda: beating.beat(holder.id))).alive
            await beating.close()


class TestNoneLeft:
    async def test_while_no_connection_can_be_had_calls_fail_and_later_they_go_on(
        self, own_database: str, server: Server
    ) -> None:
        async with opened(own_database) as storage:
            holder = await a_holder(storage)
            run = await holder.start(a_run())
            await storage.start([a_run()])
            beating = storage.heart()
            await beating.open()
            hogs = await _all_that_are_left(server.dsn)
            try:
                # What is open serves on; what is lost cannot be had again.
                assert (await beating.beat(holder.id)).alive
                ended = await hogs[0].fetch(
                    "select pid, pg_terminate_backend(pid) from pg_stat_activity where datname = $1",
                    own_database.partition("?")[0].rpartition("/")[2],
                )
                await _are_gone([row["pid"] for row in ended])
                hogs += await _all_that_are_left(server.dsn)
                for call in (lambda: holder.commit(run, COMPLETED), holder.claim, lambda: beating.beat(holder.id)):
                    told = await _refusal(call)
                    assert "too many clients" in told
            finally:
                await asyncio.gather(*(hog.close() for hog in hogs))
            assert await _at_last(lambda: holder.commit(run, COMPLETED)) == Verdict.DONE
            assert len((await _at_last(holder.claim)).runs) == 1
            assert (await _at_last(lambda: beating.beat(holder.id))).alive
            await beating.close()


async def _all_that_are_left(dsn: str) -> list[asyncpg.Connection]:
    """Connections, until the server refuses more."""
    hogs: list[asyncpg.Connection] = []
    try:
        while True:
            hogs.append(await asyncpg.connect(dsn))
    except asyncpg.TooManyConnectionsError:
        return hogs


async def _are_gone(pids: list[int]) -> None:
    """Return once these backends have left their places to others, which is a moment after they were told to end."""
    async with asyncio.timeout(PATIENCE):
        while any(psutil.pid_exists(pid) for pid in pids):
            await asyncio.sleep(0.001)


async def _refusal(call: Callable[[], Awaitable[object]]) -> str:
    """What a call says once it has met all the connections that were lost."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await call()
            except StorageUnavailable as error:
                if "SQLSTATE 53300" in str(error):
                    return str(error)


async def _at_last(call: Callable[[], Awaitable[T]], until: Callable[[T], bool] = lambda _: True) -> T:
    """The answer, as soon as there is one, and this is true of it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                answer = await call()
            except StorageUnavailable:
                continue
            if until(answer):
                return answer


async def test_a_statement_whose_connection_is_cut_between_two_messages_is_told_that_it_is_unavailable(
    own_database: str,
) -> None:
    """asyncpg has an AttributeError to say of it."""
    pools = connections.Connections(own_database, PATIENCE)
    await pools.open()
    await pools.fetch("select 1")
    asking = asyncio.create_task(pools.fetch("select $1::int", 1))
    # The server has answered what the statement is, and was not given its argument yet.
    while (waits := getattr(asking, "_fut_waiter", None)) is None or not waits.done():
        await asyncio.sleep(0)
    await pools.close()
    with pytest.raises(StorageUnavailable):
        await asking
