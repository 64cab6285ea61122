"""Fixtures for every test; the Postgres ones say in tests/postgres.py where their servers come from."""

from __future__ import annotations

pytest_plugins = ["tests.postgres"]
