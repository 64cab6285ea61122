"""What the API tells of everything but runs, and does to it."""

from __future__ import annotations

from runnerq.client.client import Client
from runnerq.runtime.worker import Worker
from tests.console.browsing import Browser

JSON = {"Content-Type": "application/json"}


async def test_a_schedule_is_put_looked_at_paused_triggered_and_deleted(api: Browser) -> None:
    rule = {"workflow": "report", "args": [{"n": 1}], "cron": "0 6 * * mon-fri", "zone": "Europe/Berlin"}

    made = await api.put("/schedules/report", json=rule)
    told = (await api.get("/schedules/report")).json()
    paused = await api.post("/schedules/report/pause", json={"reason": "holidays"})
    triggered = (await api.post("/schedules/report/trigger", headers=JSON)).json()
    resumed = await api.post("/schedules/report/resume", headers=JSON)
    filled = await api.post(
        "/schedules/report/backfill", json={"since": "2026-01-05T00:00:00Z", "until": "2026-01-08T00:00:00Z"}
    )
    gone = await api.delete("/schedules/report", headers=JSON)

    assert [answer.json()["changed"] for answer in (made, paused, resumed, gone)] == [True] * 4
    assert (told["workflow"], told["args"]["value"], len(told["next"])) == ("report", [{"n": 1}], 5)
    assert (await api.get(f"/runs/{triggered['run_id']}")).json()["run"]["workflow"] == "report"
    assert filled.json()["count"] == 3
    assert (await api.get("/schedules")).json()["items"] == []
    assert (await api.get("/schedules/report")).status_code == 404


async def test_a_schedule_that_cannot_be_is_refused_in_words(api: Browser) -> None:
    answer = await api.put("/schedules/report", json={"workflow": "report", "cron": "61 * * * *"})

    assert answer.status_code == 400
    assert "61" in answer.json()["detail"]


async def test_a_name_with_a_slash_is_encoded_twice(api: Browser, client: Client) -> None:
    await client.options(queue="eu/mail").start("shop", 1)

    paused = await api.post("/queues/eu%252Fmail/pause", json={"reason": "spam"})
    told = (await api.get("/queues/eu%252Fmail")).json()["queue"]

    assert paused.json()["changed"] is True
    assert (told["name"], told["paused_at"] is None, told["reason"]) == ("eu/mail", False, "spam")
    assert (await api.post("/queues/eu%252Fmail/resume", headers=JSON)).json()["changed"] is True


async def test_a_limit_is_made_changed_and_ended(api: Browser) -> None:
    made = await api.put("/limits/stripe", json={"concurrency": 5, "rate": 100, "per": 60})
    [limit] = (await api.get("/limits")).json()["items"]
    nothing = await api.put("/limits/stripe", json={})
    gone = await api.delete("/limits/stripe", headers=JSON)

    assert (limit["scope"], limit["concurrency"], limit["rate"], limit["per"]) == ("stripe", 5, 100, 60)
    assert (made.status_code, nothing.status_code, gone.json()["changed"]) == (200, 400, True)


async def test_workers_types_and_the_state_of_everything_are_told(api: Browser, client: Client, worker: Worker) -> None:
    await (await client.start("echo", 1)).result(20)

    workers = (await api.get("/workers")).json()["items"]
    one = (await api.get(f"/workers/{workers[0]['id']}")).json()
    types = (await api.get("/types")).json()["items"]
    echo = (await api.get("/types/echo")).json()["type"]
    stats = (await api.get("/stats")).json()
    activity = (await api.get("/activity", params={"window": "1h"})).json()

    assert isinstance(one["id"], str)
    assert (one["state"], one["build"].partition("/")[0]) == ("alive", "tests")
    assert {each["name"] for each in types} == {"charge", "checkout", "echo", "refuse", "refused"}
    assert isinstance(echo["versions"][0]["schema"], dict)
    assert stats["workers"] == 1
    assert activity["step"] == 60


async def test_who_asks_is_told_what_they_may_do(api: Browser) -> None:
    told = (await api.get("/me")).json()

    assert told["name"] == "local"
    assert "cancel" in told["permissions"]
