"""A redactor of somebody else's, as pages and files can rely on it."""

from __future__ import annotations

import logging
from typing import Any

from runnerq.console.models.redaction import MASK, Redactor, Spot

_NAMED = frozenset({"metadata", "schedule"})
"""Kinds whose mappings are shown name by name."""
_log = logging.getLogger("runnerq.console")


def reliable(redact: Redactor) -> Redactor:
    """The redactor, which always answers: where it raises all of the value is masked, and the log has why.

    It may answer with anything, and what is shown as names and values has to have some: an answer for a mapping that is
    none itself stands in one under no name.
    """

    def shown(spot: Spot, value: Any) -> Any:
        try:
            answer = redact(spot, value)
        except Exception:  # noqa: BLE001 - a function of somebody else's
            _log.exception("redact= has failed on a payload of %r (%s of %r)", spot.run_id, spot.kind, spot.workflow)
            answer = MASK
        if spot.kind in _NAMED and isinstance(value, dict) and not isinstance(answer, dict):
            return {"": answer}
        return answer

    return shown
