"""Starting runs: what is stored of functions, arguments and options, and what a key does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.errors import (
    ConfigurationError,
    EncodingError,
    KeyTaken,
    PayloadTooLarge,
    StorageRefused,
    StorageUnavailable,
)
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Priority, RunRecord, StartReply, Status
from runnerq.retry import RetryPolicy
from tests.client.shop import ORDER, Order, checkout, checkout_v2, mail, resize


async def stored(client: Client, run_id: str) -> RunRecord:
    record = await client.storage.run(run_id)
    assert record is not None
    return record


async def test_a_started_workflow_is_pending_under_its_declared_name_and_the_defaults(client: Client) -> None:
    run = await client.start(checkout, ORDER)
    record = await stored(client, run.id)
    assert run.created
    assert (record.kind, record.name, record.version) == ("workflow", "checkout", 1)
    assert (record.queue, record.priority, record.status) == ("default", Priority.NORMAL, Status.PENDING)
    assert (record.key, record.metadata, record.options) == (None, None, None)


async def test_a_started_activity_is_a_run_of_its_kind_on_its_declared_queue(client: Client) -> None:
    record = await stored(client, (await client.start(resize, 3)).id)
    assert (record.kind, record.name, record.queue, record.priority) == ("activity", "resize", "slow", Priority.LOW)


async def test_call_options_beat_declared_ones_and_metadata_is_merged(client: Client) -> None:
    options = client.options(queue="other", priority=Priority.CRITICAL, metadata={"tier": "two", "by": "me"})
    record = await stored(client, (await options.start(checkout_v2, ORDER)).id)
    assert (record.version, record.queue, record.priority) == (2, "other", Priority.CRITICAL)
    assert msgspec.json.decode(record.metadata or "") == {"team": "shop", "tier": "two", "by": "me"}


async def test_timeout_and_retry_are_stored_for_the_worker_only_if_given(client: Client) -> None:
    asked = client.options(timeout=timedelta(minutes=1), retry=2)
    options = msgspec.json.decode((await stored(client, (await asked.start(mail, "a")).id)).options or "")
    assert options["timeout"] == 60.0
    assert RetryPolicy.from_json(msgspec.json.encode(options["retry"])) == RetryPolicy(max_attempts=2)


async def test_options_of_options_are_those_of_both_and_leave_the_client_as_it_was(client: Client) -> None:
    both = client.options(queue="a", timeout=1).options(queue="b")
    record = await stored(client, (await both.start(mail, "x")).id)
    assert (record.queue, record.options) == ("b", '{"timeout":1.0}')
    assert (await stored(client, (await client.start(mail, "x")).id)).queue == "default"


async def test_a_delayed_run_is_scheduled(client: Client) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    later = await client.options(at=at).start(checkout, ORDER)
    soon = await client.options(delay=60).start(checkout, ORDER)
    assert (await stored(client, later.id)).due_at == at
    assert await soon.status() == await later.status() == Status.SCHEDULED


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"key": ""}, ValueError),
        ({"key": 7}, ValueError),
        ({"on_duplicate": "explode"}, ConfigurationError),
        ({"queue": ""}, ConfigurationError),
        ({"priority": 9}, ConfigurationError),
        ({"delay": -1}, ConfigurationError),
        ({"timeout": "soon"}, ConfigurationError),
        ({"timeout": 0}, ConfigurationError),
        ({"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, ConfigurationError),
        ({"at": datetime(2030, 1, 1)}, ConfigurationError),  # noqa: DTZ001 - a time without a zone is the point
        ({"metadata": {"n": 1}}, ConfigurationError),
        ({"retry": -1}, ConfigurationError),
    ],
)
async def test_an_option_that_cannot_work_is_refused_before_anything_starts(
    client: Client, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        client.options(**options)


async def test_retry_on_a_workflow_is_refused(client: Client) -> None:
    with pytest.raises(ConfigurationError, match="with the same answers the same code fails"):
        await client.options(retry=2).start(checkout, ORDER)


async def test_arguments_that_the_function_does_not_take_are_a_type_error_at_the_call(client: Client) -> None:
    with pytest.raises(TypeError, match=r"checkout cannot be started.*'order'"):
        await client.start(checkout)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="mail cannot be started"):
        await client.start(mail, "a", body="b")  # type: ignore[call-arg]
    assert not (await client.list()).items


async def test_arguments_of_another_type_are_a_type_error_at_the_call(client: Client) -> None:
    with pytest.raises(TypeError, match=r"mail cannot be started.*str"):
        await client.start(mail, 3.5)  # type: ignore[arg-type]
    assert not (await client.list()).items


async def test_a_value_that_cannot_be_stored_is_refused_with_its_place(client: Client) -> None:
    with pytest.raises(EncodingError, match="the input of checkout"):
        await client.start("checkout", {"amount": float("nan")})


async def test_a_payload_over_the_limit_is_refused_with_its_size() -> None:
    async with Client(MemoryStorage(), payload_limit=100) as client:
        with pytest.raises(PayloadTooLarge, match="100"):
            await client.start(checkout, Order("x" * 200))


async def test_a_function_that_is_not_declared_cannot_be_started(client: Client) -> None:
    def loose() -> None: ...

    with pytest.raises(ConfigurationError, match=r"loose.*@workflow"):
        await client.start(loose)


class TestKeys:
    async def test_a_second_start_answers_the_run_that_is_there(self, client: Client) -> None:
        first = await client.options(key="order-1").start(checkout, ORDER)
        second = await client.options(key="order-1").start(checkout, Order("plate"))
        assert (second.id, second.created) == (first.id, False)

    async def test_fifty_callers_at_once_make_one_run(self, client: Client) -> None:
        runs = await asyncio.gather(*(client.options(key="k").start(checkout, ORDER) for _ in range(50)))
        assert len({run.id for run in runs}) == 1
        assert sum(run.created for run in runs) == 1

    async def test_no_reuse_names_the_holder(self, client: Client) -> None:
        first = await client.options(key="k").start(checkout, ORDER)
        with pytest.raises(KeyTaken) as refused:
            await client.options(key="k", on_duplicate="no_reuse").start(checkout, ORDER)
        assert (refused.value.workflow, refused.value.key, refused.value.run_id) == ("checkout", "k", first.id)

    async def test_allow_reuse_moves_the_key_to_a_new_run(self, client: Client) -> None:
        first = await client.options(key="k").start(checkout, ORDER)
        second = await client.options(key="k", on_duplicate="allow_reuse").start(checkout, ORDER)
        assert second.created
        assert second.id != first.id
        assert (await client.handle_by_key(checkout, "k").info()).id == second.id

    async def test_allow_reuse_on_failure_waits_for_a_failure(self, client: Client) -> None:
        first = await client.options(key="k").start(checkout, ORDER)
        again = client.options(key="k", on_duplicate="allow_reuse_on_failure")
        with pytest.raises(KeyTaken):
            await again.start(checkout, ORDER)
        await first.cancel()
        assert (await again.start(checkout, ORDER)).created


class TestMany:
    async def test_runs_come_in_the_order_of_their_arguments_over_several_commits(self, client: Client) -> None:
        handles = await client.start_many(resize, ((width,) for width in range(2500)))
        assert [handle.id for handle in handles] == sorted(handle.id for handle in handles)
        assert len({handle.id for handle in handles}) == 2500
        assert "2499" in ((await stored(client, handles[-1].id)).input or "")

    async def test_keys_are_one_for_each_and_a_taken_one_answers_its_holder(self, client: Client) -> None:
        held = await client.options(key="b").start(resize, 0)
        a, b = await client.start_many(resize, [(1,), (2,)], keys=["a", "b"])
        assert (a.created, b.created, b.id) == (True, False, held.id)

    async def test_keys_that_do_not_match_and_one_key_for_all_are_refused(self, client: Client) -> None:
        with pytest.raises(ConfigurationError, match="2 tuples of arguments and 1 keys"):
            await client.start_many(resize, [(1,), (2,)], keys=["a"])
        with pytest.raises(ConfigurationError, match="one for each"):
            await client.options(key="a").start_many(resize, [(1,)])
        with pytest.raises(ValueError, match="non-empty"):
            await client.start_many(resize, [(1,)], keys=[""])

    async def test_nothing_starts_if_one_of_the_arguments_cannot_be_stored(self, client: Client) -> None:
        with pytest.raises(EncodingError, match=r"the input of resize, args\[1\] of start_many"):
            await client.start_many("resize", [(1,), (float("inf"),)])
        assert not (await client.list()).items

    @pytest.mark.parametrize(
        "wrong", [(1, 2), ("wide",), (), "1", None], ids=["too many", "another type", "too few", "a str", "None"]
    )
    async def test_a_tuple_that_the_function_does_not_take_is_named_by_its_number(
        self, client: Client, wrong: Any
    ) -> None:
        with pytest.raises(TypeError, match=r"resize cannot be started with args\[2\] of start_many"):
            await client.start_many(resize, [(1,), (2,), wrong])
        assert not (await client.list()).items

    async def test_what_is_wrong_with_a_tuple_is_said_once(self, client: Client) -> None:
        with pytest.raises(
            TypeError, match=r"^resize cannot be started with args\[0\] of start_many: argument '\w+' of"
        ):
            await client.start_many(resize, [("wide",)])

    async def test_a_refused_key_leaves_the_others_started(self, client: Client) -> None:
        taken = await client.options(key="a").start(resize, 1)
        with pytest.raises(KeyTaken) as refused:
            await client.options(on_duplicate="no_reuse").start_many(resize, [(1,), (2,), (3,)], keys=["z", "a", "c"])
        assert refused.value.run_id == taken.id
        assert {info.key for info in (await client.list()).items} == {"z", "a", "c"}

    async def test_a_key_that_is_given_twice_is_the_first_ones_also_in_another_commit(self, client: Client) -> None:
        keys = [f"k{number}" for number in range(1500)]
        handles = await client.start_many(resize, ((width,) for width in range(1501)), keys=[*keys, "k0"])
        assert (handles[-1].id, handles[-1].created) == (handles[0].id, False)

    async def test_signals_cannot_go_with_many(self, client: Client) -> None:
        with pytest.raises(ConfigurationError, match="signals="):
            await client.options(signals=[("go", 1)]).start_many(resize, [(1,)])

    async def test_the_first_error_ends_it_and_keeps_its_cause(self) -> None:
        async with Client(Refusing()) as client:
            with pytest.raises(StorageRefused, match="not this one") as refused:
                await client.start_many(resize, ((width,) for width in range(5000)))
        assert isinstance(refused.value.__cause__, LookupError)

    async def test_none_at_all_is_an_empty_list(self, client: Client) -> None:
        assert await client.start_many(resize, []) == []


class Refusing(MemoryStorage):
    """A storage that refuses each start."""

    async def start(self, runs: Any) -> list[StartReply]:
        raise StorageRefused("not this one") from LookupError("why")


class Forgetful(MemoryStorage):
    """A storage whose reply to a start is lost now and then, after it was written."""

    def __init__(self, losses: int) -> None:
        super().__init__()
        self._losses = losses

    async def start(self, runs: Any) -> list[StartReply]:
        replies = await super().start(runs)
        if self._losses:
            self._losses -= 1
            raise StorageUnavailable("the reply was lost")
        return replies


async def test_a_start_whose_reply_was_lost_is_sent_again_and_counts_once() -> None:
    async with Client(Forgetful(losses=2)) as client:
        run = await client.options(key="k").start(checkout, ORDER)
        assert run.created
        assert [info.id for info in (await client.list()).items] == [run.id]


async def test_a_storage_that_stays_away_is_an_error() -> None:
    async with Client(Forgetful(losses=3)) as client:
        with pytest.raises(StorageUnavailable):
            await client.start(checkout, ORDER)
