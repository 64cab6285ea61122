"""The queries. None locks anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from runnerq.persistence.postgres import rows
from runnerq.persistence.postgres.core import Core
from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.records import BlockRecord, Definition, Journal, Mail, Outcome, RunFilter, RunRecord, Status


class Queries(Core):
    """What reads."""

    async def outcomes(self, run_ids: Sequence[str]) -> list[Outcome]:
        if not run_ids:
            return []
        return [rows.outcome(record) for record in await self._read("read_outcomes", list(run_ids))]

    async def run(self, run_id: str) -> RunRecord | None:
        return next(map(rows.run, await self._read("read_run", run_id)), None)

    async def by_key(self, name: str, key: str) -> str | None:
        found = await self._read("read_key", name, key)
        return found[0]["run_id"] if found else None

    async def journal(self, run_id: str, generation: int | None = None) -> Journal | None:
        found = await self._read("read_journal", run_id, generation)
        if not found:
            return None
        return Journal(
            run_id=found[0]["run_id"],
            generation=found[0]["generation"],
            rows=rows.journal_rows(found[0]),
            attempts=rows.attempts(found[0]["attempts"]),
        )

    async def block(self, run_id: str) -> BlockRecord | None:
        return next(map(rows.block, await self._read("read_block", run_id)), None)

    async def state(self, run_id: str) -> str | None:
        found = await self._read("read_state", run_id)
        return found[0]["value"] if found else None

    async def mailbox(self, run_id: str) -> list[Mail]:
        return [
            Mail(record["number"], record["number"], record["at"], record["channel"], record["value"])
            for record in await self._read("read_mailbox", run_id)
        ]

    async def list_runs(self, where: RunFilter, limit: int, before: str | None) -> list[RunRecord]:
        found = await self._connections.fetch_fresh(
            self._statements["list_runs"],
            limit,
            before,
            _statuses(where.status),
            where.workflow,
            where.queue,
            where.key_prefix,
            None if where.metadata is None else _patterns(where.metadata),
            where.parent,
            where.root,
            where.since,
            where.until,
        )
        return [rows.run(record) for record in found]

    async def open_runs(self, names: Sequence[str], limit: int, after: str | None) -> list[RunRecord]:
        return [rows.run(record) for record in await self._read("read_open_runs", list(names), limit, after)]

    async def definitions(self, name: str) -> list[Definition]:
        return [rows.definition(record) for record in await self._read("read_definitions", name)]

    async def now(self) -> datetime:
        [record] = await self._read("read_now")
        now: datetime = record["now"]
        return now

    async def _read(self, statement: str, *args: object) -> Sequence[Record]:
        return await self._connections.fetch(self._statements[statement], *args)


def _statuses(given: Iterable[Status] | Status | str | None) -> list[str] | None:
    match given:
        case None:
            return None
        case str():
            return [given]
        case _:
            return [str(status) for status in given]


def _patterns(metadata: Mapping[str, str]) -> list[str]:
    """A regular expression for each pair, over JSON text: taking the text apart would fail on a NUL in any run's."""
    return [
        rf"[{{,]\s*{re.escape(_json(name))}\s*:\s*{re.escape(_json(value))}\s*[,}}]" for name, value in metadata.items()
    ]


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
