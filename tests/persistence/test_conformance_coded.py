"""A storage with codecs around its payloads keeps the storage protocol: what of the suite has to do with payloads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runnerq.persistence.coded import coded
from runnerq.persistence.memory.book import Book
from runnerq.persistence.protocol import Storage
from runnerq.serialization.chains import chain_of
from runnerq.serialization.compression import Compression
from runnerq.serialization.encryption import Encryption
from runnerq.serialization.sealing import SEALED
from runnerq.testing import conformance
from runnerq.testing.conformance import (
    TestBlocks,
    TestChildKeys,
    TestChildren,
    TestChildrenFromOutside,
    TestCopies,
    TestDetails,
    TestEvents,
    TestFiring,
    TestJoined,
    TestJournal,
    TestLists,
    TestRenew,
    TestReopenBlocked,
    TestReopenEnded,
    TestReopenFamily,
    TestRun,
    TestScheduleRows,
    TestSentAgain,
    TestSignals,
    TestStartOrSend,
    TestTurns,
)
from tests.persistence.test_conformance_memory import MemoryWorld

__all__ = [
    "TestBlocks", "TestChildKeys", "TestChildren", "TestChildrenFromOutside", "TestCopies", "TestDetails",
    "TestEvents", "TestFiring", "TestJoined", "TestJournal", "TestLists", "TestRenew", "TestReopenBlocked",
    "TestReopenEnded", "TestReopenFamily", "TestRun", "TestScheduleRows", "TestSentAgain", "TestSignals",
    "TestStartOrSend", "TestTurns",
]  # fmt: skip

CHAIN = chain_of([Compression(min_size=50), Encryption({"a": bytes(32)}, "a")])


class CodedWorld(MemoryWorld):
    """A storage in memory that keeps nothing plain."""

    @property
    def storage(self) -> Storage:
        return coded(self.memory, CHAIN)

    async def another(self) -> Storage:
        return coded(self.memory, CHAIN)


@pytest.fixture
def world() -> Iterator[CodedWorld]:
    """A world that is looked into when the test is over: all payloads that are left in it are sealed."""
    world = CodedWorld()
    yield world
    with world.memory.writing() as (book, _):
        kept = list(payloads_in(book))
    assert [text for text in kept if not text.startswith(SEALED) and "KeyTaken" not in text] == []


def payloads_in(book: Book) -> Iterator[str]:
    """Every payload that is kept. (That a key is taken is the storage's own word, and plain.)"""
    for run in book.runs.values():
        yield run.new.input
    for row in (row for rows in book.journals.values() for row in rows.values()):
        yield from filter(None, (row.value, row.asked))
    for outcome in book.outcomes.values():
        yield from filter(None, (outcome.result, outcome.error))
    for attempt in (attempt for attempts in book.attempts.values() for attempt in attempts.values()):
        yield from filter(None, (attempt.error, attempt.details))
    for mail in (mail for box in book.boxes.values() for mail in box.mail.values()):
        yield from filter(None, [mail.value])
    for block in book.blocks.values():
        yield from filter(None, (block.message, block.recorded, block.asked, block.traceback))
    yield from book.states.values()
    yield from (record.row.input for record in book.schedules.values())


class TestPayloads(conformance.TestPayloads):
    """But for text that is no JSON, which no client sends: nobody below looks into what is sealed."""

    test_what_cannot_be_kept_is_refused_and_nothing_of_it_is_written = None  # type: ignore[assignment]  # see above
    test_a_bad_turn_can_be_told_from_the_good_ones_of_its_batch = None  # type: ignore[assignment]  # the same


class TestTransactions(conformance.TestTransactions):
    """As above."""

    test_data_that_cannot_be_stored_is_refused = None  # type: ignore[assignment]  # see above
