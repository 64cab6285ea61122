"""rq.current() and the idempotency key."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from runnerq.errors import Cancelled, EncodingError, PayloadTooLarge, UsageError
from runnerq.persistence.records import Claimed
from runnerq.runtime.current import HERE, Current, Means, current, idempotency_key
from runnerq.runtime.heartbeats import Heartbeats
from runnerq.serialization.codec import Codec
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.runtime.stage import Stage


def a_current(**options: object) -> Current:
    return Current(run_id="r", workflow="checkout", name="charge", entry="4", **options)  # type: ignore[arg-type]


async def test_in_a_workflows_own_code_it_says_so(memory: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        with pytest.raises(UsageError) as raised:
            current()
        yield ctx.sleep(0)
        return str(raised.value)

    assert "In a workflow use ctx.info" in await memory.answer(order)


def test_outside_a_step_it_says_so() -> None:
    with pytest.raises(UsageError, match="outside a step"):
        current()


def test_inside_a_step_it_is_the_attempt() -> None:
    mine = a_current(attempt=2)
    token = HERE.set(mine)
    try:
        assert current() is mine
    finally:
        HERE.reset(token)


def test_the_key_of_a_step_is_the_same_for_every_attempt() -> None:
    assert a_current(attempt=1).idempotency_key == a_current(attempt=2).idempotency_key == "r:1:4:step:charge"


def test_the_key_differs_with_each_of_its_parts() -> None:
    whole = ("r", 1, "4", "step", "charge")
    others = [("s", *whole[1:]), ("r", 2, *whole[2:]), ("r", 1, "5", *whole[3:]), ("r", 1, "4", "undo", "charge")]
    others.append(("r", 1, "4", "step", "refund"))
    keys = {idempotency_key(*each) for each in [whole, *others]}  # type: ignore[arg-type]
    assert len(keys) == 6


@pytest.mark.parametrize("name", ["charge:4", "café", "a b", "x" * 65, "", "\ud800", "a\n", "~" + "0" * 24])
def test_a_name_that_is_not_plain_still_makes_a_short_printable_key(name: str) -> None:
    key = idempotency_key("01890000-0000-7000-8000-000000000000", 1, "5.1.2", "step", name)
    assert key.isascii()
    assert key.isprintable()
    assert " " not in key
    assert len(key) < 120
    assert key.count(":") == 4
    assert key != idempotency_key("01890000-0000-7000-8000-000000000000", 1, "5.1.2", "step", name + "!")


def test_a_heartbeat_keeps_the_last_details() -> None:
    mine = a_current()
    mine.heartbeat({"row": 1})
    mine.heartbeat()
    assert mine.said == '{"row":1}'


def test_details_without_a_json_form_are_an_error_at_the_call_that_names_the_step() -> None:
    mine = a_current()
    with pytest.raises(EncodingError, match=r"the heartbeat's details of 'charge' \(entry '4'\) of run r"):
        mine.heartbeat({"a": {1, object()}})
    assert mine.said is None


def test_details_that_are_too_large_are_an_error_at_the_call() -> None:
    mine = a_current(means=Means(Heartbeats(Codec(payload_limit=10))))
    with pytest.raises(PayloadTooLarge):
        mine.heartbeat("x" * 20)


def test_the_details_of_the_last_start_are_a_fresh_copy_each_time() -> None:
    assert a_current().heartbeat_details is None
    mine = a_current(before='{"rows":[1]}')
    mine.heartbeat_details["rows"].append(2)
    assert mine.heartbeat_details == {"rows": [1]}


def test_a_heartbeat_after_a_cancel_raises_in_a_sync_step_only_and_says_nothing() -> None:
    for_thread = a_current(is_async=False, cancelled=True, cancel_reason="not wanted")
    with pytest.raises(Cancelled) as raised:
        for_thread.heartbeat("last")
    assert raised.value.reason == "not wanted"
    assert for_thread.said is None
    other = a_current(is_async=True, cancelled=True)
    other.heartbeat("last")
    assert other.said is None


def test_without_a_run_or_with_a_client_of_another_kind_the_client_is_what_the_worker_was_given() -> None:
    plain = object()
    of = Claimed(
        id="r", token=1, kind="activity", name="n", version=0, queue="q", priority=2, input="[]",
        created_at=datetime.now(UTC), root_id="r",
    )  # fmt: skip
    assert a_current(means=Means(Heartbeats(Codec()), plain), claimed=of).client is plain
    assert a_current().client is None
