"""What an action tells of what is masked: nothing, to who tries what it may be."""

from __future__ import annotations

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.console.actions import fleet
from runnerq.console.models.audit import audit
from runnerq.console.models.context import Context


@pytest.mark.parametrize("guess", ["4711", "4712"])
async def test_whether_masked_arguments_of_a_schedule_are_these_is_not_told(
    client: Client, context: Context, guess: str
) -> None:
    request = fleet.ScheduleRequest(name="n", workflow="charge", args=[{"user": "ada", "pin": "4711"}], every=60)
    await fleet.put_schedule(context, request)
    before = await client.schedules.get("n")
    again = msgspec.structs.replace(request, args=[{"user": "ada", "pin": guess}])
    done = await fleet.put_schedule(context, again)
    after = await client.schedules.get("n")
    assert before is not None
    assert after is not None
    assert (done.message, done.changed) == ("Saved schedule n", True)
    assert after.changed_at > before.changed_at
    assert len({row.outcome for row in (await audit(context)).rows}) == 1
