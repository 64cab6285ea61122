"""Limits as the client sets and shows them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.client.export import export
from runnerq.errors import ConfigurationError
from runnerq.persistence.memory import MemoryStorage
from runnerq.workflow.given import MOST_LIMIT_KEY
from runnerq.workflow.options import Limit
from tests.client.shop import Player, mail


class TestSetting:
    async def test_a_limit_is_listed_and_found_as_it_was_set(self, client: Client) -> None:
        await client.limits.set("stripe", concurrency=5, rate=(100, timedelta(minutes=1)))
        await client.limits.set("customer", concurrency=2, per_key=True)
        customer, stripe = await client.limits.list()
        assert (customer.scope, customer.concurrency, customer.rate, customer.per_key) == ("customer", 2, None, True)
        assert (stripe.scope, stripe.concurrency, stripe.rate, stripe.per_key) == ("stripe", 5, (100, 60.0), False)
        assert (stripe.running, stripe.waiting) == (0, 0)
        assert await client.limits.get("stripe") == stripe
        assert await client.limits.get("nobody") is None

    async def test_a_second_one_takes_the_place_of_the_first(self, client: Client) -> None:
        await client.limits.set("stripe", concurrency=5)
        await client.limits.set("stripe", rate=(1, 2))
        [stripe] = await client.limits.list()
        assert (stripe.concurrency, stripe.rate) == (None, (1, 2.0))

    async def test_deleting_one_says_whether_there_was_one(self, client: Client) -> None:
        await client.limits.set("stripe", concurrency=5)
        assert await client.limits.delete("stripe")
        assert not await client.limits.delete("stripe")
        assert await client.limits.list() == []

    async def test_runs_that_hold_a_place_and_keys_that_wait_are_counted(self, client: Client, player: Player) -> None:
        await client.limits.set("customer", concurrency=1, per_key=True)
        runs = [await client.options(limit=("customer", key)).start(mail, key) for key in ("7", "7", "8")]
        await player.take(runs[0].id)
        [customer] = await client.limits.list()
        # The first claim took the run of 8, too; the second run of 7 waits.
        assert (customer.running, customer.waiting) == (2, 1)

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({}, "limits nothing"),
            ({"concurrency": -1}, "from 0"),
            ({"concurrency": True}, "whole number"),
            ({"concurrency": 2.5}, "whole number"),
            ({"rate": 5}, "how many, and in how many seconds"),
            ({"rate": (0, 1)}, "from 1"),
            ({"rate": (1, 0)}, "a millisecond at least"),
            ({"rate": (1, 1e-300)}, "a millisecond at least"),
            ({"rate": (1, timedelta(days=400))}, "at most a year"),
            ({"rate": (1, float("nan"))}, "finite"),
            ({"concurrency": 1, "per_key": 1}, "per_key=1"),
        ],
    )
    async def test_what_can_be_no_limit_is_refused(self, client: Client, given: dict[str, Any], says: str) -> None:
        with pytest.raises(ConfigurationError, match=says):
            await client.limits.set("stripe", **given)

    @pytest.mark.parametrize("scope", ["", " ", "a\nb", "a\0b", "x" * 300, 7])
    async def test_what_can_be_no_scope_is_refused(self, client: Client, scope: Any) -> None:
        with pytest.raises(ConfigurationError, match="the scope of a limit"):
            await client.limits.set(scope, concurrency=1)
        with pytest.raises(ConfigurationError, match="the scope of a limit"):
            await client.limits.get(scope)
        with pytest.raises(ConfigurationError, match="the scope of a limit"):
            await client.limits.delete(scope)
        with pytest.raises(ConfigurationError, match="the scope of a limit|expected a scope"):
            client.options(limit=scope)


class TestRuns:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ("stripe", Limit("stripe")),
            (("customer", "7"), Limit("customer", "7")),
            (Limit("customer", "7"), Limit("customer", "7")),
            (Limit("stripe"), Limit("stripe")),
        ],
    )
    async def test_a_run_shows_what_it_counts_against(self, client: Client, given: Any, kept: Limit) -> None:
        run = await client.options(limit=given).start(mail, "a")
        assert (await run.info()).limit == kept
        [listed] = (await client.list()).items
        assert listed.limit == kept
        assert (await export(client.storage, run.id))["limit"] == {"scope": kept.scope, "key": kept.key}

    async def test_one_without_a_limit_shows_none(self, client: Client) -> None:
        info = await (await client.start(mail, "a")).info()
        assert (info.limit, "limit" in (info.waiting_for or "")) == (None, False)

    async def test_a_ready_one_says_that_it_waits_for_its_turn(self, client: Client) -> None:
        by_key = await client.options(limit=("customer", "7")).start(mail, "a")
        waits = (await by_key.info()).waiting_for
        assert waits is not None
        assert waits.startswith("its turn under the limit 'customer' for key '7', then for a worker that serves 'mail'")
        by_scope = await client.options(limit="stripe").start(mail, "a")
        assert "the limit 'stripe', then" in ((await by_scope.info()).waiting_for or "")

    async def test_all_runs_of_one_call_count_against_it(self, client: Client) -> None:
        runs = await client.options(limit="stripe").start_many(mail, [("a",), ("b",)])
        assert [(await run.info()).limit for run in runs] == [Limit("stripe")] * 2

    @pytest.mark.parametrize(
        ("key", "says"),
        [
            ("", "non-empty"),
            (7, "write str"),
            ("a\0b", "NUL"),
            ("\ud800", "surrogates"),
            ("x" * (MOST_LIMIT_KEY + 1), "1,025 bytes"),
            ("é" * MOST_LIMIT_KEY, "2,048 bytes"),
        ],
    )
    async def test_what_can_be_no_key_is_refused(self, client: Client, key: Any, says: str) -> None:
        with pytest.raises(ConfigurationError, match=says):
            client.options(limit=("customer", key))

    @pytest.mark.parametrize("limit", [7, ["customer", "7", "8"], ("customer",), b"stripe"])
    async def test_what_can_be_no_limit_of_a_run_is_refused(self, client: Client, limit: Any) -> None:
        with pytest.raises(ConfigurationError, match="expected a scope"):
            client.options(limit=limit)

    async def test_the_longest_key_with_the_longest_scope_is_kept(self) -> None:
        limit = Limit("s" * 200, "\N{SNOWMAN}" * (MOST_LIMIT_KEY // 3))
        async with Client(MemoryStorage()) as client:
            run = await client.options(limit=limit).start(mail, "a")
            assert (await run.info()).limit == limit
