"""The Postgres backend. Nothing else of runnerq, the embedded server apart, knows asyncpg."""

from __future__ import annotations

from runnerq.persistence.postgres.storage import PostgresStorage

__all__ = ["PostgresStorage"]
