"""What the API does to runs, one or many."""

from __future__ import annotations

import asyncio

import pytest

from runnerq.client.client import Client
from runnerq.console.models import batches
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from tests.console.api.conftest import api_of
from tests.console.api.flows import APPROVAL, checkout, refused
from tests.console.browsing import Browser

ORDER = {"item": "cup"}


async def test_a_start_counts_once_a_key_and_says_where_the_run_is(api: Browser) -> None:
    body = {"workflow": "checkout", "args": [ORDER], "metadata": {"team": "shop"}, "priority": "high"}
    first = await api.post("/runs", json=body, headers={"Idempotency-Key": "order-42"})
    again = await api.post("/runs", json=body, headers={"Idempotency-Key": "order-42"})
    own_key = await api.post("/runs", json={**body, "key": "order-42"}, headers={"Idempotency-Key": "another"})

    assert (first.status_code, again.status_code, own_key.status_code) == (201, 200, 200)
    assert first.json()["created"] is True
    assert again.json()["created"] is own_key.json()["created"] is False
    assert first.json()["run_id"] == again.json()["run_id"] == own_key.json()["run_id"]
    told = (await api.get(first.headers["Location"].removeprefix("/api/v1"))).json()
    assert (told["run"]["key"], told["run"]["priority"], told["metadata"]) == ("order-42", "high", {"team": "shop"})


async def test_a_key_that_cannot_be_kept_is_the_askers_mistake(api: Browser) -> None:
    for body, headers in (({"key": "k\0"}, {}), ({}, {"Idempotency-Key": b"k\x00"})):
        answer = await api.post("/runs", json={"workflow": "checkout", **body}, headers=headers)
        assert answer.status_code == 400, body
        assert "NUL" in answer.json()["errors"][0]["message"]


async def test_a_key_that_is_taken_can_be_refused(api: Browser) -> None:
    body = {"workflow": "checkout", "args": [ORDER], "key": "order-42", "on_duplicate": "no_reuse"}
    holder = (await api.post("/runs", json=body)).json()["run_id"]

    again = await api.post("/runs", json=body)

    assert again.status_code == 409
    assert again.json()["run_id"] == holder


async def test_a_signal_counts_once_an_idempotency_key(api: Browser, client: Client) -> None:
    run = await client.start("checkout", ORDER)
    body = {"channel": "approval", "value": {"ok": True}}

    sent = [
        (await api.post(f"/runs/{run.id}/send", json=body, headers={"Idempotency-Key": "x"})).json() for _ in range(2)
    ]

    assert [each["changed"] for each in sent] == [True, False]
    [unread] = (await api.get(f"/runs/{run.id}/signals")).json()["unread"]
    whole = (await api.get(f"/runs/{run.id}/payloads/signal", params={"entry": unread["number"]})).json()
    assert unread["value"]["value"] == whole["value"] == {"ok": True}


async def test_an_action_on_a_run_in_another_state_is_a_conflict_that_names_the_state(
    api: Browser, client: Client, worker: Worker
) -> None:
    run = await client.start("echo", 1)
    await run.result(20)

    for path, body in (
        ("retry", {}),
        ("redrive", {}),
        ("send", {"channel": "approval"}),
        ("run-now", {}),
        ("priority", {"priority": "low"}),
        ("reschedule", {"at": "2030-01-01T00:00:00Z"}),
    ):
        answer = await api.post(f"/runs/{run.id}/{path}", json=body)
        assert (path, answer.status_code) == (path, 409)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["run_status"] == "completed"


async def test_an_action_asked_for_twice_changes_something_once(api: Browser, client: Client) -> None:
    run = await client.start("checkout", ORDER)

    answers = [(await api.post(f"/runs/{run.id}/cancel", json={"reason": "no stock"})).json() for _ in range(2)]

    assert [answer["changed"] for answer in answers] == [True, False]
    rows = (await api.get("/audit", params={"run_id": run.id})).json()["items"]
    assert [(row["action"], row["principal"], row["reason"]) for row in rows] == [("cancel", "local", "no stock")] * 2


async def test_two_operators_who_act_on_one_run_at_once_are_both_answered_and_one_changes_it(client: Client) -> None:
    run = await client.start("checkout", ORDER)
    async with api_of(client) as ada, api_of(client) as bob:
        answers = await asyncio.gather(
            *(each.post(f"/runs/{run.id}/cancel", json={"reason": who}) for each, who in ((ada, "a"), (bob, "b")))
        )

    assert [answer.status_code for answer in answers] == [200, 200]
    assert sorted(answer.json()["changed"] for answer in answers) == [False, True]
    winner = "ab"[[answer.json()["changed"] for answer in answers].index(True)]
    assert (await client.info(run.id)).reason == winner


async def test_a_run_that_ends_meanwhile_is_said_to_have_ended(api: Browser, client: Client, worker: Worker) -> None:
    run = await client.start(checkout, ORDER)
    await run.reached(Status.WAITING)
    offered = {offer["name"] for offer in (await api.get(f"/runs/{run.id}")).json()["actions"] if offer["enabled"]}
    assert {"send", "cancel"} <= offered
    await run.send(APPROVAL, None)
    await run.result(20)

    send = await api.post(f"/runs/{run.id}/send", json={"channel": "approval", "value": 1})
    cancel = await api.post(f"/runs/{run.id}/cancel", json={})

    assert (send.status_code, send.json()["run_status"]) == (409, "completed")
    assert (cancel.status_code, cancel.json()["changed"]) == (200, False)
    assert "completed" in cancel.json()["message"]


async def test_a_fork_is_a_new_run_with_the_history_up_to_an_entry(
    api: Browser, client: Client, worker: Worker
) -> None:
    run = await client.start(checkout, ORDER)
    await run.send(APPROVAL, 1)
    await run.result(20)
    entries = (await api.get(f"/runs/{run.id}/history", params={"kind": "signal"})).json()["entries"]

    forked = (await api.post(f"/runs/{run.id}/fork", json={"from_entry": entries[0]["position"]})).json()
    unknown = await api.post(f"/runs/{run.id}/fork", json={"from_entry": "999"})

    assert forked["run_id"] != run.id
    assert (await api.get(f"/runs/{forked['run_id']}")).json()["forked_from"]["id"] == run.id
    assert unknown.status_code == 400


async def test_a_dead_letter_goes_on_and_an_ended_run_is_deleted(api: Browser, client: Client, worker: Worker) -> None:
    run = await client.start(refused, "no stock")
    await run.reached(Status.DEAD_LETTER)
    again = await api.post(f"/runs/{run.id}/redrive", json={"reason": "there is stock"})
    assert again.json()["changed"] is True
    await run.reached(Status.DEAD_LETTER)

    gone = await api.delete(f"/runs/{run.id}", headers={"Content-Type": "application/json"})

    assert gone.json()["changed"] is True
    assert (await api.get(f"/runs/{run.id}")).status_code == 404


async def test_a_batch_first_says_what_it_would_do_and_then_how_far_it_is(api: Browser, client: Client) -> None:
    runs = await client.start_many("shop", [(number,) for number in range(12)])
    await client.start("other", 1)
    body = {"action": "cancel", "where": {"workflow": "shop", "status": ["pending", "scheduled"]}}

    dry = await api.post("/runs/batch", json={**body, "dry_run": True})
    untouched = (await client.info(runs[0].id)).status
    begun = await api.post("/runs/batch", json={**body, "reason": "the shop is closed"})
    where = begun.headers["Location"].removeprefix("/api/v1")
    while (batch := (await api.get(where)).json())["state"] == "running":
        await asyncio.sleep(0)

    assert (dry.status_code, dry.json()["count"], dry.json()["batch"]) == (200, {"n": 12, "capped": False}, None)
    assert len(dry.json()["sample"]) > 0
    assert untouched == Status.PENDING
    assert begun.status_code == 202
    assert (batch["state"], batch["changed"], batch["failed"], batch["reason"]) == ("done", 12, 0, "the shop is closed")
    assert batch["params"] == {"workflow": "shop", "status": ["pending", "scheduled"]}
    assert (await client.count()) == 13
    assert {(await client.info(run.id)).status for run in runs} == {Status.CANCELLED}


async def test_a_batch_of_runs_by_id_tells_of_those_that_could_not_be_changed(api: Browser, client: Client) -> None:
    run = await client.start("shop", 1)
    unknown = "0197f000-0000-7000-8000-000000000000"

    begun = await api.post("/runs/batch", json={"action": "delete", "ids": [run.id, unknown]})
    where = begun.headers["Location"].removeprefix("/api/v1")
    while (batch := (await api.get(where)).json())["state"] == "running":
        await asyncio.sleep(0)

    assert (batch["changed"], batch["failed"]) == (0, 2)
    assert {failure["run_id"] for failure in batch["failures"]} == {run.id, unknown}


async def test_whoever_stops_a_batch_may_say_why_and_the_audit_keeps_it(api: Browser, client: Client) -> None:
    run = await client.start("shop", 1)
    begun = await api.post("/runs/batch", json={"action": "cancel", "ids": [run.id]})
    batch = begun.json()["batch"]["id"]

    await api.post(f"/batches/{batch}/stop", json={"reason": "the wrong ones"})

    stops = (await api.get("/audit?action=batch-stop")).json()["items"]
    assert [(row["target"], row["reason"]) for row in stops] == [(batch, "the wrong ones")]


async def test_no_more_runs_than_the_document_says_are_taken_by_id(api: Browser) -> None:
    schema = (await api.get("/openapi.json")).json()["components"]["schemas"]["BatchBody"]["properties"]["ids"]
    ids = ["0197f000-0000-7000-8000-000000000000"] * schema["maxItems"]

    taken = await api.post("/runs/batch", json={"action": "cancel", "ids": ids, "dry_run": True})
    refused = await api.post("/runs/batch", json={"action": "cancel", "ids": [*ids, ids[0]], "dry_run": True})

    assert (taken.status_code, refused.status_code) == (200, 400)
    assert [each["field"] for each in refused.json()["errors"]] == ["ids"]


async def test_a_group_of_dead_letters_is_redriven_by_its_query(api: Browser, client: Client, worker: Worker) -> None:
    for why in ("order 1 is out of stock", "order 2 is out of stock", "the bank is closed"):
        await (await client.start(refused, why)).reached(Status.DEAD_LETTER)
    group = (await api.get("/dead-letter")).json()["groups"][0]

    dry = (await api.post("/dead-letter/redrive", json={"where": group["query"], "dry_run": True})).json()
    begun = await api.post("/dead-letter/redrive", json={"where": group["query"]})
    where = begun.headers["Location"].removeprefix("/api/v1")
    while (batch := (await api.get(where)).json())["state"] == "running":
        await asyncio.sleep(0)

    assert dry["count"]["n"] == batch["total"] == batch["changed"] == 2


async def test_a_body_that_cannot_be_taken_says_which_field_it_is(api: Browser, client: Client) -> None:
    run = await client.start("shop", 1)
    path = f"/runs/{run.id}/priority"
    sent = {"content-type": "application/json"}

    for body, field in (
        (b"{", "body"),
        (b"[]", "body"),
        (b"[" * 1000, "body"),
        (b"{}", "body"),
        (b'{"priority": "urgent"}', "priority"),
        (b'{"priority": 1}', "priority"),
        (b'{"priority": "low", "reasn": ""}', "body"),
        (b'{"priority": "low", "reason": ["a"]}', "reason"),
    ):
        answer = await api.post(path, content=body, headers=sent)
        assert (body, answer.status_code) == (body, 400)
        assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_a_body_is_json_and_no_more_than_one_megabyte(api: Browser) -> None:
    text = b'{"workflow": "echo", "args": ["%s"]}'
    large = await api.post("/runs", content=text % (b"x" * (1 << 20)), headers={"Content-Type": "application/json"})
    other = await api.post("/runs", content=text % b"x", headers={"Content-Type": "application/xml"})

    assert (large.status_code, other.status_code) == (413, 415)
    assert large.headers["content-type"] == other.headers["content-type"] == "application/problem+json"
    assert (await api.get("/runs")).json()["items"] == []


async def test_one_batch_too_many_is_told_to_come_again(
    api: Browser, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_RUNNING", 0)
    run = await client.start("shop", 1)

    answer = await api.post("/runs/batch", json={"action": "cancel", "ids": [run.id]})

    assert answer.status_code in (409, 429)
    assert "batches are under way" in answer.json()["detail"]
    assert (await client.audit.list()).items == []
