"""Claims: of runs without a limit, and of those that limits admit."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import datetime

from runnerq.errors import SchemaError, StorageUnavailable
from runnerq.persistence.postgres import rows
from runnerq.persistence.postgres.floors import Place
from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.postgres.limits import Lines, shut_of
from runnerq.persistence.records import Claim, Claimed, ClaimRequest, Limit, Wake

_REACH = 2
_FARTHER = 16
_FARTHEST = 10_000
"""A claim chooses from twice as many runs as it may take; from more, up to this, while somebody holds those."""

_LINE_UPS = 4
"""How many times one claim lines up what has arrived, while it comes back short; and how many full and large claims
go by without: what they leave can wait as long."""

_LARGE = 32

_HURRIED = 200
"""Lines that are looked at between full claims, for keys that have no gate yet."""

_log = logging.getLogger("runnerq.postgres")


class Claims(Lines):
    """What leases runs. The claim that knows of limits costs more than the other one: it is sent only where the last
    one's reply says that there is something for it."""

    _limited = False
    _arrived = False
    _full = 0
    """Full claims since runs were lined up."""

    async def claim(self, request: ClaimRequest) -> Claim:
        opened = await self._open_gates(request.freed)
        self._limited = self._limited or bool(opened)
        places = self._floors.begin(request.pairs, time.monotonic())
        reach = _REACH
        line_ups = 0
        # What large claims find behind the gates that there are they take, lined up or not.
        hurried = self._full > 0 and request.limit >= _LARGE
        must = not hurried or self._full >= _LINE_UPS
        records: list[Record] = []
        shut: set[Limit] = set()
        while True:
            limited = self._limited
            if limited and self._arrived and must:
                how_many = (_HURRIED, 0) if hurried else ()
                shut |= await self._line_up(request.pairs, *how_many) or set()
                line_ups += 1
                self._full = 0
            must, hurried = True, False
            left = request.limit - len(records)
            candidates = min(left * reach, _FARTHEST)
            head, taken = await self._claim(request, places, left, candidates)
            records += taken
            shut |= shut_of(head)
            self._limited, self._arrived = head["limited"], head["arrived"]
            if reach == _REACH and not any(places):
                self._floors.walked(head["scanned"], head["dead"], time.monotonic())
            if len(records) >= request.limit:
                break
            if self._limited and not limited:
                continue
            if self._limited and self._arrived and line_ups < _LINE_UPS:
                continue
            if head["candidates"] == candidates and candidates < _FARTHEST:
                # All there was to choose from, and somebody holds it: what stands behind it is ready too.
                reach *= _FARTHER
            else:
                break
        records.sort(key=lambda record: (record["rank"], record["run_id"]))
        short = len(records) < request.limit
        self._full = 0 if short else self._full + 1
        # A place that became free while these gates were being shut, or made shut: whoever told of it found none shut.
        again = await self._open_gates(shut)
        self._limited = self._limited or bool(again)
        opened |= again
        # What this worker frees it takes itself, if it can.
        others = {queue for queue, served in opened if not short or (queue, served) not in request.pairs}
        self._changes.tell(Wake(queues=frozenset(others)))
        return Claim(
            runs=await self._whole(request, records),
            now=head["now"],
            next_due=self._next_due(request, places, head, records),
            more=short and (head["more"] or self._arrived or bool(again)),
        )

    async def _whole(self, request: ClaimRequest, records: Sequence[Record]) -> tuple[Claimed, ...]:
        """These runs with what is on record of them, in their order; without those that were taken away meanwhile."""
        fresh = {record["run_id"]: rows.claimed(record, request.token) for record in records}
        begun = [record["run_id"] for record in records if not record["blank"]]
        if not begun:
            return tuple(fresh.values())
        parked = {record["run_id"] for record in records if record["prior"] == request.held.get(record["run_id"])}
        whole = {
            record["run_id"]: rows.begun(fresh[record["run_id"]], record, resumed=record["run_id"] in parked)
            for record in await self._begun(begun, request.token, list(parked))
        }
        claimed = (fresh[record["run_id"]] if record["blank"] else whole.get(record["run_id"]) for record in records)
        return tuple(run for run in claimed if run is not None)

    async def _begun(self, run_ids: Sequence[str], token: int, parked: Sequence[str]) -> Sequence[Record]:
        """What is on record of these; without those of which it cannot be read, which nobody holds then."""
        try:
            return await self._connections.fetch_quick(self._statements["read_claimed"], run_ids, token, parked)
        except (StorageUnavailable, SchemaError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it must hit the run that shows it alone
            if len(run_ids) > 1:
                return [record for run_id in run_ids for record in await self._begun([run_id], token, parked)]
            _log.error("run %s: what is on record of it cannot be read: %r", run_ids[0], error)
            return []

    def _next_due(
        self, request: ClaimRequest, places: Sequence[Place | None], head: Record, records: Sequence[Record]
    ) -> datetime | None:
        """When the next run is due, a gate opens, or a claim begins at the beginning again."""
        short = len(records) < request.limit
        taken_of = [pair for pair in request.pairs if pair[0] not in head["paused"]]
        # One that has a limit was taken by its turn: what is before it by rank may be there still.
        last = next((record for record in reversed(records) if record["limit_scope"] is None), None)
        self._floors.took(taken_of, last, head["now"] if short else None)
        anew = head["now"] + self._floors.anew(time.monotonic()) if short and any(places) else None
        times = (head["next_due"], head["next_open"], anew)
        return min((each for each in times if each is not None), default=None)

    async def _claim(
        self, request: ClaimRequest, places: Sequence[Place | None], limit: int, candidates: int
    ) -> tuple[Record, Sequence[Record]]:
        """What the first row says, and the rows of the runs that were taken, by rank."""
        records = await self._connections.fetch_quick(
            self._statements["claim_runs_limited" if self._limited else "claim_runs_free"],
            [queue for queue, _ in request.pairs],
            [served for _, served in request.pairs],
            limit,
            request.worker_id,
            request.token,
            [place and place[0] for place in places],
            [place and place[1] for place in places],
            candidates,
            self._due_floor.known,
        )
        return records[0], records[1:]
