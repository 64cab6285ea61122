"""Runs that are opened again, forked or terminated, by a client and a real worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from runnerq.errors import (
    ChildFailed,
    ConfigurationError,
    NonRetryableError,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunNotFound,
    WrongState,
)
from runnerq.ids import new_run_id
from runnerq.persistence.records import RunFilter, Status
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage, Tapped

WORD: Signal[str] = Signal("word", str)
CALLS: list[str] = []
KEYS: list[str] = []
DOWN: set[str] = set()


@pytest.fixture(autouse=True)
def fresh() -> None:
    CALLS.clear()
    KEYS.clear()
    DOWN.clear()


@activity(retry=1)
async def act(name: str) -> str:
    CALLS.append(name)
    KEYS.append(current().idempotency_key)
    if name in DOWN:
        raise NonRetryableError(f"{name} is down")
    return name.upper()


@workflow
def three(ctx: Context) -> Flow[list[str]]:
    done = []
    for name in "abc":
        done.append((yield from ctx.step(act, name)))
    return done


@workflow
def cleans_up(ctx: Context) -> Flow[str]:
    try:
        return (yield from ctx.step(act, "a"))
    except NonRetryableError:
        yield from ctx.step(act, "clean")
        raise


@workflow
def parent(ctx: Context) -> Flow[list[str]]:
    return (yield from ctx.child(three))


@workflow
def two_children(ctx: Context) -> Flow[tuple[list[str], str]]:
    return (yield from ctx.all(ctx.child(three), ctx.child(waits)))


@workflow
def waits_then_acts(ctx: Context) -> Flow[str]:
    yield from ctx.signal(WORD)
    yield from ctx.step(act, "x")
    yield from ctx.publish(acted=True)
    return (yield from ctx.signal(WORD))


@workflow
def acts(ctx: Context) -> Flow[str]:
    return (yield from ctx.step(act, "a"))


@workflow
def pair(ctx: Context) -> Flow[object]:
    return (yield from ctx.all(ctx.child(acts), ctx.child(waits_then_acts)))


@workflow
def waits(ctx: Context) -> Flow[str]:
    return (yield from ctx.signal(WORD))


# --- retry ------------------------------------------------------------------------------------------------------------


async def test_a_failed_run_goes_on_at_the_step_that_failed_with_the_same_key(stage: Stage) -> None:
    DOWN.add("b")
    async with stage.serving(three, act) as client:
        run = await client.start(three)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        DOWN.clear()
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == ["A", "B", "C"]
    assert CALLS == ["a", "b", "b", "c"]
    assert KEYS[1] == KEYS[2]
    entries = await stage.client.history(run.id)
    assert [entry.kind for entry in entries].count("reopened") == 1
    await stage.no_gaps(run.id)


async def test_history_shows_the_answer_that_counts_and_export_the_one_that_was_cut_too(stage: Stage) -> None:
    DOWN.add("b")
    async with stage.serving(three, act) as client:
        run = await client.start(three)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        DOWN.clear()
        assert await client.retry(run.id)
        await run.result(timeout=SOON)
    entries = await stage.client.history(run.id)
    steps = [(entry.state, entry.value, entry.error) for entry in entries if entry.kind == "step"]
    assert steps == [("answered", name, None) for name in "ABC"]
    [reopened] = [entry.value for entry in entries if entry.kind == "reopened"]
    [generation] = (await stage.client.export(run.id))["generations"]
    [failed] = [row for row in generation["rows"] if row["kind"] == "failed"]
    assert (failed["position"], failed["place"]) == ("2", reopened["upto"])


async def test_what_came_after_the_failure_is_done_again_where_the_code_comes_there_again(stage: Stage) -> None:
    DOWN.add("a")
    async with stage.serving(cleans_up, act) as client:
        run = await client.start(cleans_up)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        assert CALLS == ["a", "clean"]
        assert await client.retry(run.id)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        assert CALLS == ["a", "clean"] * 2
        DOWN.clear()
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == "A"


async def test_a_child_whose_failure_is_cut_is_retried_with_its_parent(stage: Stage) -> None:
    DOWN.add("c")
    async with stage.serving(parent, three, act) as client:
        run = await client.start(parent)
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=SOON)
        assert isinstance(caught.value.__cause__, ChildFailed)
        DOWN.clear()
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == ["A", "B", "C"]
    assert CALLS == ["a", "b", "c", "c"]


async def test_a_child_that_was_cancelled_with_the_failure_is_opened_again(stage: Stage) -> None:
    DOWN.add("a")
    async with stage.serving(two_children, three, waits, act) as client:
        run = await client.start(two_children)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        children = (await client.list(RunFilter(parent=run.id))).items
        [waiting] = [child for child in children if child.workflow == "waits"]
        with pytest.raises(RunCancelled):
            await client.handle(waiting.id).result(timeout=SOON)
        DOWN.clear()
        assert await client.retry(run.id)
        await client.send(waiting.id, WORD, "hello")
        assert await run.result(timeout=SOON) == (["A", "B", "C"], "hello")


async def test_an_activity_is_tried_anew(stage: Stage) -> None:
    DOWN.add("x")
    async with stage.serving(three, act) as client:
        run = await client.start(act, "x")
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        DOWN.clear()
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == "X"


async def test_a_workflow_that_raised_on_its_own_goes_on_with_code_that_does_not(plain_stage: Stage) -> None:
    class OutOfStock(Exception):
        pass

    @workflow(name="changes")
    def raises(ctx: Context) -> Flow[str]:
        yield from ctx.step(act, "a")
        raise OutOfStock("none left")

    @workflow(name="changes")
    def goes_on(ctx: Context) -> Flow[str]:
        yield from ctx.step(act, "a")
        return (yield from ctx.step(act, "b"))

    async with plain_stage.serving(raises, act) as client:
        run = await client.start(raises)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
    async with plain_stage.serving(goes_on, act, build="next") as client:
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == "B"
    assert CALLS == ["a", "b"]


async def test_a_blocked_run_is_taken_up_by_the_same_build_when_it_is_retried(stage_in_memory: Stage) -> None:
    stage, broken = stage_in_memory, [True]

    @workflow
    def may_break(ctx: Context) -> Flow[str]:
        yield from ctx.step(act, "a")
        if broken[0]:
            raise KeyError("a bug")
        return (yield from ctx.step(act, "b"))

    async with stage.serving(may_break, act) as client:
        run = await client.start(may_break)
        await run.reached(Status.BLOCKED, timeout=SOON)
        broken[0] = False
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == "B"
    assert CALLS == ["a", "b"]


async def test_a_run_blocked_by_changed_arguments_goes_on_when_they_are_accepted(stage_in_memory: Stage) -> None:
    stage = stage_in_memory

    def mails(text: str) -> object:
        @workflow(name="mails")
        def flow(ctx: Context) -> Flow[str]:
            yield from ctx.step(act, text)
            return (yield from ctx.signal(WORD))

        return flow

    first, second = mails("dear sir"), mails("hi there")
    async with stage.serving(first, act) as client:  # type: ignore[arg-type]  # a workflow, made above
        run = await client.start("mails")
        await run.reached(Status.WAITING, timeout=SOON)
    async with stage.serving(second, act, build="next") as client:  # type: ignore[arg-type]  # as above
        await run.send(WORD, "ok")
        await run.reached(Status.BLOCKED, timeout=SOON)
        assert await client.retry(run.id, accept="arguments")
        assert await run.result(timeout=SOON) == "ok"
    assert CALLS == ["dear sir"]


async def test_a_run_that_goes_on_or_went_well_cannot_be_retried(stage: Stage) -> None:
    async with stage.serving(three, waits, act) as client:
        done, open_ = await client.start(three), await client.start(waits)
        await done.result(timeout=SOON)
        await open_.reached(Status.WAITING, timeout=SOON)
        for run in (done, open_):
            with pytest.raises(WrongState, match="retry"):
                await client.retry(run.id)
        with pytest.raises(RunNotFound):
            await client.retry(new_run_id())


async def test_all_runs_that_fit_a_filter_are_retried(stage: Stage) -> None:
    DOWN.add("b")
    async with stage.serving(three, act) as client:
        runs = await client.start_many(three, [()] * 3)
        for run in runs:
            with pytest.raises(RunFailed):
                await run.result(timeout=SOON)
        DOWN.clear()
        assert await client.retry(RunFilter(queue=stage.queue)) == 3
        for run in runs:
            assert await run.result(timeout=SOON) == ["A", "B", "C"]


async def test_a_child_that_is_waited_for_twice_is_opened_once(plain_stage: Stage) -> None:
    @workflow
    def waits_twice(ctx: Context) -> Flow[object]:
        child = yield from ctx.spawn(three)
        return (yield from ctx.all(child.result(), child.result()))

    DOWN.add("b")
    async with plain_stage.serving(waits_twice, three, act) as client:
        run = await client.start(waits_twice)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        DOWN.clear()
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == [["A", "B", "C"]] * 2


async def test_a_run_that_is_blocked_before_its_first_command_is_retried_too(plain_stage: Stage) -> None:
    broken = [True]

    @workflow
    def breaks_at_once(ctx: Context) -> Flow[str]:
        if broken[0]:
            raise NameError("a bug")
        return (yield from ctx.step(act, "a"))

    async with plain_stage.serving(breaks_at_once, act) as client:
        run = await client.start(breaks_at_once)
        await run.reached(Status.BLOCKED, timeout=SOON)
        broken[0] = False
        assert await client.retry(run.id, accept="arguments")
        assert await run.result(timeout=SOON) == "A"


async def test_a_child_that_was_opened_again_and_then_terminated_keeps_what_it_did_since(plain_stage: Stage) -> None:
    DOWN.add("a")
    async with plain_stage.serving(pair, acts, waits_then_acts, act) as client:
        run = await client.start(pair)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        children = (await client.list(RunFilter(parent=run.id))).items
        [second] = [client.handle(each.id) for each in children if each.workflow == "waits_then_acts"]
        with pytest.raises(RunCancelled):
            await second.result(timeout=SOON)
        DOWN.clear()
        assert await client.retry(run.id)
        await second.send(WORD, "go")
        await second.wait(lambda state: "acted" in state, timeout=SOON)
        assert await client.terminate(second.id)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        assert await client.retry(run.id)
        await second.send(WORD, "go on")
        assert await run.result(timeout=SOON) == ["A", "go on"]
    assert CALLS.count("x") == 1


async def test_a_parent_whose_child_has_undone_its_work_is_refused_by_its_own_name(plain_stage: Stage) -> None:
    @workflow
    def undoes(ctx: Context) -> Flow[str]:
        ctx.compensate(act, "undo")
        return (yield from ctx.signal(WORD))

    @workflow
    def loses_one(ctx: Context) -> Flow[object]:
        return (yield from ctx.all(ctx.child(three), ctx.child(undoes)))

    DOWN.add("a")
    async with plain_stage.serving(loses_one, three, undoes, act) as client:
        run = await client.start(loses_one)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        [child] = [each for each in (await client.list(RunFilter(parent=run.id))).items if each.workflow == "undoes"]
        with pytest.raises(RunCancelled):
            await client.handle(child.id).result(timeout=SOON)
        with pytest.raises(WrongState, match="has undone what it did") as refused:
            await client.retry(run.id)
    assert (refused.value.run_id, child.id in str(refused.value)) == (run.id, True)


async def test_a_run_that_is_blocked_by_something_else_is_not_helped_by_accepting_arguments(plain_stage: Stage) -> None:
    broken = [True]

    @workflow
    def may_break(ctx: Context) -> Flow[str]:
        answer = yield from ctx.step(act, "a")
        if broken[0]:
            raise KeyError("a bug")
        return answer

    async with plain_stage.serving(may_break, act) as client:
        run = await client.start(may_break)
        await run.reached(Status.BLOCKED, timeout=SOON)
        with pytest.raises(WrongState, match="arguments that differ"):
            await client.retry(run.id, accept="arguments")
        assert await run.status() is Status.BLOCKED


async def test_only_arguments_can_be_accepted(memory: Stage) -> None:
    with pytest.raises(ConfigurationError, match="everything"):
        await memory.client.retry(new_run_id(), accept="everything")  # type: ignore[call-overload]  # that is refused


async def test_the_history_of_a_retried_run_shows_what_is_open_and_what_is_over(plain_stage: Stage) -> None:
    DOWN.add("a")
    async with plain_stage.serving(cleans_up, act) as client:
        run = await client.start(cleans_up)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        DOWN.clear()
        await client.retry(run.id)
        await run.result(timeout=SOON)
        entries = {entry.position: entry for entry in await run.history() if entry.position}
    assert [(at, entries[at].state, entries[at].value) for at in ("1", "2")] == [
        ("1", "answered", "A"),
        ("2", "closed", "CLEAN"),
    ]


# --- fork -------------------------------------------------------------------------------------------------------------


async def test_a_fork_is_a_new_run_that_does_an_entry_and_what_follows_anew(stage: Stage) -> None:
    async with stage.serving(three, act) as client:
        run = await client.start(three)
        await run.result(timeout=SOON)
        CALLS.clear()
        forked = await client.fork(run.id, from_entry="2")
        assert forked.id != run.id
        assert await forked.result(timeout=SOON) == ["A", "B", "C"]
    assert CALLS == ["b", "c"]
    assert KEYS[1] != KEYS[3]
    await stage.no_gaps(forked.id)


async def test_a_fork_has_children_of_its_own_for_those_that_had_not_answered(stage: Stage) -> None:
    async with stage.serving(parent, three, act) as client:
        run = await client.start(parent)
        await run.result(timeout=SOON)
        forked = await client.fork(run.id, from_entry="1")
        assert await forked.result(timeout=SOON) == ["A", "B", "C"]
        [child] = (await client.list(RunFilter(parent=forked.id))).items
        assert (await client.list(RunFilter(parent=run.id))).items[0].id != child.id
    assert CALLS == ["a", "b", "c", "a", "b", "c"]


async def test_a_fork_does_not_take_the_signals_of_its_original(stage: Stage) -> None:
    async with stage.serving(waits) as client:
        run = await client.start(waits)
        await run.send(WORD, "mine")
        assert await run.result(timeout=SOON) == "mine"
        forked = await client.fork(run.id, from_entry="1")
        await forked.reached(Status.WAITING, timeout=SOON)
        await forked.send(WORD, "yours")
        assert await forked.result(timeout=SOON) == "yours"


async def test_a_fork_from_an_entry_that_is_not_there_is_refused(stage: Stage) -> None:
    async with stage.serving(three, act) as client:
        run = await client.start(three)
        await run.result(timeout=SOON)
        with pytest.raises(ValueError, match="9"):
            await client.fork(run.id, from_entry="9")


# --- terminate --------------------------------------------------------------------------------------------------------


async def test_a_terminated_run_is_over_at_once_and_its_step_is_cancelled(stage: Stage) -> None:
    inside, cancelled = asyncio.Event(), asyncio.Event()

    @activity
    async def endless() -> None:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    @workflow
    def runs(ctx: Context) -> Flow[None]:
        yield from ctx.step(endless)

    async with stage.serving(runs, endless) as client:
        run = await client.start(runs)
        await inside.wait()
        assert await client.terminate(run.id)
        with pytest.raises(RunCancelled) as caught:
            await run.result(timeout=SOON)
        assert caught.value.reason == "terminated"
        await cancelled.wait()
        assert await client.terminate(run.id) is False
        with pytest.raises(RunFinished):
            await run.send(WORD, "too late")


async def test_a_run_that_is_not_there_cannot_be_terminated(stage: Stage) -> None:
    with pytest.raises(RunNotFound):
        await stage.client.terminate(new_run_id())


async def test_a_failure_that_the_end_no_longer_names_is_tried_again_all_the_same(plain_stage: Stage) -> None:
    @workflow
    def hides_its_cause(ctx: Context) -> Flow[str]:
        try:
            return (yield from ctx.step(exhausted))
        except ValueError:
            yield from ctx.step(act, "tidy")
            raise RuntimeError("no luck") from None

    DOWN.add("exhausted")
    async with plain_stage.serving(hides_its_cause, exhausted, act) as client:
        run = await client.start(hides_its_cause)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=SOON)
        assert failed.value.status == "dead_letter"
        DOWN.clear()
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == "at last"


@activity(retry=1)
async def exhausted() -> str:
    if "exhausted" in DOWN:
        raise ValueError("again")
    return "at last"


@activity
async def endless_activity() -> None:
    INSIDE[0].set()
    try:
        await asyncio.Event().wait()
    finally:
        INSIDE[1].set()


INSIDE: list[asyncio.Event] = []


class _Deaf(Tapped):
    """A storage whose wake-ups nobody hears."""

    def subscribe(self, hear: object) -> Callable[[], None]:
        return lambda: None


@pytest.mark.parametrize("deaf", [False, True], ids=["told", "not told"])
async def test_a_terminated_activity_is_cancelled_whether_or_not_its_worker_is_told(
    plain_stage: Stage, deaf: bool
) -> None:
    INSIDE[:] = [asyncio.Event(), asyncio.Event()]
    worked_by = plain_stage.on(_Deaf(plain_stage.storage)) if deaf else plain_stage
    async with worked_by.worker(endless_activity, poll_interval=0.05):
        run = await plain_stage.client.start(endless_activity)
        await asyncio.wait_for(INSIDE[0].wait(), SOON)
        assert await plain_stage.client.terminate(run.id)
        await asyncio.wait_for(INSIDE[1].wait(), SOON)
    assert (await run.info()).reason == "terminated"
