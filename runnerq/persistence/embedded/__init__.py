"""An embedded Postgres: ``connect()`` without a DSN keeps its data in a folder, with nothing to configure."""

from __future__ import annotations

from runnerq.persistence.embedded.embedded import EmbeddedPostgres, default_folder, in_use

__all__ = ["EmbeddedPostgres", "default_folder", "in_use"]
