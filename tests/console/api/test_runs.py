"""What the API tells of runs."""

from __future__ import annotations

import json

from runnerq.client.client import Client
from runnerq.console.api.shapes import RunsQuery
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from tests.console.api.flows import APPROVAL, LARGE, checkout, echo, refused
from tests.console.browsing import Browser

ORDER = {"item": "cup", "amount": LARGE}


async def test_a_run_is_told_with_what_it_waits_for_and_its_payloads_as_json(
    api: Browser, client: Client, worker: Worker
) -> None:
    run = await client.options(key="order-42", metadata={"team": "shop"}).start(checkout, ORDER)
    await run.reached(Status.WAITING)

    told = (await api.get(f"/runs/{run.id}")).json()

    assert told["run"]["status"] == "waiting"
    assert told["run"]["key"] == "order-42"
    assert told["waiting"]["channels"] == ["approval"]
    assert told["metadata"] == {"team": "shop"}
    assert told["input"]["value"] == [ORDER]
    assert told["state"]["value"]["item"] == "cup"
    assert told["result"] is None
    assert {offer["name"] for offer in told["actions"] if offer["enabled"]} >= {"send", "cancel", "terminate"}


async def test_everything_about_a_run_that_has_ended_can_be_asked_for(
    api: Browser, client: Client, worker: Worker
) -> None:
    run = await client.start(checkout, ORDER)
    await run.send(APPROVAL, {"ok": True})
    await run.result(20)

    history = (await api.get(f"/runs/{run.id}/history", params={"kind": ["step", "signal"]})).json()
    rows = (await api.get(f"/runs/{run.id}/history", params={"view": "full"})).json()
    steps = (await api.get(f"/runs/{run.id}/steps")).json()
    signals = (await api.get(f"/runs/{run.id}/signals")).json()
    tree = (await api.get(f"/runs/{run.id}/tree")).json()
    export = (await api.get(f"/runs/{run.id}/export")).json()

    assert [entry["name"] for entry in history["entries"]] == ["charge", "approval"]
    assert history["entries"][0]["value"]["value"]["receipt"] == LARGE
    assert history["kinds"]["step"] == 1
    assert rows["rows"][0]["kind"] == "started"
    assert [step["kind"] for step in steps["items"]] == ["started", "step", "publish", "signal"]
    assert signals["taken"][0]["value"]["value"] == {"ok": True}
    assert [node["run"]["id"] for node in tree["nodes"]] == [run.id]
    assert export["run_id"] == run.id
    assert export["outcome"]["result"]["receipt"]["receipt"] == LARGE


async def test_a_listing_goes_on_from_its_cursor_without_a_gap_and_back_again(api: Browser, client: Client) -> None:
    runs = await client.start_many("shop", [(number,) for number in range(5)])
    newest_first = [run.id for run in reversed(runs)]

    first = (await api.get("/runs", params={"limit": 2, "workflow": "shop", "count": "1"})).json()
    query = {"limit": 2, "workflow": "shop"}
    second = (await api.get("/runs", params={**query, "cursor": first["next_cursor"]})).json()
    third = (await api.get("/runs", params={**query, "cursor": second["next_cursor"]})).json()
    back = (await api.get("/runs", params={**query, "cursor": second["previous_cursor"]})).json()

    pages = [[run["id"] for run in page["items"]] for page in (first, second, third, back)]
    assert pages == [newest_first[:2], newest_first[2:4], newest_first[4:], newest_first[:2]]
    assert third["next_cursor"] is None
    assert first["count"] == {"n": 5, "capped": False}
    assert second["count"] is None


async def test_a_cursor_of_another_filter_or_another_console_is_refused(api: Browser, client: Client) -> None:
    await client.start_many("shop", [(number,) for number in range(3)])
    cursor = (await api.get("/runs", params={"limit": 1})).json()["next_cursor"]

    for params in ({"cursor": cursor, "workflow": "shop", "limit": 1}, {"cursor": f"{cursor}x"}, {"cursor": "x"}):
        refused_with = await api.get("/runs", params=params)
        assert refused_with.status_code == 400
        assert refused_with.json()["type"].endswith("bad-cursor")


async def test_what_is_wrong_with_each_parameter_is_told(api: Browser) -> None:
    answer = await api.get("/runs", params={"statsu": "failed", "limit": "900", "status": "lost", "sort": "newest"})

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert {error["field"] for error in told["errors"]} == {"statsu", "limit", "status"}
    assert {"type", "title", "status", "detail", "instance"} <= told.keys()
    assert told["instance"] == "/api/v1/runs"


async def test_every_condition_narrows_the_listing_and_none_is_passed_over(api: Browser, client: Client) -> None:
    run = await client.options(key="order-1", queue="mail", metadata={"team": "shop"}).start("shop", 1)
    fitting = {
        "status": "pending", "workflow": "shop", "queue": "mail", "q": run.id[:13], "key": "order-",
        "meta": "team=shop", "since": "1h", "until": "2100-01-01T00:00:00Z", "roots": "1", "root": run.id,
    }  # fmt: skip
    others = {
        "status": "failed", "workflow": "bank", "queue": "default", "q": "bill-", "key": "bill-", "meta": "team=bank",
        "since": "2100-01-01T00:00:00Z", "until": "2000-01-01T00:00:00Z", "parent": run.id, "error": "x",
        "fingerprint": "0" * 16, "ended_since": "1h", "ended_until": "1h", "version": "7", "worker": "4711",
    }  # fmt: skip
    assert {*fitting, *others} == {*RunsQuery.__struct_fields__} - {"limit", "cursor", "sort", "count"}

    assert [each["id"] for each in (await api.get("/runs", params=fitting)).json()["items"]] == [run.id]
    for name, value in others.items():
        answer = await api.get("/runs", params={name: value, "count": "1"})
        assert (name, answer.status_code, answer.json().get("items")) == (name, 200, []), answer.text
        assert answer.json()["count"]["n"] == 0
    assert (await api.get("/runs", params={"version": "0"})).status_code == 400


async def test_what_is_not_there_is_a_problem_of_its_own(api: Browser) -> None:
    unknown = "/runs/0197f000-0000-7000-8000-000000000000"
    for path in (unknown, f"{unknown}/history", "/runs/none", "/schedules/none", "/workers/7", "/batches/x"):
        answer = await api.get(path)
        assert (path, answer.status_code) == (path, 404)
        assert answer.headers["content-type"] == "application/problem+json"
    assert (await api.get("/nothing")).headers["content-type"] == "application/problem+json"


async def test_a_result_is_waited_for_and_comes_as_soon_as_it_is_there(
    api: Browser, client: Client, worker: Worker
) -> None:
    run = await client.start(checkout, ORDER)
    await run.reached(Status.WAITING)
    at_once = (await api.get(f"/runs/{run.id}/result")).json()
    in_time = (await api.get(f"/runs/{run.id}/result", params={"wait": "0.05"})).json()
    assert (at_once["ended"], at_once["status"]) == (in_time["ended"], in_time["status"]) == (False, "waiting")

    await run.send(APPROVAL, LARGE)
    answer = await api.get(f"/runs/{run.id}/result", params={"wait": "20"})

    assert answer.json()["ended"] is True
    assert answer.json()["result"]["value"] == {"receipt": {"receipt": LARGE, "token": None}, "decision": LARGE}
    assert str(LARGE) in answer.text


async def test_the_result_of_a_run_that_failed_is_its_error(api: Browser, client: Client, worker: Worker) -> None:
    run = await client.start(refused, "no stock")

    told = (await api.get(f"/runs/{run.id}/result", params={"wait": "20"})).json()

    assert (told["ended"], told["status"], told["result"]) == (True, "dead_letter", None)
    assert (told["error"]["type"], told["error"]["message"]) == ("ValueError", "no stock")


async def test_a_payload_of_900_kb_is_whole_where_it_is_asked_for_and_left_out_elsewhere(
    api: Browser, client: Client, worker: Worker
) -> None:
    text = "x" * 900_000
    started = await api.post("/runs", json={"workflow": "echo", "args": [text]})
    run_id = started.json()["run_id"]

    result = (await api.get(f"/runs/{run_id}/result", params={"wait": "20"})).json()
    shown = await api.get(f"/runs/{run_id}")
    whole = (await api.get(f"/runs/{run_id}/payloads/input")).json()

    assert result["result"]["value"] == text
    assert whole["value"] == [text]
    assert shown.json()["input"] == {"value": None, "size": 900_004, "cut": True, "redacted": False, "sealed": None}
    assert len(shown.content) < 100_000


async def test_integers_are_exact_however_large(api: Browser, client: Client, worker: Worker) -> None:
    body = b'{"workflow": "echo", "args": [{"n": 1152921504606846977, "m": -18446744073709551617}]}'
    started = await api.post("/runs", content=body, headers={"Content-Type": "application/json"})

    answer = await api.get(f"/runs/{started.json()['run_id']}/result", params={"wait": "20"})

    assert json.loads(answer.text)["result"]["value"] == {"n": 1152921504606846977, "m": -18446744073709551617}


async def test_dead_letters_that_failed_alike_are_one_group_whose_query_lists_them(
    api: Browser, client: Client, worker: Worker
) -> None:
    alike = [await client.start(refused, f"order {number} is out of stock") for number in (17, 18)]
    other = await client.start(refused, "the bank is closed")
    for run in (*alike, other):
        await run.reached(Status.DEAD_LETTER)

    groups = (await api.get("/dead-letter")).json()["groups"]

    assert [group["count"] for group in groups] == [2, 1]
    listed = (await api.get("/runs", params=groups[0]["query"])).json()
    assert {run["id"] for run in listed["items"]} == {run.id for run in alike}


async def test_echo_of_nothing_is_a_result_and_not_none(api: Browser, client: Client, worker: Worker) -> None:
    run = await client.start(echo, None)

    told = (await api.get(f"/runs/{run.id}/result", params={"wait": "20"})).json()

    assert told["result"]["value"] is None
    assert told["result"]["cut"] is False
