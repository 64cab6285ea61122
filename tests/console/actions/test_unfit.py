"""What no code is known to take is refused before anything is stored, and done all the same where that is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.console.actions import fleet
from runnerq.console.actions.doing import Done
from runnerq.console.actions.runs import StartRequest, send, start
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.console.models.run import run_detail
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context as Ctx
from runnerq.workflow.declare import activity, workflow
from tests.console.browsing import Browser
from tests.console.seeing import context_of


class Order(msgspec.Struct):
    item: str
    count: int = 1


APPROVAL = Signal("approval", bool)


@activity
async def pack(order: Order, *, gift: bool = False) -> str:
    return order.item


@workflow
def sell(ctx: Ctx, order: Order) -> Flow[bool]:
    return (yield from ctx.signal(APPROVAL))


@pytest.fixture
async def context(client: Client) -> AsyncIterator[Context]:
    async with Worker(client, workflows=[sell], activities=[pack], build="tests"):
        yield context_of(client)


WRONG_CALLS: tuple[tuple[list[Any], dict[str, Any], str], ...] = (
    ([], {}, "'order' is missing"),
    ([{"count": 1}], {}, "order: 'item' is missing"),
    ([{"item": "tea", "count": "two"}], {}, "order.count: expected a whole number, got a text"),
    ([{"item": "tea"}, True], {}, "2 arguments are given by position, and it takes 1"),
    ([{"item": "tea"}], {"order": {}}, "'order' is given twice"),
    ([{"item": "tea"}], {"wrap": True}, "there is no 'wrap': there are order, gift"),
)


@pytest.mark.parametrize(("args", "kwargs", "told"), WRONG_CALLS)
async def test_a_start_with_arguments_that_are_not_taken_is_refused_with_why(
    client: Client, context: Context, args: list[Any], kwargs: dict[str, Any], told: str
) -> None:
    request = StartRequest(name="pack", args=args, kwargs=kwargs)
    with pytest.raises(BadFields) as refused:
        await start(context, request)
    assert told in refused.value.errors["args"]
    assert await client.count() == 0
    assert (await start(context, msgspec.structs.replace(request, unchecked=True))).created


async def test_a_schedule_of_arguments_that_are_not_taken_is_refused(client: Client, context: Context) -> None:
    request = fleet.ScheduleRequest(name="n", workflow="pack", args=[1], every=60)
    with pytest.raises(BadFields, match="expected an object with item"):
        await fleet.put_schedule(context, request)
    assert await client.schedules.list() == []
    assert (await fleet.put_schedule(context, msgspec.structs.replace(request, unchecked=True))).changed


async def test_a_signal_that_would_fail_its_run_is_refused_and_the_run_waits_on(
    client: Client, context: Context
) -> None:
    run = await client.start(sell, Order("tea"))
    await run.reached(Status.WAITING, timeout=30)
    for value in (None, "maybe", 1):
        with pytest.raises(BadFields, match="expected true or false") as refused:
            await send(context, run.id, "approval", value)
        assert set(refused.value.errors) == {"value"}
    assert await run.status() == Status.WAITING
    assert (await send(context, run.id, "approval", True)).warning is None
    assert await run.result(30) is True


@pytest.mark.parametrize(
    ("do", "told"),
    [
        (lambda context, run_id: start(context, StartRequest(name="sel", args=[1])), "No worker has registered 'sel'"),
        (
            lambda context, run_id: fleet.put_schedule(
                context, fleet.ScheduleRequest(name="n", workflow="sel", every=60)
            ),
            "No worker has registered 'sel'",
        ),
        (
            lambda context, run_id: send(context, run_id, "aproval", 1),
            "No wait for 'aproval' is known of its code, but for 'approval'",
        ),
    ],
)
async def test_a_name_that_nobody_knows_is_warned_of(
    client: Client, context: Context, do: Callable[[Context, str], Awaitable[Done]], told: str
) -> None:
    run = await client.start(sell, Order("tea"))
    await run.reached(Status.WAITING, timeout=30)
    done = await do(context, run.id)
    assert done.changed
    assert told in (done.warning or "")


async def test_the_page_says_what_a_signal_takes_and_sends_what_is_meant_all_the_same(
    client: Client, context: Context, browser: Browser
) -> None:
    run = await client.start(sell, Order("tea"))
    await run.reached(Status.WAITING, timeout=30)
    assert "JSON: true or false." in (await browser.get(f"/runs/{run.id}")).text
    fields = {"channel": "approval", "value": "1"}
    refused = await browser.send_form(f"/runs/{run.id}/send", fields)
    assert refused.status_code == 422
    assert "expected true or false" in refused.text
    assert 'name="unchecked"' in refused.text
    no_json = await browser.send_form(f"/runs/{run.id}/send", {**fields, "value": "yes"})
    assert no_json.status_code == 422
    assert 'name="unchecked"' not in no_json.text
    sent = await browser.send_form(f"/runs/{run.id}/send", fields, unchecked="1")
    assert sent.status_code == 303
    await run.reached(Status.FAILED, timeout=30)
    assert "true or false" in (await browser.get("/types/sell")).text


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/start", {"name": "pack", "arguments": "[1]"}),
        ("/schedule", {"name": "n", "workflow": "pack", "args": "[1]", "every": "60"}),
    ],
)
async def test_a_form_with_arguments_that_are_not_taken_comes_back_and_goes_through_when_it_is_meant(
    context: Context, browser: Browser, path: str, fields: dict[str, str]
) -> None:
    refused = await browser.send_form(path, fields)
    assert refused.status_code == 422
    assert "does not take these arguments" in refused.text
    assert 'name="unchecked"' in refused.text
    no_json = await browser.send_form(path, {**fields, "arguments": "[1", "args": "[1"})
    assert no_json.status_code == 422
    assert 'name="unchecked"' not in no_json.text
    assert (await browser.send_form(path, fields, unchecked="1")).status_code == 303


async def test_a_signal_that_the_code_is_not_known_to_wait_for_is_sent_with_a_warning_also_before_it_waits(
    client: Client, context: Context
) -> None:
    run = await client.options(delay=60).start(sell, Order("tea"))
    assert "No wait for 'aproval'" in ((await send(context, run.id, "aproval", True)).warning or "")
    assert (await send(context, run.id, "approval", True)).warning is None


async def test_an_activity_takes_no_signals(client: Client, context: Context, browser: Browser) -> None:
    run = await client.options(delay=60).start(pack, Order("tea"))
    with pytest.raises(BadFields, match="is of an activity, which takes no signals"):
        await send(context, run.id, "whatever", 1, unchecked=True)
    offer = (await run_detail(context, run.id)).action("send")
    assert offer is not None
    assert (offer.enabled, offer.why_not) == (False, "it is an activity, which takes no signals")
    sent = await browser.send_form(f"/runs/{run.id}/send", channel="whatever", value="1")
    assert (sent.status_code, "takes no signals" in sent.text) == (422, True)
    assert await client.storage.mailbox(run.id) == []
