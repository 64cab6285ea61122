"""Exported journals against today's code, before it is deployed.

reports = check_replay(Path("journals").glob("*.json"), workflows=[checkout])
assert not [report.message for report in reports if report.diverged]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from runnerq.client.export import FORMAT
from runnerq.errors import ConfigurationError
from runnerq.persistence.records import Claimed
from runnerq.runtime.replaying import ReplayReport, follow_journal, ground_for
from runnerq.workflow.journal import Row

OUTSIDE = frozenset({"terminated", "crash_loop"})
"""Reasons of an end that no code came to."""


def check_replay(
    journals: Iterable[Mapping[str, Any] | Path], workflows: Iterable[Callable[..., Any]]
) -> list[ReplayReport]:
    """Whether these workflows follow these exports (``client.export(id)``, ``runnerq export``), a report for each.

    A journal is a dict or a file with its JSON. A run that ended must end again, an open one must wait for what it
    waits for. Nothing is carried out. Raises ConfigurationError for what is no export.
    """
    ground = ground_for(workflows)
    reports = []
    for journal in journals:
        exported = _read(journal)
        reports.append(follow_journal(_claimed(exported), ground, ended=_ended(exported)))
    return reports


def _read(journal: Mapping[str, Any] | Path) -> Mapping[str, Any]:
    if isinstance(journal, Mapping):
        what, exported = "this dict", journal
    else:
        what = str(journal)
        try:
            exported = msgspec.json.decode(journal.read_bytes(), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"{what} is no exported run: {error}") from error
    if exported.get("format") != FORMAT:
        raise ConfigurationError(
            f"{what} is no exported run of format {FORMAT}: export it with client.export(id) or runnerq export"
        )
    return exported


def _ended(exported: Mapping[str, Any]) -> bool:
    outcome = exported["outcome"]
    return outcome is not None and outcome["reason"] not in OUTSIDE


def _claimed(exported: Mapping[str, Any]) -> Claimed:
    """The export as a worker would have claimed it."""
    rows = exported["generations"][-1]["rows"]
    plain = {
        "id": exported["run_id"],
        "token": 0,
        "name": exported["workflow"],
        "input": _text(exported["arguments"]) or "{}",
        "metadata": _text(exported["metadata"]),
        "rows": (),
        **{
            same: exported[same]
            for same in (
                "kind", "version", "queue", "priority", "created_at", "root_id", "parent_id", "depth", "key",
                "generation",
            )
        },
    }  # fmt: skip
    return msgspec.structs.replace(msgspec.convert(plain, Claimed), rows=tuple(_row(row) for row in rows))


def _row(row: Mapping[str, Any]) -> Row:
    return msgspec.convert({**row, "value": _text(row["value"]), "asked": _text(row["asked"])}, Row)


def _text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
