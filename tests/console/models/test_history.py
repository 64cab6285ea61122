from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from threading import get_ident
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.console.actions.runs import send
from runnerq.console.models.attempts import attempts
from runnerq.console.models.context import Context
from runnerq.console.models.exports import exported
from runnerq.console.models.filters import BadFields
from runnerq.console.models.history import PAGE, HistoryQuery, history, latest, page_of_entry, spans
from runnerq.console.models.redaction import MASK, Spot
from runnerq.console.models.run import whole_payload
from runnerq.console.models.signals import signals
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context as Ctx
from runnerq.workflow.declare import workflow
from tests.console.shop import SECRET, charge, checkout, flaky, refused


@workflow
def chatty(ctx: Ctx, many: int) -> Flow[None]:
    """Publishes so often."""
    for number in range(many):
        yield ctx.publish(number=number)
    yield ctx.signal("end")


async def test_a_history_shows_each_command_with_what_came_of_it(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(checkout, {})
    await client.send(run.id, "approval", {"password": SECRET})
    await run.result(timeout=10)
    page = await history(context, run.id)
    assert [(entry.number, entry.kind, entry.name, entry.state) for entry in page.entries] == [
        (1, "started", "checkout", "answered"),
        (2, "step", "charge", "answered"),
        (3, "publish", "", "answered"),
        (4, "signal", "approval", "answered"),
        (5, "child", "charge", "answered"),
    ]
    assert [entry.forkable for entry in page.entries] == [False, True, True, True, True]
    assert dict(page.kinds)["step"] == 1
    assert page.entries[3].value is not None
    assert MASK in page.entries[3].value.text
    assert SECRET not in str(page)
    full = await history(context, run.id, HistoryQuery(view="full"))
    assert [row.place for row in full.rows] == list(range(full.total))
    assert SECRET not in str(full)
    assert [entry.number for entry in await latest(context, run.id, 2)] == [5, 4]


async def test_a_redactor_knows_what_a_signal_brought_and_what_a_value_is_of_wherever_it_stands(
    client: Client, context: Context, worker: Worker
) -> None:
    asked: set[tuple[str, str]] = set()

    def redact(spot: Spot, value: object) -> object:
        asked.add((spot.kind, spot.name))
        return "hidden" if spot.kind == "signal" and spot.name == "approval" else value

    seeing = msgspec.structs.replace(context, redact=redact)
    run = await client.start(checkout, {})
    await send(seeing, run.id, "approval", "plain-4711")
    await client.send(run.id, "note", 1)
    await run.result(timeout=10)
    text = HistoryQuery(text="plain-4711")
    shown = [
        await history(seeing, run.id),
        await history(seeing, run.id, HistoryQuery(view="full")),
        await whole_payload(seeing, run.id, "entry", entry=4),
        await signals(seeing, run.id),
        (await exported(seeing, run.id)) | {"outcome": None},  # the workflow has answered with it
    ]
    for each in shown:
        assert "hidden" in str(each)
        assert "plain-4711" not in str(each)
    assert (await history(seeing, run.id, text)).found == 0
    assert {("journal", "charge"), ("signal", "note"), ("journal", ""), ("input", "")} <= asked
    assert ("journal", "approval") not in asked


async def test_a_long_run_is_read_and_shown_without_holding_up_the_event_loop(
    client: Client, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnerq.client.aside.SHORT", 3)
    threads: set[int] = set()
    turns = 0

    def redact(spot: Spot, value: object) -> object:
        threads.add(get_ident())
        return value

    async def goes_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    seeing = msgspec.structs.replace(context, redact=redact)
    async with Worker(client, workflows=[checkout], activities=[charge], build="tests"):
        run = await client.start(checkout, {})
        await client.send(run.id, "approval", 1)
        await run.result(timeout=10)
    reads: list[Callable[[], Awaitable[object]]] = [
        lambda: history(seeing, run.id),
        lambda: history(seeing, run.id, HistoryQuery(view="full", text="x")),
        lambda: page_of_entry(seeing, run.id, 2),
        lambda: latest(seeing, run.id),
        lambda: spans(seeing, run.id),
        lambda: signals(seeing, run.id),
        lambda: attempts(seeing, run.id),
        lambda: exported(seeing, run.id),
    ]
    other = asyncio.create_task(goes_on())
    try:
        for read in reads:
            await asyncio.sleep(0)
            before = turns
            await read()
            # Of a storage in memory nothing else is waited for.
            assert turns > before
    finally:
        other.cancel()
    assert threads
    assert get_ident() not in threads


async def test_a_history_is_narrowed_by_kind_state_and_text_and_what_is_masked_is_not_found(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(checkout, {"item": "Earl Grey"})
    await client.send(run.id, "approval", None)
    await run.result(timeout=10)

    async def found(**query: Any) -> list[int]:
        return [entry.number for entry in (await history(context, run.id, HistoryQuery(**query))).entries]

    assert await found(kind=("step", "child"), newest_first=True) == [5, 2]
    assert await found(text="earl") == [2, 5]
    assert await found(text=SECRET) == []
    assert await found(state=("failed",)) == []
    with pytest.raises(BadFields):
        await found(generation=2)


async def test_a_history_of_thousands_of_entries_is_read_by_pages(client: Client, context: Context) -> None:
    async with Worker(client, workflows=[chatty], build="tests"):
        run = await client.start(chatty, 3_000)
        await run.reached(Status.WAITING, timeout=60)
        page = await history(context, run.id, HistoryQuery(page=7))
        assert (len(page.entries), page.pages, page.total) == (2, 7, 3_002)
        assert await page_of_entry(context, run.id, 1_234) == 1_234 // PAGE + 1
        assert await page_of_entry(context, run.id, 1_234, HistoryQuery(newest_first=True)) == 1_768 // PAGE + 1
        [last] = (await history(context, run.id, HistoryQuery(text="signal"))).entries
        assert last.number == 3_002


async def test_spans_end_with_their_answer_or_with_the_run(client: Client, context: Context, worker: Worker) -> None:
    run = await client.start(checkout, {})
    await run.reached(Status.WAITING, timeout=10)
    assert [span.end is None for span in await spans(context, run.id)] == [False, False, False, True]
    await client.terminate(run.id)
    ended = (await client.info(run.id)).ended_at
    assert (await spans(context, run.id))[-1].end == ended


async def test_attempts_that_failed_are_shown_with_their_error_and_when_the_next_is_due(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(flaky, 7)
    await run.reached(Status.RETRYING, timeout=10)
    [row] = (await attempts(context, run.id)).rows
    assert (row.name, row.count, row.state) == ("flaky", 1, "asked")
    assert row.next_at is not None
    assert row.error is not None
    assert row.error.line == "ConnectionError: no answer 7"
    dead = await client.start(refused, 1)
    await dead.reached(Status.DEAD_LETTER, timeout=10)
    [row] = (await attempts(context, dead.id)).rows
    assert (row.position, row.number, row.state) == ("1", 2, "failed")


async def test_an_export_is_without_secrets_and_says_so(client: Client, context: Context, worker: Worker) -> None:
    run = await client.start(checkout, {"password": SECRET})
    await client.send(run.id, "approval", 1)
    await client.send(run.id, "approval", {"token": SECRET})
    await run.result(timeout=10)
    export = await exported(context, run.id)
    assert SECRET not in str(export)
    assert export["redacted"] > 0
    digests = [asked[3] for each in export["generations"] for row in each["rows"] for asked in row["asked"] or ()]
    assert digests
    assert not any(digests), "what is masked can be found by trying where its digest is known"
    assert export["unread"] == [{**export["unread"][0], "value": {"token": MASK}}]
    assert {**await client.export(run.id), "redacted": export["redacted"]}.keys() == export.keys()


async def test_an_export_with_nothing_to_mask_is_the_clients_own(client: Client, context: Context) -> None:
    async with Worker(client, workflows=[chatty], build="tests"):
        run = await client.start(chatty, 2)
        await client.send(run.id, "end", None)
        await run.result(timeout=10)
        assert await exported(context, run.id) == await client.export(run.id)


async def test_what_a_run_waited_for_when_it_was_ended_is_closed_with_it(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(checkout, {})
    await run.reached(Status.WAITING, timeout=30)
    await client.terminate(run.id)
    [*_, waited] = await spans(context, run.id)
    assert (waited.kind, waited.state, waited.end) == ("signal", "closed", (await run.info()).ended_at)


async def test_what_a_retry_does_anew_is_drawn_from_the_retry_on_and_in_a_fork_from_its_start(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(refused, 1)
    await run.reached(Status.DEAD_LETTER, timeout=30)
    ended = (await run.info()).ended_at
    assert ended is not None
    await client.retry(run.id)
    await run.reached(Status.DEAD_LETTER, timeout=30)
    [step] = [span for span in await spans(context, run.id) if span.kind == "step"]
    assert step.begin >= ended

    waiting = await client.start(checkout, {})
    await waiting.reached(Status.WAITING, timeout=30)
    fork = await client.fork(waiting.id, from_entry="2")
    await client.handle(fork.id).reached(Status.WAITING, timeout=30)
    copied, *anew = [span for span in await spans(context, fork.id) if span.kind not in ("started", "reopened")]
    created = (await client.info(fork.id)).created_at
    assert copied.begin < created
    assert all(span.begin >= created for span in anew)
