"""Several schedules at once: what becomes of the rest where one cannot be changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.client.schedule import Schedule
from runnerq.console.access import READ_ONLY, Forbidden, Principal
from runnerq.console.actions.schedules import MOST_NAMED, Changes, change_schedules
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.errors import StorageUnavailable
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import AuditFilter, NewAudit, ScheduleRow
from tests.console.seeing import context_of

NAMES = ("a", "b", "c")


class GoesAway(MemoryStorage):
    """A storage that is gone once the audit has a row."""

    async def write_audit(self, entries: Sequence[NewAudit]) -> None:
        if await self.read_audit(AuditFilter(), 1):
            raise StorageUnavailable("the database has gone")
        await super().write_audit(entries)


async def test_one_whose_rule_cannot_be_read_here_is_told_and_the_rest_goes_on(
    client: Client, context: Context
) -> None:
    for name in ("a", "c"):
        await client.schedules.put(Schedule(name, "f", every=60))
    row = ScheduleRow(name="b", workflow="f", input="[]", cron="0 3 * * *", zone="Mars/Olympus")
    now = await client.storage.now()
    await client.storage.put_schedule(row, None, now, now)
    assert (await change_schedules(context, "pause", NAMES)).message == "Paused 3 schedules"
    told = await change_schedules(context, "resume", ["a", "a", "b", "c"])
    assert (told.changed, told.unchanged, [name for name, _ in told.refused]) == (("a", "c"), (), ["b"])
    assert told.message.startswith("Resumed 2 schedules; not changed: b (")
    assert "Mars/Olympus" in told.message


async def test_where_the_database_goes_away_it_says_how_many_were_changed() -> None:
    async with Client(GoesAway()) as client:
        for name in NAMES:
            await client.schedules.put(Schedule(name, "f", every=60))
        with pytest.raises(StorageUnavailable) as gone:
            await change_schedules(context_of(client), "pause", NAMES)
        assert gone.value.__notes__ == [
            "Schedule b is paused: that is done, and only the audit does not know of it.",
            "Of these 3 schedules 1 was changed before that: look at the list.",
        ]


async def test_nothing_is_changed_without_the_permission_or_names(client: Client, context: Context) -> None:
    await client.schedules.put(Schedule("a", "f", every=60))
    with pytest.raises(Forbidden):
        await change_schedules(msgspec.structs.replace(context, principal=Principal("eve", READ_ONLY)), "pause", ["a"])
    for names in ([], [f"{number}" for number in range(MOST_NAMED + 1)]):
        with pytest.raises(BadFields, match="name some schedules"):
            await change_schedules(context, "pause", names)
    assert [info.paused_at for info in await client.schedules.list()] == [None]


def test_of_many_names_the_first_are_told() -> None:
    told = Changes(verb="resume", changed=("x",), unchanged=("a", "b", "c", "d", "e"))
    assert told.message == "Resumed 1 schedule; not paused: a, b, c and 2 more"
