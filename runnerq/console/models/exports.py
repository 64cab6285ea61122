"""A run as one JSON value, as ``client.export`` has it, with what is masked left out."""

from __future__ import annotations

from typing import Any

from runnerq.console.models.context import Context, bounded
from runnerq.console.models.redaction import Redactor, Spot, SpotKind
from runnerq.errors import RunNotFound
from runnerq.ids import check_run_id

MASKED = "redacted"
"""How many payloads of an export are not shown as they are; it is not there where none is."""


@bounded
async def exported(context: Context, run_id: str) -> dict[str, Any]:
    """The run as ``client.export`` has it, redacted. Where something was masked ``redacted`` says how many payloads:
    such a file may not replay, and has no digests of arguments. Raises RunNotFound, PayloadUnreadable."""
    try:
        checked = check_run_id(run_id)
    except ValueError as error:
        raise RunNotFound(run_id) from error
    return redacted(context.redact, await context.client.export(checked))


def redacted(redact: Redactor, export: dict[str, Any]) -> dict[str, Any]:
    """An export without what is masked."""
    masked = _Masked(redact, export["run_id"], export["workflow"])
    outcome = export["outcome"]
    shown = {
        **export,
        "metadata": masked.shown("metadata", export["metadata"]),
        "arguments": masked.shown("input", export["arguments"]),
        "generations": [
            {**each, "rows": [masked.within(row, value=_of_row(row)) for row in each["rows"]]}
            for each in export["generations"]
        ],
        "attempts": [masked.within(each, error="error", details="heartbeat") for each in export["attempts"]],
        "entries": [masked.within(each, value="journal", error="error") for each in export["entries"]],
        "outcome": None if outcome is None else masked.within(outcome, result="result", error="error"),
        "unread": [masked.within(each, value="signal") for each in export["unread"]],
    }
    if not masked.count:
        return shown
    # What a digest is of can be found out by trying, where there are not many things that it can be: a card, a PIN.
    generations = [{**each, "rows": list(map(_without_digests, each["rows"]))} for each in shown["generations"]]
    return {**shown, "generations": generations, MASKED: masked.count}


class _Masked:
    """Redacts the payloads of one run, and counts those that are not shown as they are."""

    def __init__(self, redact: Redactor, run_id: str, workflow: str) -> None:
        self._redact = redact
        self._run_id = run_id
        self._workflow = workflow
        self.count = 0

    def shown(self, kind: SpotKind, value: Any) -> Any:
        shown = self._redact(Spot(kind, self._run_id, self._workflow), value)
        self.count += shown is not value and shown != value
        return shown

    def within(self, record: dict[str, Any], **kinds: SpotKind) -> dict[str, Any]:
        """The record with these of its fields shown."""
        return {**record, **{name: self.shown(kind, record.get(name)) for name, kind in kinds.items()}}


def _without_digests(row: dict[str, Any]) -> dict[str, Any]:
    asked = row["asked"] and [_without_digest(*each) for each in row["asked"]]
    return {**row, "asked": asked}


def _without_digest(position: str, kind: str, name: str, digest: str, *more: Any) -> list[Any]:
    # A patch has a build there.
    return [position, kind, name, digest if kind == "patch" else "", *more]


def _of_row(row: dict[str, Any]) -> SpotKind:
    return "error" if row["kind"] == "failed" else "journal"
