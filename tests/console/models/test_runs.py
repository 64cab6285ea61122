from __future__ import annotations

from itertools import count as counter

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.console.access import ALL, Principal
from runnerq.console.actions.batches import BatchRequest, Selection, preview, start_batch
from runnerq.console.models.context import Context
from runnerq.console.models.dead_letters import dead_letters, failures
from runnerq.console.models.filters import BadFields, RunQuery
from runnerq.console.models.redaction import Spot
from runnerq.console.models.run import run_detail
from runnerq.console.models.runs import RunsPage, count, list_runs
from runnerq.ids import new_token
from runnerq.persistence.records import ClaimRequest, Status, WorkerRow
from runnerq.runtime.worker import Worker
from tests.console.seeing import context_of
from tests.console.shop import SECRET, charge, refused

_numbers = counter()


async def some_runs(client: Client, many: int) -> list[str]:
    """Ids of new runs that nobody takes up, oldest first."""
    return [(await client.options(key=f"order-{next(_numbers)}").start(charge, {})).id for _ in range(many)]


def ids(page: RunsPage) -> list[str]:
    return [row.id for row in page.rows]


async def test_pages_follow_each_other_both_ways_without_a_run_twice_while_new_ones_come(
    client: Client, context: Context
) -> None:
    runs = (await some_runs(client, 7))[::-1]
    query = RunQuery(limit=3)
    first = await list_runs(context, query)
    await some_runs(client, 2)
    second = await list_runs(context, query.with_(cursor=first.next))
    third = await list_runs(context, query.with_(cursor=second.next))
    assert ids(first) + ids(second) + ids(third) == runs
    assert (first.previous, third.next) == (None, None)
    back = await list_runs(context, query.with_(cursor=third.previous))
    assert ids(back) == ids(second)
    again = await list_runs(context, query.with_(cursor=back.next))
    assert ids(again) == ids(third)


async def test_a_run_that_is_worked_on_says_by_whom(client: Client, context: Context) -> None:
    row = WorkerRow(id=4711, lease=60, host="web-1", pid=7, build="b", queues=("default",), served=("charge",))
    await client.storage.register(row, [])
    [run_id] = await some_runs(client, 1)
    request = ClaimRequest(worker_id=4711, token=new_token(), pairs=(("default", "charge"),), limit=1, held={})
    assert len((await client.storage.claim(request)).runs) == 1
    [listed] = (await list_runs(context, RunQuery(worker=4711))).rows
    shown = (await run_detail(context, run_id)).run
    assert listed.id == run_id
    for each in (listed, shown):
        assert each.worker is not None
        assert (each.worker.id, each.worker.words) == ("4711", "web-1, process 7")
    assert ids(await list_runs(context, RunQuery(worker=4712))) == []


async def test_the_way_back_ends_with_a_full_first_page(client: Client, context: Context) -> None:
    runs = await some_runs(client, 5)
    query = RunQuery(limit=3, sort="oldest")
    first = await list_runs(context, query)
    second = await list_runs(context, query.with_(cursor=first.next))
    assert ids(first) + ids(second) == runs
    await client.cancel(runs[0])
    assert ids(await list_runs(context, query.with_(cursor=second.previous))) == runs[:3]


async def test_a_page_that_somebody_looks_at_stays_as_it_is_and_counts_what_has_come_since(
    client: Client, context: Context
) -> None:
    runs = (await some_runs(client, 4))[::-1]
    query = RunQuery(limit=3)
    seen = await list_runs(context, query)
    await some_runs(client, 2)
    await client.cancel(runs[0])
    again = await list_runs(context, query.with_(cursor=seen.again))
    assert (ids(again), again.newer, again.again) == (runs[:3], 2, seen.again)
    assert again.rows[0].status is Status.CANCELLED
    assert ids(await list_runs(context, query.with_(cursor=again.next))) == runs[3:]


async def test_a_page_that_became_empty_leads_back_to_the_run_before_it(client: Client, context: Context) -> None:
    runs = (await some_runs(client, 3))[::-1]
    query = RunQuery(limit=2, status=(Status.PENDING,))
    first = await list_runs(context, query)
    await client.cancel(runs[2])
    empty = await list_runs(context, query.with_(cursor=first.next))
    assert ids(empty) == []
    assert ids(await list_runs(context, query.with_(cursor=empty.previous))) == runs[:2]


async def test_runs_are_counted_as_they_are_listed(client: Client, context: Context) -> None:
    await some_runs(client, 3)
    assert str(await count(context, RunQuery(q="order-"))) == "3"
    assert str(await count(context, RunQuery(), cap=2)) == "2+"


async def test_a_list_shows_what_went_wrong_on_one_line_without_its_secret(
    client: Client, context: Context, worker: Worker
) -> None:
    run = await client.start(refused, 4711)
    await run.reached(Status.DEAD_LETTER, timeout=10)
    [row] = (await list_runs(context, RunQuery(error="was DECLINED"))).rows
    assert row.error_line is not None
    assert row.error_line.startswith("ValueError: card 4711 was declined, password=")
    assert SECRET not in row.error_line


LOOKS_FOR_WHAT_IS_MASKED = (
    RunQuery(error="password=h"),
    RunQuery(meta=(("shop", "7"), ("auth_token", SECRET))),
    RunQuery(meta=(("db", f"amqp://ada:{SECRET}@mq"),)),
)


@pytest.mark.parametrize("query", LOOKS_FOR_WHAT_IS_MASKED)
async def test_who_may_not_see_what_is_masked_cannot_look_for_it(query: RunQuery, context: Context) -> None:
    eve = msgspec.structs.replace(context, principal=Principal("eve", ALL - {"payload.reveal"}))
    batch = BatchRequest(action="retry", selection=Selection(query=query))
    [field] = {"error", "meta"} & {name for name, _ in query.to_params()}
    for asked in (
        lambda c: list_runs(c, query),
        lambda c: count(c, query),
        lambda c: failures(c, query),
        lambda c: dead_letters(c, query),
        lambda c: preview(c, batch),
        lambda c: start_batch(c, batch),
    ):
        with pytest.raises(BadFields, match=r"needs the permission 'payload\.reveal'") as refused_:
            await asked(eve)
        assert set(refused_.value.errors) == {field}
        await asked(context)
    plain = RunQuery(meta=(("shop", "7"),), fingerprint="a" * 16)
    assert (await list_runs(eve, plain)).rows == ()


async def test_metadata_that_a_redactor_of_ones_own_hides_cannot_be_looked_for_either(client: Client) -> None:
    def hide(spot: Spot, value: object) -> object:
        return {"": "hidden"} if spot.kind == "metadata" else value

    eve = msgspec.structs.replace(context_of(client, redact=hide), principal=Principal("eve"))
    with pytest.raises(BadFields, match="'shop' is masked"):
        await list_runs(eve, RunQuery(meta=(("shop", "7"),)))
