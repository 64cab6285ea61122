"""Signals: sent with a start, in one commit; and checked before they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.errors import ConfigurationError, EncodingError, KeyTaken, RunFinished, StorageUnavailable
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import NewRun, NewSignal, Sent, StartReply
from tests.client.shop import APPROVAL, ORDER, Player, checkout


async def unread(client: Client, run_id: str) -> list[tuple[str, str | None]]:
    return [(mail.channel, mail.value) for mail in await client.storage.mailbox(run_id)]


class TestStartOrSend:
    async def test_the_run_that_is_made_has_the_signals_in_order(self, client: Client) -> None:
        run = await client.options(signals=[(APPROVAL, True), ("note", {"by": "me"})]).start(checkout, ORDER)
        assert run.created
        assert await unread(client, run.id) == [("approval", "true"), ("note", '{"by":"me"}')]

    async def test_the_run_that_is_found_gets_them(self, client: Client) -> None:
        made = await client.options(key="k").start(checkout, ORDER)
        found = await client.options(key="k", signals=[(APPROVAL, False)]).start(checkout, ORDER)
        again = await client.options(key="k", signals=[(APPROVAL, True)]).start(checkout, ORDER)
        assert (found.id, found.created, again.id) == (made.id, False, made.id)
        assert await unread(client, made.id) == [("approval", "false"), ("approval", "true")]

    async def test_a_run_that_has_ended_is_run_finished_and_nothing_is_kept(
        self, client: Client, player: Player
    ) -> None:
        made = await client.options(key="k").start(checkout, ORDER)
        await player.complete(made.id, None)
        with pytest.raises(RunFinished) as refused:
            await client.options(key="k", signals=[(APPROVAL, True)]).start(checkout, ORDER)
        assert (refused.value.run_id, refused.value.status) == (made.id, "completed")
        assert await unread(client, made.id) == []

    async def test_a_key_that_is_refused_sends_nothing(self, client: Client) -> None:
        made = await client.options(key="k").start(checkout, ORDER)
        with pytest.raises(KeyTaken):
            await client.options(key="k", on_duplicate="no_reuse", signals=[(APPROVAL, True)]).start(checkout, ORDER)
        assert await unread(client, made.id) == []

    async def test_what_is_sent_again_because_its_reply_was_lost_counts_once(self) -> None:
        async with Client(Forgetful()) as client:
            run = await client.options(signals=[(APPROVAL, True)]).start(checkout, ORDER)
            assert run.created
            assert await unread(client, run.id) == [("approval", "true")]

    async def test_a_run_that_it_made_may_have_ended_before_the_lost_reply_is_asked_for_again(self) -> None:
        async with Client(Hasty()) as client:
            assert (await client.options(signals=[(APPROVAL, True)]).start(checkout, ORDER)).created

    @pytest.mark.parametrize(
        ("signals", "error"),
        [
            (["approval"], ConfigurationError),
            ([(APPROVAL,)], ConfigurationError),
            ([("", 1)], ValueError),
            ([(None, 1)], ValueError),
        ],
    )
    async def test_what_is_no_pair_of_channel_and_value_is_refused(
        self, client: Client, signals: Any, error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            client.options(signals=signals)

    async def test_a_value_that_the_channel_does_not_take_starts_nothing(self, client: Client) -> None:
        with pytest.raises(TypeError, match="approval"):
            await client.options(signals=[(APPROVAL, "yes")]).start(checkout, ORDER)
        assert not (await client.list()).items


class TestWhatIsSent:
    async def test_a_value_of_another_type_is_an_error_at_the_sender_that_names_channel_and_type(
        self, client: Client
    ) -> None:
        run = await client.start(checkout, ORDER)
        with pytest.raises(TypeError, match=rf"the signal 'approval' to run {run.id} does not fit bool"):
            await run.send(APPROVAL, "yes")  # type: ignore[misc]
        with pytest.raises(TypeError, match="does not fit bool"):
            await client.send(run.id, APPROVAL, 1)  # type: ignore[misc]
        assert await unread(client, run.id) == []

    async def test_by_a_plain_name_anything_that_can_be_stored_is_sent(self, client: Client) -> None:
        run = await client.start(checkout, ORDER)
        await run.send("approval", "yes")
        with pytest.raises(EncodingError):
            await run.send("approval", float("nan"))
        assert await unread(client, run.id) == [("approval", '"yes"')]


class Forgetful(MemoryStorage):
    """A storage whose first reply is lost, after it was written."""

    lost = False

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        answer = await super().start_or_send(run, signals)
        if self.lost:
            return answer
        self.lost = True
        raise StorageUnavailable("the reply was lost")


class Hasty(Forgetful):
    """One where the run has ended before the reply is asked for again."""

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        if self.lost:
            await self.terminate([run.id])
        return await super().start_or_send(run, signals)
