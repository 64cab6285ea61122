"""The storage protocol's definition, as tests: a backend that passes them is one.

A test module of the backend imports the classes and supplies the fixture ``world``::

    from runnerq.testing.conformance import *


    @pytest.fixture
    async def world() -> AsyncIterator[World]:
        async with a_storage_of_mine() as storage:
            yield MyWorld(storage)          # a World: see runnerq.testing.conformance.world

The tests are coroutines: run them with pytest-asyncio in its auto mode. Each needs a storage that is open and empty.
"""

from __future__ import annotations

from runnerq.testing.conformance import _asserts as _asserts
from runnerq.testing.conformance.activity import TestActivity, TestAudit
from runnerq.testing.conformance.cancels import TestCancel
from runnerq.testing.conformance.changes import TestChanges
from runnerq.testing.conformance.children import TestChildKeys, TestChildren, TestNeeds
from runnerq.testing.conformance.claims import TestClaimedOnce, TestClaimOrder, TestClaimReply
from runnerq.testing.conformance.commits import TestFence, TestSentAgain, TestTurns
from runnerq.testing.conformance.counting import TestCounts, TestQueues, TestStats, TestWorkers
from runnerq.testing.conformance.definitions import TestDefinitions
from runnerq.testing.conformance.deleting import TestDelete, TestPurge, TestRetain
from runnerq.testing.conformance.details import TestDetails
from runnerq.testing.conformance.events import TestEvents
from runnerq.testing.conformance.finding import TestFailures, TestFinding
from runnerq.testing.conformance.joined import TestJoined
from runnerq.testing.conformance.limit_rules import TestRates, TestRules
from runnerq.testing.conformance.limits import TestLimitTurns, TestPlaces
from runnerq.testing.conformance.liveness import TestArrivals, TestBeat, TestGivingBack, TestReap
from runnerq.testing.conformance.payloads import TestPayloads
from runnerq.testing.conformance.queueing import TestAdopt, TestPause
from runnerq.testing.conformance.reads import TestJournal, TestLists, TestOpenRuns, TestRun
from runnerq.testing.conformance.renewing import TestRenew
from runnerq.testing.conformance.reopening import TestReopenBlocked, TestReopenEnded, TestReopenFamily
from runnerq.testing.conformance.schedules import (
    TestDueSchedules,
    TestFiring,
    TestOverlap,
    TestScheduleRows,
    TestTrigger,
)
from runnerq.testing.conformance.signals import TestDedup, TestSignals
from runnerq.testing.conformance.starting import TestChildrenFromOutside, TestDetached, TestStartOrSend
from runnerq.testing.conformance.starts import TestCopies, TestFarOff, TestKeys, TestStarts
from runnerq.testing.conformance.terminating import TestTerminate
from runnerq.testing.conformance.transactions import TestTransactions
from runnerq.testing.conformance.upkeep import TestBlocks, TestSweep, TestTimers
from runnerq.testing.conformance.verbs import TestPriority, TestReschedule, TestRunNow
from runnerq.testing.conformance.world import World

__all__ = [
    "TestActivity",
    "TestAdopt",
    "TestArrivals",
    "TestAudit",
    "TestBeat",
    "TestBlocks",
    "TestCancel",
    "TestChanges",
    "TestChildKeys",
    "TestChildren",
    "TestChildrenFromOutside",
    "TestClaimOrder",
    "TestClaimReply",
    "TestClaimedOnce",
    "TestCopies",
    "TestCounts",
    "TestDedup",
    "TestDefinitions",
    "TestDelete",
    "TestDetached",
    "TestDetails",
    "TestDueSchedules",
    "TestEvents",
    "TestFailures",
    "TestFarOff",
    "TestFence",
    "TestFinding",
    "TestFiring",
    "TestGivingBack",
    "TestJoined",
    "TestJournal",
    "TestKeys",
    "TestLimitTurns",
    "TestLists",
    "TestNeeds",
    "TestOpenRuns",
    "TestOverlap",
    "TestPause",
    "TestPayloads",
    "TestPlaces",
    "TestPriority",
    "TestPurge",
    "TestQueues",
    "TestRates",
    "TestReap",
    "TestRenew",
    "TestReopenBlocked",
    "TestReopenEnded",
    "TestReopenFamily",
    "TestReschedule",
    "TestRetain",
    "TestRules",
    "TestRun",
    "TestRunNow",
    "TestScheduleRows",
    "TestSentAgain",
    "TestSignals",
    "TestStartOrSend",
    "TestStarts",
    "TestStats",
    "TestSweep",
    "TestTerminate",
    "TestTimers",
    "TestTransactions",
    "TestTrigger",
    "TestTurns",
    "TestWorkers",
    "World",
]
