"""Every command of ``ctx`` through a real worker and client."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runnerq.errors import (
    ChildCancelled,
    ChildFailed,
    NonRetryableError,
    RunFailed,
    RunFinished,
    RunnerQError,
    RunNotFound,
)
from runnerq.ids import new_run_id
from runnerq.persistence.records import Park, Priority, Status
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon


@dataclass
class Receipt:
    """A mutable answer, so that a shared copy would show."""

    cents: int
    lines: list[str]


@activity
async def charge(cents: int) -> Receipt:
    return Receipt(cents, ["paid"])


@activity
def print_label(to: str, *, copies: int = 1) -> tuple[str, ...]:
    return (to,) * copies


@activity
async def refuse(why: str) -> None:
    raise NonRetryableError(why)


APPROVAL = Signal("approval", bool)
WORDS: Signal[str] = Signal("words", str)


# --- steps ------------------------------------------------------------------------------------------------------------


async def test_a_step_answers_with_a_fresh_value_of_its_annotated_type(stage_in_memory: Stage) -> None:
    made: list[Receipt] = []

    @activity
    async def pay() -> Receipt:
        made.append(Receipt(950, ["paid"]))
        return made[0]

    @workflow
    def checkout(ctx: Context) -> Flow[list[Any]]:
        receipt = yield from ctx.step(pay)
        label = yield from ctx.step(print_label, "Ada", copies=2)
        receipt.lines.append("seen")
        return [type(receipt).__name__, receipt.cents, receipt.lines, type(label).__name__, label]

    answer = await stage_in_memory.answer(checkout)
    assert answer == ["Receipt", 950, ["paid", "seen"], "tuple", ["Ada", "Ada"]]
    assert made == [Receipt(950, ["paid"])]


async def test_a_workflow_without_annotations_and_with_plain_yields_runs(stage_in_memory: Stage) -> None:
    @workflow
    def checkout(ctx, cents):  # type: ignore[no-untyped-def]
        receipt = yield ctx.step(charge, cents)
        return receipt.cents

    assert await stage_in_memory.answer(checkout, 950) == 950


async def test_a_plain_function_and_a_lambda_can_be_steps(stage_in_memory: Stage) -> None:
    @workflow
    def checkout(ctx: Context) -> Flow[list[int]]:
        first = yield ctx.step(lambda: 1)
        second = yield ctx.step(max, 2, 3)
        return [first, second]

    assert await stage_in_memory.answer(checkout) == [1, 3]


async def test_a_recorded_step_never_runs_again(stage: Stage) -> None:
    ran: list[int] = []

    @activity
    async def note(number: int) -> int:
        ran.append(number)
        return number

    @workflow
    def checkout(ctx: Context) -> Flow[list[int]]:
        answers = []
        for number in range(5):
            answers.append((yield from ctx.step(note, number)))
            yield ctx.sleep(0.01)
        return answers

    assert await stage.answer(checkout) == [0, 1, 2, 3, 4]
    assert ran == [0, 1, 2, 3, 4]


# --- children ---------------------------------------------------------------------------------------------------------


@workflow
def pack(ctx: Context, items: list[str]) -> Flow[str]:
    yield ctx.step(print_label, items[0])
    return ", ".join(items)


@workflow
def wait_for_words(ctx: Context) -> Flow[str]:
    return (yield from ctx.signal(WORDS))


@workflow
def fail(ctx: Context, why: str) -> Flow[None]:
    yield ctx.step(refuse, why)


async def test_a_child_is_a_workflow_or_an_activity_and_answers_with_its_result(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        packed = yield from ctx.child(pack, ["cup", "pot"])
        receipt = yield from ctx.child(charge, 950)
        return [packed, receipt.cents, type(receipt).__name__]

    assert await stage.answer(order, serving=[pack, charge]) == ["cup, pot", 950, "Receipt"]


async def test_a_failed_child_raises_with_its_own_error_as_cause(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        try:
            yield ctx.child(fail, "no stock")
        except ChildFailed as error:
            return [error.status, error.name, type(error.__cause__).__name__, str(error.__cause__)]
        return []

    answer = await stage.answer(order, serving=[fail])
    assert answer == ["failed", "fail", "NonRetryableError", "no stock"]


async def test_a_parent_that_does_not_catch_a_failed_child_fails_as_well(stage: Stage) -> None:
    class OutOfStock(Exception):
        pass

    @workflow
    def child(ctx: Context) -> Flow[None]:
        yield ctx.step(charge, 1)
        raise OutOfStock("no cups")

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.child(child)

    async with stage.serving(order, child) as client:
        run = await client.start(order)
        with pytest.raises(RunFailed, match="no cups") as failed:
            await run.result(timeout=SOON)
    # The child used up no attempts: nothing is to be gained by trying it again.
    assert failed.value.status == "failed"


async def test_a_cancelled_child_raises_child_cancelled(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        child = yield from ctx.spawn(wait_for_words)
        yield ctx.publish(child=child.id)
        try:
            yield child.result()
        except ChildCancelled as error:
            return f"{error.name}: {error.reason}"
        return ""

    async with stage.serving(order, wait_for_words) as client:
        run = await client.start(order)
        child = client.handle((await run.wait(lambda state: "child" in state, timeout=SOON))["child"])
        await child.reached(Status.WAITING, timeout=SOON)
        assert await child.cancel("not wanted")
        assert await run.result(timeout=SOON) == "wait_for_words: not wanted"


async def test_a_spawned_child_can_be_sent_to_awaited_and_cancelled(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        first = yield from ctx.spawn(wait_for_words)
        second = yield from ctx.spawn(wait_for_words)
        yield first.send(WORDS, "hello")
        words = yield from first.result()
        cancelled = yield from second.cancel()
        try:
            yield from second.result()
        except ChildCancelled:
            return [words, cancelled, (yield from first.cancel())]
        return []

    assert await stage.answer(order, serving=[wait_for_words]) == ["hello", True, False]


async def test_a_spawned_child_that_has_ended_long_before_it_is_awaited_answers_at_once(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def hold() -> None:
        await gate.pass_through()

    @workflow
    def order(ctx: Context) -> Flow[str]:
        child = yield from ctx.spawn(pack, ["cup"])
        yield ctx.publish(child=child.id)
        yield ctx.step(hold)
        return (yield from child.result())

    tapped = Tapped(stage.storage)
    async with stage.on(tapped).serving(order, pack) as client:
        run = await client.start(order)
        await gate.somebody()
        child = client.handle((await run.state())["child"])
        await child.result(timeout=SOON)
        # The parent's holder hears of it while it does not wait for it yet.
        await soon(lambda: tapped.asked(run.id))
        gate.open()
        assert await run.result(timeout=SOON) == "cup"


async def test_a_parent_and_its_children_finish_on_one_queue_and_one_slot(stage: Stage) -> None:
    @workflow
    def leaf(ctx: Context, number: int) -> Flow[int]:
        yield ctx.sleep(0.001)
        return number

    @workflow
    def middle(ctx: Context, number: int) -> Flow[int]:
        return sum((yield from ctx.gather(ctx.child(leaf, n) for n in range(number))))

    @workflow
    def root(ctx: Context) -> Flow[list[int]]:
        return (yield from ctx.gather(ctx.child(middle, n) for n in range(4)))

    async with stage.serving(root, middle, leaf, max_workers=1) as client:
        assert await (await client.start(root)).result(timeout=SOON) == [0, 0, 1, 3]


async def test_children_inherit_priority_and_take_the_options_of_their_call(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        plain = yield from ctx.spawn(wait_for_words)
        special = yield from ctx.options(
            key=f"key-{ctx.info.id}",
            priority=Priority.LOW,
            metadata={"shop": "north"},
            delay=60,
            parent_close="abandon",
        ).spawn(wait_for_words)
        return [plain.id, special.id]

    async with stage.serving(order, wait_for_words) as client:
        run = await client.options(priority=Priority.HIGH).start(order)
        plain, special = [await client.info(child) for child in await run.result(timeout=SOON)]
    assert (plain.priority, plain.parent_id, plain.root_id, plain.queue) == (Priority.HIGH, run.id, run.id, stage.queue)
    assert (special.priority, special.key, special.metadata) == (Priority.LOW, f"key-{run.id}", {"shop": "north"})
    assert special.status is Status.SCHEDULED


async def test_a_childs_metadata_is_what_is_declared_with_what_its_call_gives_on_top(stage_in_memory: Stage) -> None:
    @workflow(metadata={"team": "shop", "tier": "one"})
    def part(ctx: Context) -> Flow[dict[str, str]]:
        yield ctx.sleep(0)
        return dict(ctx.info.metadata)

    @workflow
    def order(ctx: Context) -> Flow[dict[str, str]]:
        return (yield from ctx.options(metadata={"tier": "two", "by": "me"}).child(part))

    assert await stage_in_memory.answer(order, serving=[part]) == {"team": "shop", "tier": "two", "by": "me"}


# --- send -------------------------------------------------------------------------------------------------------------


async def test_a_workflow_sends_to_any_run_once_and_in_order(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[str]]:
        words = []
        while (word := (yield from ctx.signal(WORDS))) != "end":
            words.append(word)
        return words

    @workflow
    def sender(ctx: Context, to: str) -> Flow[None]:
        for word in ("one", "two", "end"):
            yield ctx.send(to, WORDS, word)
            yield ctx.sleep(0.001)

    async with stage.serving(listener, sender) as client:
        to = await client.start(listener)
        await (await client.start(sender, to.id)).result(timeout=SOON)
        assert await to.result(timeout=SOON) == ["one", "two"]


async def test_sending_to_an_unknown_or_ended_run_is_a_failure_of_the_command(stage: Stage) -> None:
    @workflow
    def sender(ctx: Context, unknown: str, ended: str) -> Flow[list[str]]:
        heard = []
        for to in (unknown, ended):
            try:
                yield ctx.send(to, "words", 1)
            except (RunNotFound, RunFinished) as error:
                heard.append(type(error).__name__)
        yield ctx.sleep(0.001)
        return heard

    async with stage.serving(sender, pack) as client:
        ended = await client.start(pack, ["cup"])
        await ended.result(timeout=SOON)
        run = await client.start(sender, new_run_id(), ended.id)
        assert await run.result(timeout=SOON) == ["RunNotFound", "RunFinished"]


async def test_what_the_storage_refuses_to_send_is_a_failure_of_the_command_and_stops_nobody(stage: Stage) -> None:
    @workflow
    def sender(ctx: Context) -> Flow[int]:
        refused = 0
        for to, channel in (("no id", "words"), (ctx.info.id, "a\0b")):
            try:
                yield ctx.send(to, channel, 1)
            except (RunnerQError, ValueError):
                refused += 1
        try:
            yield ctx.handle("no id").cancel()
        except (RunnerQError, ValueError):
            refused += 1
        return refused

    assert await stage.answer(sender) == 3


# --- time -------------------------------------------------------------------------------------------------------------


async def test_a_sleep_parks_the_run_until_it_is_due(stage: Stage) -> None:
    @workflow
    def nap(ctx: Context) -> Flow[float]:
        before = ctx.now()
        yield ctx.sleep(timedelta(milliseconds=150))
        return (ctx.now() - before).total_seconds()

    tapped = Tapped(stage.storage)
    async with stage.on(tapped).serving(nap) as client:
        run = await client.start(nap)
        assert await run.result(timeout=SOON) >= 0.15
    parks = [turn.move for turn in tapped.turns_of(run.id) if isinstance(turn.move, Park)]
    assert parks
    assert all(park.due_at is not None for park in parks)


async def test_sleeping_until_a_time_that_has_passed_answers_at_once(stage_in_memory: Stage) -> None:
    @workflow
    def nap(ctx: Context) -> Flow[bool]:
        before = ctx.now()
        yield ctx.sleep_until(datetime(2020, 1, 1, tzinfo=UTC))
        return ctx.now() - before < timedelta(seconds=10)

    assert await stage_in_memory.answer(nap) is True


async def test_now_uuid_and_random_are_the_same_in_every_replay(stage_in_memory: Stage) -> None:
    @workflow
    def draw(ctx: Context) -> Flow[bool]:
        drawn: list[Any] = []
        seen: list[Any] = []
        for _ in range(3):
            drawn.append([ctx.now().isoformat(), str(ctx.uuid()), str(ctx.uuid()), ctx.random.random()])
            seen.append((yield ctx.step(lambda value: value, drawn[-1])))
            yield ctx.sleep(0.001)
        assert len({line[1] for line in drawn}) == 3
        return drawn == seen

    assert await stage_in_memory.answer(draw) is True
