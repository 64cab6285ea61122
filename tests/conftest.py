"""Fixtures and settings for every test; tests/postgres.py says where servers come from, tests/wheel.py the wheel."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import hypothesis
import pytest

pytest_plugins = ["tests.postgres", "tests.wheel"]

# A developer's own database is not ours to test in: only $RUNNERQ_TEST_DSN is.
os.environ.pop("RUNNERQ_DSN", None)

# How long an example takes says something about the machine, not about the code.
hypothesis.settings.register_profile("runnerq", deadline=None)
hypothesis.settings.load_profile("runnerq")

# In the background of a shell (`make test &`) Ctrl-C is ignored, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same of a closed terminal under nohup.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes, thousands of tests and their modules, stays until the end: to look for garbage in it would
    take a third of collecting's time, and some of each test's."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
