"""Walks over everything that can be looked at: no secret is shown anywhere, and no markup of a payload works."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from litestar.routes import HTTPRoute

from runnerq.client.client import Client
from runnerq.client.schedule import Schedule
from runnerq.console.console import Console
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.console.browsing import Browser, console_of

SECRET = "hunter2-of-ada"  # noqa: S105 - it must not be seen
MARKUP = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
SHOWN = {"password": SECRET, "nested": [{"api_key": SECRET, "note": MARKUP}], MARKUP: MARKUP}
GO: Signal[Any] = Signal(f"go {MARKUP}", Any)
APART = ("/stream", "/events")
"""Streams, which have no end: tests of their own look at them."""


@activity(retry=1, name=f"fail {MARKUP}")
async def fail(given: dict[str, Any]) -> None:
    raise ValueError(f"{MARKUP} password={SECRET} at https://ada:{SECRET}@example.org")


@activity
async def learn(given: dict[str, Any]) -> dict[str, Any]:
    return given


@workflow(name=f"tell {MARKUP}", metadata={"token": SECRET, "note": MARKUP})
def tell(ctx: Context, given: dict[str, Any]) -> Flow[dict[str, Any]]:
    yield from ctx.step(learn, given)
    yield ctx.publish(**given)
    yield from ctx.signal(GO)
    yield from ctx.child(learn, given)
    return given


@workflow(name=f"break {MARKUP}")
def broken(ctx: Context, given: dict[str, Any]) -> Flow[None]:
    yield from ctx.step(fail, given)


@pytest.fixture
async def runs(client: Client) -> AsyncIterator[list[str]]:
    """Runs that have the secret and the markup wherever a run can have something: ended, failed, waiting, ready."""
    async with Worker(client, workflows=[tell, broken], activities=[learn, fail], build="tests"):
        done = await client.options(key=MARKUP).start(tell, SHOWN)
        await done.send(GO, SHOWN)
        await done.result(20)
        failed = await client.start(broken, SHOWN)
        await failed.reached(Status.DEAD_LETTER)
        waits = await client.start(tell, SHOWN)
        await waits.reached(Status.WAITING)
        await client.send(waits.id, f"unread {MARKUP}", SHOWN)
        ready = await client.options(queue=MARKUP, metadata={"password": SECRET}).start(MARKUP, SHOWN)
        await client.schedules.put(Schedule(MARKUP, MARKUP, (SHOWN,), every=timedelta(days=1)))
        await client.limits.set(MARKUP, concurrency=1)
        yield [done.id, failed.id, waits.id, ready.id]


@pytest.fixture
async def operated(client: Client, runs: list[str]) -> AsyncIterator[tuple[Browser, list[str]]]:
    """A console of these, where somebody has done things: they are in its audit, and it has a batch."""
    async with console_of(client) as browser:
        for path, body in (
            ("/runs", {"workflow": f"tell {MARKUP}", "args": [SHOWN], "key": MARKUP}),
            (f"/runs/{runs[2]}/send", {"channel": MARKUP, "value": SHOWN, "reason": MARKUP}),
            (f"/runs/{runs[1]}/retry", {"reason": MARKUP}),
            ("/runs/batch", {"action": "delete", "ids": [runs[2]], "reason": MARKUP}),
        ):
            answer = await browser.post(f"/api/v1{path}", json=body)
            assert answer.status_code < 300, answer.text
            assert SECRET not in answer.text
        await client.handle(runs[1]).reached(Status.DEAD_LETTER)
        yield browser, runs


def everything(client: Client, browser: Browser, runs: list[str]) -> Iterator[str]:
    """The address of everything that can be looked at, with each run's id, and the names of what else there is."""
    names = {"name": (MARKUP, f"tell {MARKUP}"), "which": ("input", "result", "state", "error")}
    for route in Console(client).app().routes:
        if not isinstance(route, HTTPRoute) or "GET" not in route.methods or route.path.endswith(APART):
            continue
        yield from _filled(route.path, {**names, "run_id": tuple(runs)})


def _filled(path: str, values: dict[str, tuple[str, ...]]) -> Iterator[str]:
    part = re.search(r"{(\w+)(?::\w+)?}", path)
    if part is None:
        yield path
        return
    for value in values.get(part[1], ("1",)):
        encoded = re.sub(r"[^\w-]", lambda char: f"%25{ord(char[0]):02X}", value)
        yield from _filled(path.replace(part[0], encoded, 1), values)


async def test_no_secret_is_on_any_page_or_in_any_answer(client: Client, operated: tuple[Browser, list[str]]) -> None:
    browser, runs = operated
    looked = 0
    for address in everything(client, browser, runs):
        answer = await browser.get(address)
        looked += answer.status_code == 200
        assert answer.status_code < 500, (address, answer.text[-2000:])
        assert SECRET not in answer.text, address
    assert looked > 80


async def test_markup_of_a_payload_is_text_on_every_page(client: Client, operated: tuple[Browser, list[str]]) -> None:
    browser, runs = operated
    seen = 0
    for address in everything(client, browser, runs):
        answer = await browser.get(address)
        if answer.headers["content-type"].startswith("text/html"):
            assert "<img src=x" not in answer.text, address
            assert "<script>" not in answer.text, address
            seen += "&lt;img src=x" in answer.text
        else:
            assert answer.headers["x-content-type-options"] == "nosniff"
    assert seen > 15


async def test_a_secret_is_revealed_to_who_may_and_says_why_and_that_is_written_down(
    operated: tuple[Browser, list[str]],
) -> None:
    browser, runs = operated
    path = f"/api/v1/runs/{runs[0]}/reveal"

    silent = await browser.post(path, json={"which": "input"})
    told = await browser.post(path, json={"which": "input", "reason": "a customer has lost it"})

    assert (silent.status_code, silent.json()["errors"][0]["field"]) == (400, "reason")
    assert told.json()["value"] == [SHOWN]
    rows = (await browser.get("/api/v1/audit", params={"action": "reveal"})).json()["items"]
    assert (rows[0]["reason"], rows[0]["outcome"]) == ("a customer has lost it", "done")
    assert SECRET not in str(rows)


async def test_an_export_says_how_much_of_it_is_masked(operated: tuple[Browser, list[str]]) -> None:
    browser, runs = operated

    export = (await browser.get(f"/api/v1/runs/{runs[0]}/export")).json()

    assert export["redacted"] > 3
    assert export["arguments"][0]["nested"][0]["note"] == MARKUP
