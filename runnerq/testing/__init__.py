"""What helps to test: code that uses runnerq, and storage backends of one's own (``runnerq.testing.conformance``)."""

from __future__ import annotations

from runnerq.runtime.replaying import ReplayReport
from runnerq.testing.crashes import CrashReport, explore_crashes
from runnerq.testing.environment import Environment
from runnerq.testing.fixtures import environment_fixture
from runnerq.testing.replays import check_replay
from runnerq.testing.seeds import check_hash_seeds

__all__ = [
    "CrashReport",
    "Environment",
    "ReplayReport",
    "check_hash_seeds",
    "check_replay",
    "environment_fixture",
    "explore_crashes",
]
