"""What is done to several schedules at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from runnerq.console.actions.fleet import pause_schedule, resume_schedule
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.errors import ConfigurationError, ScheduleNotFound, StorageUnavailable

Verb: TypeAlias = Literal["pause", "resume"]

MOST_NAMED = 1_000
TOLD = 3
"""Names of a kind that a message holds."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it, by name: those that are otherwise now, those that were so already, and those that could not be
    changed, each with why."""

    verb: Verb
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def message(self) -> str:
        """The same in words."""
        parts = [f"{'Paused' if self.verb == 'pause' else 'Resumed'} {counted(len(self.changed))}"]
        if self.unchanged:
            state = "paused already" if self.verb == "pause" else "not paused"
            parts.append(f"{state}: {_names(self.unchanged)}")
        if self.refused:
            parts.append(f"not changed: {_names([f'{name} ({why})' for name, why in self.refused])}")
        return "; ".join(parts)


async def change_schedules(context: Context, verb: Verb, names: Sequence[str], *, reason: str | None = None) -> Changes:
    """Pause or resume these schedules, one after the other, each with its row in the audit.

    One that cannot be changed is told, and the rest goes on. Raises Forbidden, and BadFields for none or too many.
    """
    wanted = tuple(dict.fromkeys(names))
    if not 0 < len(wanted) <= MOST_NAMED:
        raise BadFields({"name": f"name some schedules, {MOST_NAMED:,} at most: here are {len(wanted):,}"})
    act = pause_schedule if verb == "pause" else resume_schedule
    changed: list[str] = []
    unchanged: list[str] = []
    refused: list[tuple[str, str]] = []
    for name in wanted:
        try:
            answer = await act(context, name, reason=reason)
        except ScheduleNotFound:
            refused.append((name, "there is none of this name"))
        except ConfigurationError as error:
            refused.append((name, str(error)))
        except StorageUnavailable as error:
            were = "1 was" if len(changed) == 1 else f"{len(changed)} were"
            error.add_note(f"Of these {len(wanted)} schedules {were} changed before that: look at the list.")
            raise
        else:
            (changed if answer.changed else unchanged).append(name)
    return Changes(verb=verb, changed=tuple(changed), unchanged=tuple(unchanged), refused=tuple(refused))


def counted(many: int) -> str:
    """So many schedules."""
    return f"{many:,} schedule{'' if many == 1 else 's'}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - TOLD
    return ", ".join(names[:TOLD]) + (f" and {more:,} more" if more > 0 else "")
