"""Records on their way out of a storage: their payloads opened. What cannot be opened is left; see ``unreadable``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

import msgspec

from runnerq.persistence.coded import places
from runnerq.persistence.records import (
    Attempt,
    AuditRecord,
    BlockRecord,
    Claim,
    Claimed,
    End,
    Event,
    Failures,
    Found,
    Inbox,
    Journal,
    Mail,
    Outcome,
    RunRecord,
    ScheduleRecord,
    Tail,
    Turn,
)
from runnerq.serialization.sealing import SEALED, Chain, sealed_by
from runnerq.workflow.journal import Row

_with = msgspec.structs.replace


class Opening:
    """Opens records."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    # --- for a worker -------------------------------------------------------------------------------------------------

    def claim(self, claim: Claim) -> Claim:
        return _with(claim, runs=tuple(self.claimed(claimed) for claimed in claim.runs))

    def claimed(self, claimed: Claimed) -> Claimed:
        run_id = claimed.id
        return _with(
            claimed,
            input=self._chain.open(claimed.input, places.input_of(run_id)),
            rows=self.rows(claimed.rows, run_id, claimed.generation),
            signals=self.mails(claimed.signals),
            outcomes=tuple(self.outcomes(claimed.outcomes)),
            attempts=self._attempts(claimed.attempts, run_id),
            state=self._opened(claimed.state, places.state_of(run_id)),
        )

    def inbox(self, inbox: Inbox) -> Inbox:
        return _with(inbox, signals=self.mails(inbox.signals), outcomes=tuple(self.outcomes(inbox.outcomes)))

    def mails(self, mails: Iterable[Mail]) -> tuple[Mail, ...]:
        return tuple(_with(mail, value=self._opened(mail.value, places.signal_of(mail.channel))) for mail in mails)

    def rows(self, rows: Iterable[Row], run_id: str, generation: int) -> tuple[Row, ...]:
        return tuple(self._row(row, run_id, generation) for row in rows)

    def end_of(self, turn: Turn) -> Turn:
        """The turn with its end opened; of its other payloads nothing is changed."""
        if not isinstance(turn.move, End):
            return turn
        result = self._opened(turn.move.result, places.result_of(turn.run_id))
        error = self._opened(turn.move.error, places.error_of(turn.run_id))
        return _with(turn, move=_with(turn.move, result=result, error=error))

    # --- for a client -------------------------------------------------------------------------------------------------

    def outcomes(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        return [
            _with(
                each,
                result=self._opened(each.result, places.result_of(each.run_id)),
                error=self._opened(each.error, places.error_of(each.run_id)),
            )
            for each in outcomes
        ]

    def records(self, records: Iterable[RunRecord]) -> list[RunRecord]:
        return [self.record(record) for record in records]

    def record(self, record: RunRecord) -> RunRecord:
        return _with(
            record,
            started=self._opened(record.started, places.value_of(record.id, record.generation, 0)),
            input=self._opened(record.input, places.input_of(record.id)),
            result=self._opened(record.result, places.result_of(record.id)),
            error=self._opened(record.error, places.error_of(record.id)),
        )

    def found(self, found: Found) -> Found:
        return _with(found, runs=tuple(self.records(found.runs)))

    def failures(self, failures: Failures) -> Failures:
        groups = (
            _with(group, error=self._opened(group.error, places.error_of(group.sample_id))) for group in failures.groups
        )
        return _with(failures, groups=tuple(groups))

    def audit(self, record: AuditRecord) -> AuditRecord:
        entry = record.entry
        return _with(record, entry=_with(entry, request=self._opened(entry.request, places.audit_of(entry.id))))

    def journal(self, journal: Journal) -> Journal:
        return _with(
            journal,
            rows=self.rows(journal.rows, journal.run_id, journal.generation),
            attempts=self._attempts(journal.attempts, journal.run_id),
        )

    def block(self, block: BlockRecord) -> BlockRecord:
        place = places.block_of(block.run_id)
        return _with(
            block,
            message=self._quoted(block.message, place),
            recorded=self._quoted(block.recorded, place),
            asked=self._quoted(block.asked, place),
            traceback=self._quoted(block.traceback, place),
        )

    def state(self, text: str | None, run_id: str) -> str | None:
        return self._opened(text, places.state_of(run_id))

    def schedule(self, record: ScheduleRecord) -> ScheduleRecord:
        row = record.row
        opened = _with(row, input=self._chain.open(row.input, places.schedule_of(row.name)))
        return _with(record, row=opened, sealed_by=sealed_by(row.input))

    def tail(self, tail: Tail) -> Tail:
        return _with(tail, events=tuple(self._event(event) for event in tail.events))

    # --- parts --------------------------------------------------------------------------------------------------------

    def _event(self, event: Event) -> Event:
        """An event repeats why a run is blocked."""
        if event.kind != "blocked" or event.data is None or event.run_id is None:
            return event
        data: dict[str, Any] = msgspec.json.decode(event.data)
        data["message"] = self._quoted(data.get("message", ""), places.block_of(event.run_id))
        return _with(event, data=msgspec.json.encode(data).decode())

    def _row(self, row: Row, run_id: str, generation: int) -> Row:
        value = self._opened(row.value, places.value_of(run_id, generation, row.place))
        asked = self._opened(row.asked, places.asked_of(run_id, generation, row.place))
        return Row(row.place, row.kind, row.position, row.at, value, asked)

    def _attempts(self, attempts: Sequence[Attempt], run_id: str) -> tuple[Attempt, ...]:
        return tuple(
            _with(
                each,
                error=self._opened(each.error, places.attempt_of(run_id, each.position)),
                details=self._opened(each.details, places.details_of(run_id, each.position)),
            )
            for each in attempts
        )

    def _opened(self, text: str | None, place: str) -> str | None:
        return None if text is None else self._chain.open(text, place)

    @overload
    def _quoted(self, words: str, place: str) -> str: ...
    @overload
    def _quoted(self, words: str | None, place: str) -> str | None: ...
    def _quoted(self, words: str | None, place: str) -> str | None:
        if words is None or not words.startswith(SEALED):
            return words
        opened = self._chain.open(words, place)
        return opened if opened.startswith(SEALED) else msgspec.json.decode(opened, type=str)
