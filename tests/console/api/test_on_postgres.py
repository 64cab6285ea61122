"""What the API does on a real database, with workers and operators at once."""

from __future__ import annotations

import asyncio

from runnerq.client.connect import connect
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from tests.console.api.conftest import api_of
from tests.console.api.flows import ACTIVITIES, LARGE, WORKFLOWS

ORDER = {"item": "cup", "password": "hunter2", "amount": LARGE}


async def test_two_operators_and_a_worker_act_on_one_run_and_it_ends_once(database: str) -> None:
    async with (
        connect(database) as client,
        connect(database) as other,
        Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES),
        api_of(client) as ada,
        api_of(other) as bob,
    ):
        started = await ada.post("/runs", json={"workflow": "checkout", "args": [ORDER], "key": "order-42"})
        run_id = started.json()["run_id"]
        await client.handle(run_id).reached(Status.WAITING)
        waiting = asyncio.ensure_future(ada.get(f"/runs/{run_id}/result", params={"wait": "30"}))

        sent, cancelled, terminated = await asyncio.gather(
            ada.post(f"/runs/{run_id}/send", json={"channel": "approval", "value": LARGE}),
            bob.post(f"/runs/{run_id}/cancel", json={"reason": "no stock"}),
            bob.post(f"/runs/{run_id}/terminate", json={"reason": "no time"}),
        )
        ended = (await waiting).json()
        rows = (await bob.get("/audit", params={"run_id": run_id})).json()["items"]
        listed = (await bob.get("/runs", params={"q": "order-", "count": "1"})).json()
        shown = (await bob.get(f"/runs/{run_id}")).json()

    assert {sent.status_code, cancelled.status_code, terminated.status_code} <= {200, 409}
    assert ended["ended"] is True
    assert ended["status"] in ("completed", "cancelled")
    assert sorted(row["action"] for row in rows) == ["cancel", "send", "start", "terminate"]
    assert listed["count"] == {"n": 1, "capped": False}
    assert [run["status"] for run in listed["items"]] == [ended["status"]]
    assert shown["input"]["value"][0]["amount"] == LARGE
    assert "hunter2" not in str(shown)
