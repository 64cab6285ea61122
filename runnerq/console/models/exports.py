"""A run as one JSON value, as ``client.export`` has it, with what is masked left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from runnerq.console.models.context import Context, bounded
from runnerq.console.models.records import kind_of_value
from runnerq.console.models.redaction import Redactor, Spot, SpotKind
from runnerq.errors import RunNotFound
from runnerq.ids import check_run_id

MASKED = "redacted"
"""How many payloads of an export are not shown as they are; it is not there where none is."""
NOBODY = ("", "")
"""Kind and name of what was not asked for: the run's own."""


@bounded
async def exported(context: Context, run_id: str) -> dict[str, Any]:
    """The run as ``client.export`` has it, redacted. Where something was masked ``redacted`` says how many payloads:
    such a file may not replay, and has no digests of arguments. Raises RunNotFound, PayloadUnreadable."""
    try:
        checked = check_run_id(run_id)
    except ValueError as error:
        raise RunNotFound(run_id) from error
    export = await context.client.export(checked)
    return await context.in_thread(partial(redacted, context.redact, export))


def redacted(redact: Redactor, export: dict[str, Any]) -> dict[str, Any]:
    """An export without what is masked."""
    masked = _Masked(redact, export["run_id"], export["workflow"])
    outcome = export["outcome"]
    last = _asked(export["generations"][-1]["rows"])
    shown = {
        **export,
        "metadata": masked.shown("metadata", export["metadata"]),
        "arguments": masked.shown("input", export["arguments"]),
        "generations": [
            {**each, "rows": list(map(masked.row, each["rows"], repeat(_asked(each["rows"]))))}
            for each in export["generations"]
        ],
        "attempts": [
            masked.within(each, last.get(each["position"], NOBODY)[1], error="error", details="heartbeat")
            for each in export["attempts"]
        ],
        "entries": list(map(masked.entry, export["entries"])),
        "outcome": None if outcome is None else masked.within(outcome, "", result="result", error="error"),
        "unread": [masked.within(each, each["channel"], value="signal") for each in export["unread"]],
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

    def shown(self, kind: SpotKind, value: Any, name: str = "") -> Any:
        shown = self._redact(Spot(kind, self._run_id, self._workflow, name=name), value)
        self.count += shown is not value and shown != value
        return shown

    def within(self, record: dict[str, Any], name: str, **kinds: SpotKind) -> dict[str, Any]:
        """The record with these of its fields shown; ``name`` is what they are of."""
        return {**record, **{field: self.shown(kind, record.get(field), name) for field, kind in kinds.items()}}

    def entry(self, entry: dict[str, Any]) -> dict[str, Any]:
        """An entry of the last generation."""
        name = "" if entry["kind"] == "started" else entry["name"]
        return self.within(entry, name, value=kind_of_value(entry["kind"]), error="error")

    def row(self, row: dict[str, Any], asked: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
        """A row of the journal, given what was asked for at which position."""
        kind, name = asked.get(row["position"], NOBODY)
        return self.within(row, name, value="error" if row["kind"] == "failed" else kind_of_value(kind))


def _without_digests(row: dict[str, Any]) -> dict[str, Any]:
    asked = row["asked"] and [_without_digest(*each) for each in row["asked"]]
    return {**row, "asked": asked}


def _without_digest(position: str, kind: str, name: str, digest: str, *more: Any) -> list[Any]:
    # A patch has a build there.
    return [position, kind, name, digest if kind == "patch" else "", *more]


def _asked(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """Kind and name of what was asked for, by its position."""
    return {position: (kind, name) for row in rows for position, kind, name, *_ in row["asked"] or ()}
