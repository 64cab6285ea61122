"""What forms and addresses carry, as pages and actions want it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from runnerq.console.models.filters import BadFields
from runnerq.console.table import ACTIONS, ActionSpec
from runnerq.console.web.context import Form, Here

NOT_OURS = ("csrf", "back", "verb", "id", "reason", "known")
"""Fields of forms that are no conditions of a query."""


class Texts(dict[str, str]):
    """Texts by the name of a field, empty where there is none."""

    def __missing__(self, name: str) -> str:
        return ""


def texts(form: Form) -> Texts:
    """The last value of each field, to be shown again as it was typed."""
    return Texts({name: form.get(name) for name in form.fields})


def pairs(form: Form, without: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Names and values, those of several values several times."""
    left_out = frozenset(without)
    return [(name, value) for name in form.fields if name not in left_out for value in form.all(name)]


def reason_of(form: Form) -> str | None:
    """The reason that was given, if one was."""
    return form.get("reason") or None


def bulk_verbs(here: Here) -> tuple[ActionSpec, ...]:
    """What whoever looks may do to many runs at once."""
    if not here.may("bulk"):
        return ()
    return tuple(spec for spec in ACTIONS.values() if spec.bulk and here.may(spec.permission))


class Reader:
    """Reads typed values out of a form, and collects what was wrong with which field."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.errors: dict[str, str] = {}

    def number(self, name: str, what: str) -> float | None:
        """A number above 0; None for an empty field, or one that is wrong."""
        text = self._form.get(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        # Neither infinite nor no number at all.
        if not 0 < value < 1e15:
            self.errors[name] = f"{text[:40]!r} is no {what}: give a number above 0"
            return None
        return value

    def whole(self, name: str, what: str) -> int | None:
        """A whole number above 0; None for an empty field, or one that is wrong."""
        value = self.number(name, what)
        if value is not None and value != int(value):
            self.errors[name] = f"{self._form.get(name)[:40]!r} is no whole number"
            return None
        return None if value is None else int(value)

    def json_list(self, name: str) -> list[Any]:
        """A JSON list; an empty field is an empty one."""
        text = self._form.get(name)
        if not text:
            return []
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            self.errors[name] = f"this is no JSON: {error}"
            return []
        if not isinstance(value, list):
            self.errors[name] = "expected a JSON list, such as [42] or []"
            return []
        return value

    def moment(self, name: str, here: Here) -> datetime | None:
        """A time, in the zone that was chosen where it is written without one."""
        text = self._form.get(name)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.errors[name] = (
                f"{text[:40]!r} is no time: write it as 2026-03-01 09:00" if text else "a time is missing"
            )
            return None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=here.tz)

    def check(self) -> None:
        """Raise BadFields if something was wrong."""
        if self.errors:
            raise BadFields(self.errors)


def by_field(error: Exception) -> Mapping[str, str]:
    """What is to be said beside which field; what belongs to none has the name ``""``."""
    return error.errors if isinstance(error, BadFields) else {"": str(error)}
