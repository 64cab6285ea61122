from __future__ import annotations

from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.console.models.attempts import attempts
from runnerq.console.models.context import Context
from runnerq.console.models.exports import exported
from runnerq.console.models.filters import BadFields
from runnerq.console.models.history import PAGE, HistoryQuery, history, latest, page_of_entry, spans
from runnerq.console.models.redaction import MASK
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context as Ctx
from runnerq.workflow.declare import workflow
from tests.console.shop import SECRET, checkout, flaky, refused


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
