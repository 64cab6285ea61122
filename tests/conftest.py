"""Fixtures and settings for every test; the Postgres ones say in tests/postgres.py where their servers come from."""

from __future__ import annotations

import os
import signal

import hypothesis

pytest_plugins = ["tests.postgres"]

# A developer's own database is not ours to test in: only $RUNNERQ_TEST_DSN is.
os.environ.pop("RUNNERQ_DSN", None)

# How long an example takes says something about the machine, not about the code.
hypothesis.settings.register_profile("runnerq", deadline=None)
hypothesis.settings.load_profile("runnerq")

# In the background of a shell (`make test &`) Ctrl-C is ignored, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
