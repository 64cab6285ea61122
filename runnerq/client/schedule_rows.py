"""From a schedule as it is given to the row that is stored, and whether that is what is stored already."""

from __future__ import annotations

from typing import Any

import msgspec

from runnerq.client.schedule import Schedule
from runnerq.client.starting import UNKNOWN_VERSION, Input, Target, target_of, template
from runnerq.errors import ConfigurationError, DecodingError
from runnerq.persistence.records import ScheduleRow
from runnerq.serialization.codec import Codec, encoded
from runnerq.serialization.digest import digest

_sorted = msgspec.json.Encoder(order="sorted").encode


class Given:
    """A schedule as it is given to ``put``: its row, and what tells it from another one.

    ConfigurationError, EncodingError or TypeError for what no run could start with.
    """

    __slots__ = ("_codec", "_target", "_what", "row")

    def __init__(self, schedule: object, codec: Codec) -> None:
        if not isinstance(schedule, Schedule):
            raise ConfigurationError(f"{schedule!r} is no Schedule: put(Schedule(name, workflow, cron=...))")
        self._codec = codec
        self._target = _target(schedule.workflow)
        self._what = Input(f"{self._target.name} of schedule {schedule.name!r}")
        self.row = self._row(schedule)

    def is_stored_as(self, stored: ScheduleRow) -> bool:
        """Whether this row says the same; the order of sets, and of a dict's keys, says nothing."""
        if msgspec.structs.replace(stored, input=self.row.input) != self.row:
            return False
        return stored.input == self.row.input or self._digest(stored.input) == self._digest(self.row.input)

    def _digest(self, text: str) -> str | None:
        """Of the arguments as they are read back; None of those that the function does not take any more."""
        signature = self._target.signature
        if signature is None:
            return digest((msgspec.json.decode(text),), {}, b"")
        try:
            return digest(*self._codec.decode_call(text, signature, self._what), b"")
        except DecodingError:
            return None

    def _row(self, schedule: Schedule) -> ScheduleRow:
        target, options = self._target, schedule.start_options()
        of = template(target, options)
        by_name = target.fn is None
        return ScheduleRow(
            name=schedule.name,
            workflow=target.name,
            kind=None if by_name else target.kind,
            version=target.version,
            input=self._input(schedule.args),
            cron=schedule.cron,
            every=None if schedule.every is None else schedule.seconds_between(),
            zone=schedule.zone,
            missed=schedule.missed,
            overlap=schedule.overlap,
            jitter=schedule.seconds_of_jitter(),
            # By name, what is not given is what is known of the name when it fires.
            queue=options.queue if by_name else of.queue,
            priority=options.priority if by_name else of.priority,
            metadata=None if of.metadata is None else _sorted(msgspec.json.decode(of.metadata)).decode(),
            options=of.stored,
            limit=options.limit,
        )

    def _input(self, args: tuple[Any, ...]) -> str:
        self._target.encoded(args, {}, self._codec, self._what)  # what is refused is told as it was given
        return self._codec.encode_call(tuple(_in_order(args)), {}, self._what)


def _target(workflow: Any) -> Target:
    if isinstance(workflow, str):
        return Target("workflow", workflow, UNKNOWN_VERSION, None, None, {}, Any)
    return target_of(workflow)


def _in_order(value: Any) -> Any:
    """The value with each set in it as a list in one order: without a type nothing tells it from a list any more, and
    the order of a set is another one in each process."""
    # Loops, not comprehensions: a frame a level, so that all levels fit that a payload may have.
    kind = type(value)
    if kind is dict:
        entries = {}
        for key, item in value.items():
            entries[key] = _in_order(item)
        return entries
    if kind not in (list, tuple, set, frozenset):
        return value
    items = []
    for item in value:
        items.append(_in_order(item))  # noqa: PERF401  # as above
    if kind is set or kind is frozenset:
        items.sort(key=_text)
    return items


def _text(item: Any) -> bytes:
    return encoded(item, "an item of a set")
