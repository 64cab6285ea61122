"""Every command of ``ctx`` through a real worker and client."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runnerq.client.handle import Handle
from runnerq.errors import (
    Cancelled,
    ChildCancelled,
    ChildFailed,
    NonRetryableError,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunnerQError,
    RunNotFound,
    SignalPayloadError,
    SignalTimeout,
    UsageError,
)
from runnerq.ids import new_run_id
from runnerq.persistence.records import Priority, Status
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


async def test_a_step_answers_with_a_fresh_value_of_its_annotated_type(stage: Stage) -> None:
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

    answer = await stage.answer(checkout)
    assert answer == ["Receipt", 950, ["paid", "seen"], "tuple", ["Ada", "Ada"]]
    assert made == [Receipt(950, ["paid"])]


async def test_a_workflow_without_annotations_and_with_plain_yields_runs(stage: Stage) -> None:
    @workflow
    def checkout(ctx, cents):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - as a newcomer writes it
        receipt = yield ctx.step(charge, cents)
        return receipt.cents

    assert await stage.answer(checkout, 950) == 950


async def test_a_plain_function_and_a_lambda_can_be_steps(stage: Stage) -> None:
    @workflow
    def checkout(ctx: Context) -> Flow[list[int]]:
        first = yield ctx.step(lambda: 1)
        second = yield ctx.step(max, 2, 3)
        return [first, second]

    assert await stage.answer(checkout) == [1, 3]


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

    async with stage.serving(nap) as client:
        run = await client.start(nap)
        await run.reached(Status.WAITING, timeout=SOON)
        info = await run.info()
        assert info.due_at is not None
        assert await run.result(timeout=SOON) >= 0.15


async def test_sleeping_until_a_time_that_has_passed_answers_at_once(stage: Stage) -> None:
    @workflow
    def nap(ctx: Context) -> Flow[bool]:
        before = ctx.now()
        yield ctx.sleep_until(datetime(2020, 1, 1, tzinfo=UTC))
        return ctx.now() - before < timedelta(seconds=10)

    assert await stage.answer(nap) is True


async def test_now_uuid_and_random_are_the_same_in_every_replay(stage: Stage) -> None:
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

    assert await stage.answer(draw) is True


# --- signals ----------------------------------------------------------------------------------------------------------


async def test_signals_are_taken_in_order_from_before_the_start_while_it_runs_and_while_it_waits(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def hold() -> None:
        await gate.pass_through()

    @workflow
    def listener(ctx: Context) -> Flow[list[str]]:
        words = [(yield from ctx.signal(WORDS))]
        yield ctx.step(hold)
        for _ in range(2):
            words.append((yield from ctx.signal(WORDS)))
        return words

    run = await stage.client.start(listener)
    await run.send(WORDS, "before")
    async with stage.serving(listener):
        await gate.somebody()
        await run.send(WORDS, "running")
        gate.open()
        await run.reached(Status.WAITING, timeout=SOON)
        await run.send(WORDS, "waiting")
        assert await run.result(timeout=SOON) == ["before", "running", "waiting"]


async def test_a_wait_that_is_over_raises_or_answers_its_default(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        heard: list[Any] = []
        try:
            yield ctx.signal(WORDS, timeout=0.02)
        except SignalTimeout as error:
            heard.append(error.channel)
        heard.append((yield ctx.signal(WORDS, timeout=0.02, default=None)))
        heard.append((yield ctx.signal(WORDS, timeout=timedelta(milliseconds=20), default=["none"])))
        return heard

    assert await stage.answer(listener) == ["words", None, ["none"]]


async def test_a_poll_parks_nothing_and_takes_what_is_there(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        heard: list[Any] = []
        for _ in range(3):
            heard.append((yield ctx.signal(WORDS, timeout=0, default=None)))
        try:
            yield ctx.signal(WORDS, timeout=0)
        except SignalTimeout:
            heard.append("over")
        return heard

    run = await stage.client.start(listener)
    await run.send(WORDS, "one")
    await run.send(WORDS, "two")
    async with stage.serving(listener):
        assert await run.result(timeout=SOON) == ["one", "two", None, "over"]


async def test_latest_takes_the_newest_and_drops_the_older_ones(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        newest = yield ctx.signal(WORDS, latest=True)
        return [newest, (yield ctx.signal(WORDS, timeout=0, default=None))]

    run = await stage.client.start(listener)
    for word in ("one", "two", "three"):
        await run.send(WORDS, word)
    async with stage.serving(listener):
        assert await run.result(timeout=SOON) == ["three", None]


async def test_a_payload_of_another_type_is_consumed_and_raises(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        heard: list[Any] = []
        for _ in range(2):
            try:
                heard.append((yield ctx.signal(APPROVAL)))
            except SignalPayloadError as error:
                heard.append(error.channel)
        return heard

    run = await stage.client.start(listener)
    await run.send("approval", {"not": "a bool"})
    async with stage.serving(listener):
        await run.send(APPROVAL, True)
        assert await run.result(timeout=SOON) == ["approval", True]


async def test_a_losing_wait_does_not_eat_later_signals(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        first = yield from ctx.race(ctx.signal(WORDS), ctx.sleep(0.01))
        return [first.index, (yield from ctx.signal(WORDS))]

    async with stage.serving(listener) as client:
        run = await client.start(listener)
        await run.wait(lambda _: True, timeout=SOON)
        await _entries(run, 5)
        await run.send(WORDS, "late")
        assert await run.result(timeout=SOON) == [1, "late"]


# --- composites -------------------------------------------------------------------------------------------------------


async def test_all_answers_a_tuple_and_gather_a_list_in_order(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        three = yield from ctx.all(ctx.step(charge, 1), ctx.child(pack, ["cup"]), ctx.sleep(0.01))
        numbers = yield from ctx.gather([ctx.step(charge, n) for n in range(5)], limit=2)
        nothing = yield from ctx.all()
        none = yield from ctx.gather([])
        return [type(three).__name__, three[0].cents, three[1:], [r.cents for r in numbers], nothing, none]

    answer = await stage.answer(order, serving=[pack])
    assert answer == ["tuple", 1, ["cup", None], [0, 1, 2, 3, 4], [], []]


async def test_gather_runs_no_more_than_its_limit_at_once(stage: Stage) -> None:
    running: set[int] = set()
    most: list[int] = []

    @activity
    async def work(number: int) -> int:
        running.add(number)
        most.append(len(running))
        await asyncio.sleep(0.002)
        running.discard(number)
        return number

    @workflow
    def order(ctx: Context) -> Flow[list[int]]:
        return (yield from ctx.gather((ctx.step(work, n) for n in range(12)), limit=3))

    assert await stage.answer(order) == list(range(12))
    assert max(most) == 3


async def test_gather_can_answer_errors_as_values(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        answers = yield from ctx.gather(
            [ctx.step(charge, 1), ctx.step(refuse, "no"), ctx.child(fail, "never")], return_errors=True
        )
        return [type(answer).__name__ for answer in answers]

    assert await stage.answer(order, serving=[fail]) == ["Receipt", "NonRetryableError", "ChildFailed"]


async def test_the_first_error_decides_an_all_and_cancels_the_others(stage: Stage) -> None:
    ended: list[str] = []
    begun = Gate()

    @activity
    async def long() -> None:
        begun.come.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @activity
    async def refuse_once_it_runs() -> None:
        await begun.somebody()
        raise NonRetryableError("no")

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            yield ctx.all(ctx.step(long), ctx.step(refuse_once_it_runs))
        except NonRetryableError as error:
            # As many open waits as there are losers: none of them keeps a loser running.
            yield ctx.all(ctx.signal("a", timeout=0.01, default=1), ctx.signal("b", timeout=0.01, default=1))
            return str(error)
        return ""

    assert await stage.answer(order) == "no"
    assert ended == ["cancelled"]


async def test_a_race_answers_with_the_first_and_cancels_the_losers_step_and_child(stage: Stage) -> None:
    ended: list[str] = []

    @activity
    async def long() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        won = yield from ctx.race(ctx.step(long), ctx.child(wait_for_words), ctx.signal(APPROVAL))
        yield ctx.signal("more", timeout=0.01, default=None)
        return [won.index, won.value]

    async with stage.serving(order, wait_for_words) as client:
        run = await client.start(order)
        child = await _child_of(run)
        await child.reached(Status.WAITING, timeout=SOON)
        await run.send(APPROVAL, True)
        assert await run.result(timeout=SOON) == [2, True]
        with pytest.raises(RunCancelled):
            await child.result(timeout=SOON)
    assert ended == ["cancelled"]


async def test_branches_advance_side_by_side_and_number_their_own_commands(stage: Stage) -> None:
    def pipeline(ctx: Context, name: str) -> Generator[Any, Any, str]:
        yield ctx.step(charge, 1)
        word = yield ctx.signal(name)
        yield ctx.sleep(0.001)
        return f"{name}: {word}"

    @workflow
    def order(ctx: Context) -> Flow[Any]:
        return (yield from ctx.all(pipeline(ctx, "left"), pipeline(ctx, "right"), ctx.step(charge, 3)))[:2]

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.send("right", "second")
        await run.send("left", "first")
        assert await run.result(timeout=SOON) == ["left: first", "right: second"]
        positions = {entry.position for entry in await run.history()}
        assert positions == {"", "1", "1.0.1", "1.0.2", "1.0.3", "1.1.1", "1.1.2", "1.1.3", "1.2"}
        await stage.no_gaps(run.id)


async def test_a_losing_branch_finishes_its_cleanup_before_the_race_answers(stage: Stage) -> None:
    done: list[str] = []

    @activity
    async def tidy() -> None:
        done.append("tidied")

    def pipeline(ctx: Context) -> Generator[Any, Any, str]:
        try:
            yield ctx.signal("never")
        finally:
            yield ctx.step(tidy)
        return ""

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        won = yield from ctx.race(pipeline(ctx), ctx.sleep(0.01))
        return [won.index, list(done)]

    assert await stage.answer(order) == [1, ["tidied"]]


# --- state, options, info ---------------------------------------------------------------------------------------------


async def test_published_state_is_merged_seen_while_it_runs_and_kept_after_the_end(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.publish(done=0, total=2)
        yield ctx.signal("go")
        yield ctx.publish(done=2)

    async with stage.serving(order) as client:
        run = await client.start(order)
        assert await run.wait(lambda state: state.get("total") == 2, timeout=SOON) == {"done": 0, "total": 2}
        await run.send("go", None)
        await run.result(timeout=SOON)
        assert await run.state() == {"done": 2, "total": 2}


async def test_an_entry_can_have_a_name_of_its_own(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.options(name="first charge").step(charge, 1)

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.result(timeout=SOON)
        assert [entry.name for entry in await run.history()][1:] == ["first charge"]


async def test_info_says_who_the_run_is(stage: Stage) -> None:
    @workflow(version=3)
    def order(ctx: Context) -> Flow[list[Any]]:
        yield ctx.sleep(0.001)
        info = ctx.info
        return [info.id, info.workflow, info.version, info.key, info.queue, info.generation, dict(info.metadata)]

    async with stage.serving(order) as client:
        run = await client.options(key=f"key-{stage.queue}", metadata={"shop": "north"}).start(order)
        answer = await run.result(timeout=SOON)
    assert answer == [run.id, "order", 3, f"key-{stage.queue}", stage.queue, 1, {"shop": "north"}]


# --- how a run ends ---------------------------------------------------------------------------------------------------


async def test_a_run_that_returns_nothing_completes_with_none(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        if ctx.info.id == "":
            yield ctx.sleep(1)

    async with stage.serving(order) as client:
        run = await client.start(order)
        assert await run.result(timeout=SOON) is None
        assert await run.status() is Status.COMPLETED


async def test_an_exception_of_the_workflow_fails_the_run_at_once(stage: Stage) -> None:
    class OutOfStock(Exception):
        pass

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(charge, 1)
        raise OutOfStock("no cups")

    async with stage.serving(order) as client:
        run = await client.start(order)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=SOON)
    assert (failed.value.status, failed.value.reason, failed.value.error.message) == ("failed", None, "no cups")


async def test_a_result_that_cannot_be_stored_fails_the_run_and_says_why(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[Any]:
        yield ctx.step(charge, 1)
        return {"when": object()}

    async with stage.serving(order) as client:
        with pytest.raises(RunFailed, match=r"order.*when"):
            await (await client.start(order)).result(timeout=SOON)


@pytest.mark.parametrize("leave", [SystemExit(3), GeneratorExit(), StopIteration(1), Cancelled("of my own")])
async def test_whatever_leaves_a_workflow_ends_its_run_and_not_the_worker(memory: Stage, leave: BaseException) -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(charge, 1)
        raise leave

    async with memory.serving(order, pack) as client:
        run = await client.start(order)
        with pytest.raises((RunFailed, RunCancelled)):
            await run.result(timeout=SOON)
        assert await (await client.start(pack, ["cup"])).result(timeout=SOON) == "cup"


async def test_a_bad_yield_is_thrown_at_the_users_line(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        heard = []
        for bad in (None, 7, [ctx.step(charge, 1)], charge):
            try:
                yield bad  # type: ignore[misc]
            except UsageError as error:
                heard.append(str(error).split()[0])
        yield ctx.step(charge, 1)
        return heard

    assert await stage.answer(order) == ["None", "int", "a", "charge,"]


async def test_options_that_no_child_could_have_are_thrown_at_the_users_line(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        heard = []
        bad: tuple[dict[str, Any], ...] = (
            {"queue": ""}, {"priority": 9}, {"at": datetime(2030, 1, 1)}, {"at": ctx.now(), "delay": 1},  # noqa: DTZ001 - bad
        )  # fmt: skip
        for options in bad:
            try:
                yield ctx.options(**options).child(charge, 1)
            except UsageError as error:
                heard.append(str(error).partition("asked for: ")[2].split("=")[0])
        yield ctx.step(charge, 1)
        return heard

    assert await stage.answer(order) == ["queue", "priority", "at", "delay"]


async def _entries(run: Handle[Any], count: int) -> None:
    async with asyncio.timeout(SOON):
        while len(await run.history()) < count:
            await asyncio.sleep(0.005)


async def _child_of(run: Handle[Any]) -> Handle[Any]:
    async with asyncio.timeout(SOON):
        while True:
            for entry in await run.history():
                if entry.child_id is not None:
                    return Handle(run._core, entry.child_id, Any)
            await asyncio.sleep(0.005)
