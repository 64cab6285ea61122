"""Turns of runs that a worker has a token for and does not hold: what it gives back at once, or ends for others.

The tokens of such turns, which several runs may share, count as held until they are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from runnerq.errors import PayloadUnreadable
from runnerq.persistence.protocol import Reads
from runnerq.persistence.records import Back, Claimed, Definition, End, NewRun, Reaped, RunRecord, Stuck, Turn
from runnerq.runtime.callbacks import log, of_run
from runnerq.runtime.dead_letters import Dead, hook_in, hook_run
from runnerq.runtime.reporter import Reporter
from runnerq.runtime.writer import Writer
from runnerq.serialization.codec import Codec
from runnerq.serialization.sealing import unreadable

CRASH_LOOP = End(status="dead_letter", reason="crash_loop")


class Apart:
    """Of one worker."""

    def __init__(self, storage: Reads, writer: Writer, codec: Codec, reporter: Reporter | None = None) -> None:
        self._storage = storage
        self._reporter = reporter
        self._writer = writer
        self._codec = codec
        self._tokens: Counter[int] = Counter()

    @property
    def tokens(self) -> Collection[int]:
        """Those that count as held."""
        return self._tokens.keys()

    def leave(self, claimed: Claimed, move: Back | Stuck) -> None:
        """Do not take up what was claimed."""
        generation, seen = claimed.generation, claimed.seen
        self._write(claimed, Turn(run_id=claimed.id, token=claimed.token, seen=seen, generation=generation, move=move))

    def _write(self, run: Claimed | RunRecord, turn: Turn) -> None:
        self._tokens[turn.token] += 1
        if self._reporter is not None:
            self._reporter.apart(run, turn.token)
        self._writer.submit(turn, lambda _: self._written(turn.token))

    def _written(self, token: int) -> None:
        self._tokens[token] -= 1
        if not self._tokens[token]:
            del self._tokens[token]

    async def end_crash_loops(self, capped: Sequence[Reaped]) -> None:
        """End runs that crash again and again, and queue what is to be told of it, as their workers have said it.

        Raises StorageUnavailable: then nothing is ended, and they are given back.
        """
        known: dict[str, list[Definition]] = {}
        turns: list[tuple[RunRecord, Turn]] = []
        for run in capped:
            record = await self._storage.run(run.run_id)
            if run.token is None or record is None:
                continue
            if record.name not in known:
                known[record.name] = await self._storage.definitions(record.name)
            try:
                told = self._told(record, known[record.name], run.crashes)
            except PayloadUnreadable as sealed:
                # Its hook is to be told the input: given back, it comes to a worker that can read it.
                log.warning("run %s of %s is not ended here: %s", record.id, record.name, sealed,
                            extra=of_run(record.id, record.name))  # fmt: skip
                continue
            generation = record.generation
            turns.append((record, Turn(run_id=run.run_id, token=run.token, seen=0, generation=generation,
                                       move=CRASH_LOOP, children=told)))  # fmt: skip
        for record, turn in turns:
            self._write(record, turn)

    def _told(self, record: RunRecord, definitions: Sequence[Definition], crashes: int) -> tuple[NewRun, ...]:
        try:
            hook = hook_in(definitions, record.kind, record.version)
            if hook is not None and (sealed := unreadable(record.input, record.id, "the input")) is not None:
                raise sealed
            return hook_run(hook, Dead.of(record), CRASH_LOOP, self._codec, crashes=crashes)
        except msgspec.MsgspecError as error:
            # Written by a worker of another release, perhaps: it must not keep the run from its end.
            log.error("run %s of %s: what is to be told of its end cannot be read: %r", record.id, record.name, error,
                      extra=of_run(record.id, record.name))  # fmt: skip
            return ()
