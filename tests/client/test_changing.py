"""The verbs that change one run: when it is due, who goes first, whether it is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.errors import ConfigurationError, RunFailed, RunNotFound, WrongState
from runnerq.ids import new_run_id
from runnerq.persistence.records import (
    Back,
    End,
    Going,
    NewRun,
    Park,
    Priority,
    RunFilter,
    Status,
    Stuck,
)
from runnerq.serialization.failures import record as record_failure
from runnerq.testing import Environment
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.client.shop import ORDER, Player, checkout, mail, resize

LATER = datetime(2100, 1, 1, tzinfo=UTC)
FAILURE = record_failure(ValueError("no"), frozenset(), retryable=False)


async def a_child(client: Client, parent_id: str) -> NewRun:
    parent = await client.storage.run(parent_id)
    assert parent is not None
    return NewRun(
        id=new_run_id(), kind="activity", name="mail", version=0, queue="default", input='["me"]',
        root_id=parent.root_id, parent_id=parent.id, parent_position="1/1", depth=parent.depth + 1,
    )  # fmt: skip


async def dead_letter(client: Client, player: Player) -> str:
    run = await client.start(mail, "me")
    await player.write(run.id, End(status="dead_letter", error=FAILURE, reason="attempts"))
    return run.id


class TestRunNow:
    async def test_a_delayed_run_is_ready(self, client: Client) -> None:
        run = await client.options(delay=3600).start(mail, "me")
        assert await client.run_now(run.id)
        assert await run.status() is Status.PENDING

    async def test_a_run_between_two_attempts_is_ready(self, client: Client, player: Player) -> None:
        run = await client.start(mail, "me")
        await player.write(run.id, Back(due_at=LATER))
        assert await client.run_now(run.id)
        assert not await client.run_now(run.id)

    async def test_a_ready_run_and_a_running_one_are_not_changed(self, client: Client, player: Player) -> None:
        run = await client.start(mail, "me")
        assert not await client.run_now(run.id)
        await player.take(run.id)
        assert not await client.run_now(run.id)

    async def test_a_sleep_of_its_code_is_not_cut_short(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        await player.write(run.id, Park(due_at=LATER))
        with pytest.raises(WrongState, match=r"its own code \(its time, 2100.*race a sleep against a signal"):
            await client.run_now(run.id)

    async def test_a_blocked_run_and_a_finished_one_are_told_of_retry(self, client: Client, player: Player) -> None:
        blocked, done = await client.start(checkout, ORDER), await client.start(checkout, ORDER)
        await player.write(blocked.id, Stuck(message="moved", build="b"))
        await player.complete(done.id, None)
        with pytest.raises(WrongState, match="is blocked: run_now does not apply to it; retry lets it go on"):
            await client.run_now(blocked.id)
        with pytest.raises(WrongState, match="start it anew"):
            await client.run_now(done.id)


class TestReschedule:
    async def test_a_pending_run_is_due_at_the_new_time(self, client: Client) -> None:
        run = await client.start(mail, "me")
        assert await client.reschedule(run.id, LATER)
        info = await run.info()
        assert (info.status, info.due_at) == (Status.SCHEDULED, LATER)
        assert not await client.reschedule(run.id, LATER)

    async def test_one_that_has_begun_or_ended_is_refused_with_what_to_do(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        await player.park(run.id)
        with pytest.raises(WrongState, match="it has begun: cancel it"):
            await client.reschedule(run.id, LATER)
        await client.terminate(run.id)
        with pytest.raises(WrongState, match="start it anew"):
            await client.reschedule(run.id, LATER)

    async def test_one_that_is_to_cancel_is_refused_for_that(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        await player.write(run.id, Back(due_at=LATER))
        await client.cancel(run.id)
        with pytest.raises(WrongState, match="it has been asked to cancel"):
            await client.reschedule(run.id, LATER)

    async def test_a_time_without_a_zone_is_refused(self, client: Client) -> None:
        with pytest.raises(ConfigurationError, match=r"^the new time .* has no time zone"):
            await client.reschedule(new_run_id(), datetime(2030, 1, 1))  # noqa: DTZ001 - the point of it

    @pytest.mark.parametrize("at", [timedelta(hours=2), "2100-01-01", None])
    async def test_what_is_no_time_is_refused_in_a_line(self, client: Client, at: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"^the new time .* is no time: give a datetime"):
            await client.reschedule(new_run_id(), at)
        if at is not None:
            with pytest.raises(ConfigurationError, match=r"^at=.* is no time: give a datetime"):
                client.options(at=at)
            with pytest.raises(TypeError, match=r"^since=.* is no time: give a datetime"):
                await client.list(RunFilter(since=at))


class TestPriority:
    async def test_the_new_priority_is_shown_and_inherited(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        assert await client.set_priority(run.id, Priority.CRITICAL)
        assert not await client.set_priority(run.id, Priority.CRITICAL)
        assert (await run.info()).priority is Priority.CRITICAL
        assert (await player.take(run.id)).priority == Priority.CRITICAL

    async def test_a_run_that_has_ended_is_refused(self, client: Client, player: Player) -> None:
        run = await client.start(checkout, ORDER)
        await player.complete(run.id, None)
        with pytest.raises(WrongState, match="no place in a queue"):
            await client.set_priority(run.id, 0)

    @pytest.mark.parametrize("priority", [9, "high", True, None])
    async def test_what_is_no_priority_is_refused(self, client: Client, priority: int) -> None:
        with pytest.raises(ConfigurationError, match="expected a Priority"):
            await client.set_priority(new_run_id(), priority)


class TestDelete:
    async def test_a_finished_run_is_gone_with_its_children_and_its_key_is_free(
        self, client: Client, player: Player
    ) -> None:
        run = await client.options(key="k").start(checkout, ORDER)
        child = await a_child(client, run.id)
        await player.write(run.id, Going(), children=(child,))
        await player.complete(child.id, None)
        await player.complete(run.id, None)
        assert await client.delete(run.id)
        assert not (await client.list()).items
        assert (await client.options(key="k").start(checkout, ORDER)).created

    async def test_an_open_run_a_child_and_a_tree_that_is_open_below_are_refused(
        self, client: Client, player: Player
    ) -> None:
        run = await client.start(checkout, ORDER)
        child = await a_child(client, run.id)
        await player.write(run.id, Going(), children=(child,))
        with pytest.raises(WrongState, match="cancel or terminate it first"):
            await client.delete(run.id)
        with pytest.raises(WrongState, match=f"it goes with its root, {run.id}"):
            await client.delete(child.id)
        await player.complete(run.id, None)
        with pytest.raises(WrongState, match="a run below it is open"):
            await client.delete(run.id)


class TestRedrive:
    async def test_a_dead_letter_goes_on_once(self, client: Client, player: Player) -> None:
        run_id = await dead_letter(client, player)
        assert await client.redrive(run_id, dry_run=True) == 1
        assert await client.redrive(run_id) == 1
        assert await client.handle(run_id).status() is Status.PENDING
        with pytest.raises(WrongState, match="it is open, and goes on by itself"):
            await client.redrive(run_id)

    async def test_a_failed_run_is_told_of_retry(self, client: Client, player: Player) -> None:
        run = await client.start(mail, "me")
        await player.write(run.id, End(status="failed", error=FAILURE))
        for dry_run in (False, True):
            with pytest.raises(WrongState, match="redrive does not apply to it; retry is for it"):
                await client.redrive(run.id, dry_run=dry_run)

    async def test_of_many_all_dead_letters_that_fit_go_on_and_a_dry_run_counts_them(
        self, client: Client, player: Player
    ) -> None:
        other = await client.start(resize, 1)
        await player.write(other.id, End(status="dead_letter", error=FAILURE))
        gone = [await dead_letter(client, player) for _ in range(3)]
        failed = await client.start(mail, "me")
        await player.write(failed.id, End(status="failed", error=FAILURE))
        where = RunFilter(queue="default")
        assert await client.redrive(where, dry_run=True) == 3
        assert await client.redrive(where) == 3
        assert await client.redrive(where) == 0
        assert {info.id for info in (await client.list(RunFilter(status="pending"))).items} == set(gone)
        assert await other.status() is Status.DEAD_LETTER

    async def test_a_filter_of_another_status_is_refused(self, client: Client) -> None:
        assert await client.redrive(RunFilter(status="dead_letter")) == 0
        with pytest.raises(ConfigurationError, match="use retry"):
            await client.redrive(RunFilter(status="failed"))


@workflow
def orderly(ctx: Context) -> Flow[int]:
    return (yield from ctx.options(key="k").child(mail, "me"))


@workflow
def above(ctx: Context) -> Flow[int]:
    return (yield from ctx.child(orderly))


class TestRetryOfWhatWasKeptOut:
    """A child that failed because another run holds its key cannot be opened while that is so."""

    @pytest.fixture
    async def env(self) -> AsyncIterator[Environment]:
        async with Environment([orderly, above], [mail]) as env:
            yield env

    async def kept_out(self, env: Environment, target: Callable[[Context], Flow[int]]) -> tuple[str, str, list[str]]:
        """A failed run, who holds the key that the lowest below it needs, and those below."""
        holder = await env.options(key="k", delay=timedelta(days=1)).start(mail, "you")
        run = await env.start(target)
        with pytest.raises(RunFailed):
            await run.result()
        found = (await env.list(RunFilter(root=run.id))).items
        # Ids of one millisecond have no order.
        below = sorted((info for info in found if info.id != run.id), key=lambda info: info.parent_id != run.id)
        return run.id, holder.id, [info.id for info in below]

    async def test_retry_names_the_holder_of_the_key_and_what_to_do(self, env: Environment) -> None:
        run_id, holder, [child] = await self.kept_out(env, orderly)
        with pytest.raises(WrongState, match=rf"run {holder} holds its key 'k' of mail: delete that run") as refused:
            await env.retry(child)
        assert refused.value.run_id == child
        with pytest.raises(WrongState, match=f"its child {child}.*run {holder} holds.*or fork this run") as refused:
            await env.retry(run_id)
        assert refused.value.run_id == run_id

    async def test_a_run_higher_up_names_it_too(self, env: Environment) -> None:
        run_id, holder, [middle, child] = await self.kept_out(env, above)
        with pytest.raises(WrongState, match=f"its child {middle}.*its child {child}.*run {holder} holds") as refused:
            await env.retry(run_id)
        assert refused.value.run_id == run_id

    async def test_it_goes_on_once_the_holder_is_deleted(self, env: Environment) -> None:
        run_id, holder, _ = await self.kept_out(env, orderly)
        await env.terminate(holder)
        assert await env.delete(holder)
        assert await env.retry(run_id)
        assert await env.handle(run_id).result() == len("me") + len("hello")


@pytest.mark.parametrize("verb", ["run_now", "delete", "redrive", "retry"])
async def test_an_unknown_run_is_not_found_and_no_id_is_a_value_error(client: Client, verb: str) -> None:
    with pytest.raises(RunNotFound):
        await getattr(client, verb)(new_run_id())
    with pytest.raises(ValueError, match="not a run id"):
        await getattr(client, verb)("")


async def test_verbs_with_an_argument_do_not_find_an_unknown_run_either(client: Client) -> None:
    with pytest.raises(RunNotFound):
        await client.reschedule(new_run_id(), LATER + timedelta(days=1))
    with pytest.raises(RunNotFound):
        await client.set_priority(new_run_id(), 1)
