"""What workflows and activities take, as workers have registered it: arguments, and signals.

Rules
- A value is said not to fit where no registered version that it may be for takes it. Of a name, a version or a channel
  that nobody has registered, or whose type has no JSON Schema, nothing is known, and everything fits.
- What does not fit would block the run that is started, or fail the one that takes the signal: it is refused before
  anything is stored, unless whoever asks says that it is meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.console.models.fitting import Schema, misfit, words
from runnerq.persistence.records import Definition, RunRecord

OURS = "x-runnerq"
"""Where a schema has what JSON Schema has no word for; ``runnerq.runtime.schemas`` says what."""


class Misfit(BadFields):
    """A value that no code is known to take. It can be meant all the same: ``unchecked`` says so."""


class Takes(msgspec.Struct, frozen=True):
    """What one registered version takes: the schema of its input, and what is said of it besides."""

    schema: Schema

    @property
    def channels(self) -> Mapping[str, Schema]:
        """The schema of each signal whose type is known."""
        signals: Mapping[str, Schema] = self._more.get("signals", {})
        return signals

    @property
    def _more(self) -> Mapping[str, Any]:
        more: Mapping[str, Any] = self.schema.get(OURS, {})
        return more

    def misfit_of_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Why it cannot be called with these arguments."""
        positional = self._more.get("positional")
        if positional is None:  # of an older runnerq, which did not say
            return None
        if len(args) > len(positional) and not self._more.get("more"):
            takes = f"takes {len(positional)}" if positional else "takes none"
            return f"{len(args)} arguments are given by position, and it {takes}"
        given = dict(zip(positional, args, strict=False))
        if twice := sorted(given.keys() & kwargs.keys()):
            return f"{twice[0]!r} is given twice"
        return misfit(self.schema, {**given, **kwargs}, self.schema)

    def misfit_of_signal(self, channel: str, value: Any) -> str | None:
        """Why a wait for this signal would not take the value."""
        schema = self.channels.get(channel)
        return None if schema is None else misfit(schema, value, self.schema)

    def in_words(self) -> tuple[tuple[str, str], ...]:
        """Each channel whose type is known, with what it takes."""
        return tuple((channel, words(self.channels[channel], self.schema)) for channel in sorted(self.channels))


async def misfit_of_call(context: Context, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Why no registered version of this name can be called with these arguments."""
    known = await _known(context, name)
    takes = [_takes(each) for each in known]
    found = [None if each is None else each.misfit_of_call(args, kwargs) for each in takes]
    return found[0] if found and all(each is not None for each in found) else None


async def is_registered(context: Context, name: str) -> bool:
    """Whether any worker has registered this name."""
    return bool(await _known(context, name))


async def takes_of(context: Context, record: RunRecord) -> Takes | None:
    """What the code of this run takes; None where that is not known."""
    known = await _known(context, record.name)
    found = next((each for each in known if (each.kind, each.version) == (record.kind, record.version)), None)
    return None if found is None else _takes(found)


async def _known(context: Context, name: str) -> list[Definition]:
    return await context.cache.get(("definitions", name), lambda: context.client.storage.definitions(name))


def _takes(definition: Definition) -> Takes | None:
    return None if definition.schema is None else Takes(msgspec.json.decode(definition.schema))
