"""The mailroom, against a storage whose reads a test answers one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from runnerq.errors import SchemaError, StorageRefused, StorageUnavailable
from runnerq.persistence.records import Ask, Inbox
from runnerq.runtime.mailroom import LARGEST_READ, Mailroom
from tests.runtime.virtual_time import in_virtual_time, settle

NOW = datetime(2025, 1, 1, tzinfo=UTC)


class Read:
    """A read that is out."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self.runs = [ask.run_id for ask in asks]
        self.sent_at = asyncio.get_running_loop().time()
        self.reply: asyncio.Future[list[Inbox]] = asyncio.get_running_loop().create_future()

    def answer(self, *closed: str) -> None:
        open_runs = [run for run in self.runs if run not in closed]
        # In any order: the protocol promises none.
        self.reply.set_result([Inbox(run_id=run, seen=1, now=NOW) for run in reversed(open_runs)])

    def crash(self, error: Exception) -> None:
        self.reply.set_exception(error)


class Desk:
    """The inbox side of a storage."""

    def __init__(self) -> None:
        self._reads: asyncio.Queue[Read] = asyncio.Queue()

    async def inbox(self, asks: Sequence[Ask]) -> list[Inbox]:
        read = Read(asks)
        self._reads.put_nowait(read)
        return await read.reply

    async def next(self) -> Read:
        return await self._reads.get()

    @property
    def waiting(self) -> int:
        return self._reads.qsize()


class Office:
    """A mailroom, its storage, and what it told."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.failures: list[BaseException] = []
        self.mailroom = Mailroom(self.desk, self.failures.append)
        self.answers: list[tuple[str, bool]] = []

    def ask(self, *runs: str) -> None:
        for run in runs:
            self.mailroom.ask(Ask(run_id=run), lambda inbox, run=run: self._hear(run, inbox))

    def _hear(self, run: str, inbox: Inbox | None) -> None:
        assert inbox is None or inbox.run_id == run
        self.answers.append((run, inbox is not None))


@asynccontextmanager
async def an_office() -> AsyncIterator[Office]:
    office = Office()
    running = asyncio.create_task(office.mailroom.run())
    await settle()
    yield office
    running.cancel()
    await asyncio.wait([running])


@in_virtual_time
async def test_asks_that_come_while_a_read_is_out_are_one_statement() -> None:
    async with an_office() as office:
        office.ask("a")
        first = await office.desk.next()
        office.ask("b", "c")
        await settle()
        assert office.desk.waiting == 0
        first.answer()
        second = await office.desk.next()
        assert second.runs == ["b", "c"]
        second.answer()
        await settle()
        assert office.answers == [("a", True), ("b", True), ("c", True)]


@in_virtual_time
async def test_a_run_that_is_not_open_has_no_mailbox() -> None:
    async with an_office() as office:
        office.ask("a", "b")
        (await office.desk.next()).answer("a")
        await settle()
        assert office.answers == [("a", False), ("b", True)]


@in_virtual_time
async def test_a_run_asked_for_twice_is_read_twice() -> None:
    async with an_office() as office:
        office.ask("a", "b", "a")
        first = await office.desk.next()
        assert first.runs == ["a", "b"]
        first.answer()
        second = await office.desk.next()
        assert second.runs == ["a"]
        second.answer()
        await settle()
        assert office.answers == [("a", True), ("b", True), ("a", True)]


@in_virtual_time
async def test_a_read_is_never_larger_than_its_limit() -> None:
    async with an_office() as office:
        office.ask(*(f"r{number}" for number in range(LARGEST_READ + 1)))
        first = await office.desk.next()
        assert len(first.runs) == LARGEST_READ
        first.answer()
        assert (await office.desk.next()).runs == [f"r{LARGEST_READ}"]


@in_virtual_time
async def test_a_read_without_an_answer_is_made_again() -> None:
    async with an_office() as office:
        office.ask("a")
        sent = []
        for _ in range(3):
            read = await office.desk.next()
            sent.append(read.sent_at)
            read.crash(StorageUnavailable("no answer"))
        (await office.desk.next()).answer()
        await settle()
        assert office.answers == [("a", True)]
        assert 0.03 < sent[1] - sent[0] < sent[2] - sent[1]


@in_virtual_time
async def test_a_mailbox_that_cannot_be_read_in_time_keeps_no_other_waiting() -> None:
    async with an_office() as office:
        office.ask("huge", *"abcdefg")
        reads = []
        for _ in range(6):
            read = await office.desk.next()
            reads.append("".join(read.runs))
            if "huge" in read.runs:
                read.crash(StorageUnavailable("no answer"))
            else:
                read.answer()
        await settle()
        assert reads == ["hugeabcdefg", "hugea", "b", "cd", "efghuge", "a"]
        office.mailroom.abandon()


@in_virtual_time
async def test_of_a_refused_read_only_the_guilty_run_goes_without_its_mail(caplog: pytest.LogCaptureFixture) -> None:
    async with an_office() as office:
        office.ask("bad", "a")
        (await office.desk.next()).crash(StorageRefused("invalid"))
        (await office.desk.next()).crash(StorageRefused("invalid"))
        (await office.desk.next()).answer()
        await settle()
        assert office.answers == [("bad", False), ("a", True)]
        assert "run bad: its mailbox cannot be read" in caplog.text


@in_virtual_time
async def test_a_schema_that_has_gone_ends_the_mailroom() -> None:
    office = Office()
    office.ask("a")
    running = asyncio.create_task(office.mailroom.run())
    (await office.desk.next()).crash(SchemaError("no such table"))
    with pytest.raises(SchemaError):
        await running


@in_virtual_time
async def test_abandoned_asks_are_told_nothing_and_later_ones_are_answered() -> None:
    async with an_office() as office:
        office.ask("out")
        out = await office.desk.next()
        office.ask("queued")
        office.mailroom.abandon()
        office.ask("new")
        out.answer()
        (await office.desk.next()).answer()
        await settle()
        assert office.answers == [("new", True)]


@in_virtual_time
async def test_a_callback_that_raises_is_reported_and_the_others_are_answered() -> None:
    def broken(_: Inbox | None) -> None:
        raise ValueError("a bug")

    async with an_office() as office:
        office.mailroom.ask(Ask(run_id="a"), broken)
        office.ask("b")
        (await office.desk.next()).answer()
        await settle()
        assert office.answers == [("b", True)]
        assert [type(failure) for failure in office.failures] == [ValueError]
