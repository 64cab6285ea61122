"""``Environment``: virtual time, and everything that goes by it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runnerq.errors import (
    ConfigurationError,
    ResultTimeout,
    RunCancelled,
    RunFailed,
    SignalTimeout,
    StepTimeout,
    WrongState,
)
from runnerq.persistence.records import Status
from runnerq.runtime.current import current
from runnerq.testing import Environment, environment_fixture
from runnerq.testing.quiet import at_rest
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.architecture.source import ROOT
from tests.testing.flows import APPROVAL, charge, checkout, mail, ship, stamp

START = datetime(2025, 1, 1, tzinfo=UTC)

env = environment_fixture(workflows=[checkout, ship], activities=[mail, stamp])


async def test_a_fixture_is_one_line(env: Environment) -> None:
    run = await env.start(ship, "cup")
    assert await run.result() == "CUP"


async def test_a_workflow_of_a_month_ends_at_once_and_its_time_has_passed(env: Environment) -> None:
    run = await env.start(checkout, 950)
    assert await run.result() == ["receipt for 950", False, "mail to after 1", "mail to after 2", "CUP", 1]
    # 1 and 2 s of retries, 30 days, a minute, 2 s of branches, 2 days of shipping, 10 s until the race is lost.
    assert env.now() == START + timedelta(days=32, seconds=3 + 60 + 2 + 10)


async def test_a_start_is_the_time_at_which_it_begins() -> None:
    cairo = datetime(2030, 5, 1, 12, tzinfo=UTC)
    async with Environment(start=cairo) as env:
        assert env.now() == cairo
    with pytest.raises(ConfigurationError, match="zone"):
        Environment(start=datetime(2030, 5, 1))  # noqa: DTZ001 - that is what is refused


async def test_time_stands_still_while_nobody_waits(env: Environment) -> None:
    run = await env.start(ship, "cup")
    await at_rest(asyncio.get_running_loop())
    assert env.now() == START
    assert await run.status() in (Status.PENDING, Status.RUNNING, Status.WAITING)
    assert await run.reached(Status.WAITING) is Status.WAITING
    assert env.now() == START


async def test_advance_runs_what_is_due_on_the_way_in_order_and_each_at_its_time() -> None:
    seen: list[tuple[str, float]] = []

    @activity
    async def note(name: str) -> None:
        seen.append((name, (env.now() - START).total_seconds()))

    @workflow
    def twice(ctx: Context, name: str, pause: float) -> Flow[None]:
        for nth in range(2):
            yield ctx.sleep(pause)
            yield ctx.step(note, f"{name}{nth}")

    async with Environment(workflows=[twice]) as env:
        await env.start(twice, "slow", 50)
        await env.start(twice, "quick", 20)
        await env.advance(timedelta(seconds=99))
        assert seen == [("quick0", 20.0), ("quick1", 40.0), ("slow0", 50.0)]
        assert env.now() == START + timedelta(seconds=99)
        await env.advance(1)
        assert seen[3:] == [("slow1", 100.0)]


async def test_advance_returns_when_all_that_it_set_off_is_done() -> None:
    done = []

    @activity
    async def slow() -> None:
        await asyncio.sleep(0.03)
        done.append(env.now())

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.sleep(10)
        yield ctx.step(slow)

    async with Environment(workflows=[order]) as env:
        await env.start(order)
        await env.advance(10)
        assert done == [START + timedelta(seconds=10)]


async def test_a_delayed_run_starts_at_its_time(env: Environment) -> None:
    run = await env.options(delay=timedelta(days=3)).start(mail, "ann")
    assert await run.status() is Status.SCHEDULED
    assert await run.result() == "mail to ann"
    assert env.now() == START + timedelta(days=3)


async def test_attempts_come_after_exactly_what_their_policy_says() -> None:
    tried = []

    @activity(retry=4)
    async def never(fail: bool) -> None:
        tried.append((env.now() - START).total_seconds())
        raise ConnectionError("no")

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(never, True)

    async with Environment(workflows=[order], activities=[never]) as env:
        with pytest.raises(RunFailed, match="no"):
            await (await env.start(order)).result()
        assert tried == [0.0, 1.0, 3.0, 7.0]
        tried.clear()
        with pytest.raises(RunFailed, match="no"):
            await (await env.start(never, True)).result()
        assert [at - tried[0] for at in tried] == [0.0, 1.0, 3.0, 7.0]


async def test_a_signal_that_comes_in_time_is_taken_and_one_that_does_not_times_out() -> None:
    @workflow
    def asks(ctx: Context) -> Flow[bool]:
        return (yield from ctx.signal(APPROVAL, timeout=timedelta(hours=48)))

    async with Environment(workflows=[asks]) as env:
        run = await env.start(asks)
        await env.advance(timedelta(hours=47))
        await run.send(APPROVAL, True)
        assert await run.result() is True
        late = await env.start(asks)
        with pytest.raises(RunFailed) as failed:
            await late.result()
        assert isinstance(failed.value.__cause__, SignalTimeout)
        assert env.now() == START + timedelta(hours=47 + 48)


async def test_a_timeout_of_result_is_virtual_too(env: Environment) -> None:
    run = await env.start(ship, "cup")
    with pytest.raises(ResultTimeout, match="waiting after 3600 s"):
        await run.result(timeout=timedelta(hours=1))
    assert env.now() == START + timedelta(hours=1)


async def test_who_waits_for_what_will_never_come_is_told_so_at_once() -> None:
    @workflow
    def asks(ctx: Context) -> Flow[bool]:
        return (yield from ctx.signal(APPROVAL))

    async with Environment(workflows=[asks]) as env:
        run = await env.start(asks)
        with pytest.raises(ResultTimeout, match="nothing is left that could happen; it waits for signal 'approval'"):
            await run.result()
        unserved = await env.start(mail, "ann")
        with pytest.raises(ResultTimeout, match="a worker that serves 'mail'"):
            await unserved.result()


async def test_reached_and_wait_move_time_as_result_does(env: Environment) -> None:
    run = await env.start(checkout, 1)
    assert await run.wait(lambda state: state.get("paid")) == {"paid": True}
    assert env.now() == START + timedelta(seconds=3)
    assert await run.reached(Status.COMPLETED) is Status.COMPLETED
    with pytest.raises(WrongState):
        await run.reached(Status.FAILED)


async def test_several_may_wait_at_once(env: Environment) -> None:
    runs = [await env.start(ship, item) for item in ("cup", "plate", "spoon")]
    assert await asyncio.gather(*(run.result() for run in runs)) == ["CUP", "PLATE", "SPOON"]
    assert env.now() == START + timedelta(days=2)


async def test_several_environments_may_be_waited_for_at_once() -> None:
    later = START.replace(year=2030)
    async with Environment(workflows=[ship]) as one, Environment(workflows=[ship], start=later) as two:
        runs = [await env.start(ship, "cup") for env in (one, two)]
        assert await asyncio.gather(*(run.result() for run in runs)) == ["CUP", "CUP"]
        assert (one.now(), two.now()) == (START + timedelta(days=2), later + timedelta(days=2))


async def test_what_a_condition_raises_is_raised_where_it_is_waited_for(env: Environment) -> None:
    run = await env.start(ship, "cup")
    with pytest.raises(ZeroDivisionError):
        await run.wait(lambda _: 1 // 0)
    assert await run.result() == "CUP"


async def test_a_wait_that_is_cancelled_is_over(env: Environment) -> None:
    run = await env.start(ship, "cup")
    waiting = asyncio.create_task(run.wait(lambda state: state.get("never")))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert await run.result() == "CUP"


async def test_a_cancel_reaches_a_parked_run_and_a_running_step() -> None:
    begun = asyncio.Event()

    @activity
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    def order(ctx: Context, step: bool) -> Flow[None]:
        yield ctx.step(endless) if step else ctx.sleep(1000)

    async with Environment(workflows=[order]) as env:
        parked = await env.start(order, False)
        await parked.reached(Status.WAITING)
        assert await parked.cancel("no longer wanted")
        with pytest.raises(RunCancelled, match="no longer wanted"):
            await parked.result()
        running = await env.start(order, True)
        await begun.wait()
        assert await running.cancel()
        with pytest.raises(RunCancelled):
            await running.result()
        assert env.now() == START


async def test_a_signal_reaches_a_run_whose_step_is_under_way() -> None:
    begun = asyncio.Event()

    @activity
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    def order(ctx: Context) -> Flow[int]:
        return (yield from ctx.race(ctx.step(endless), ctx.signal(APPROVAL))).index

    async with Environment(workflows=[order]) as env:
        run = await env.start(order)
        await begun.wait()
        await run.send(APPROVAL, True)
        assert await run.result() == 1


async def test_a_step_that_waits_for_what_nothing_will_bring_loses_to_a_timer() -> None:
    @activity
    async def endless() -> None:
        await asyncio.get_running_loop().create_future()

    @workflow
    def order(ctx: Context) -> Flow[int]:
        return (yield from ctx.race(ctx.step(endless), ctx.sleep(60))).index

    async with Environment(workflows=[order]) as env:
        run = await env.start(order)
        assert await run.result() == 1
        assert env.now() == START + timedelta(minutes=1)


async def test_its_timeout_ends_such_a_step_at_its_time() -> None:
    @activity(timeout=30, retry=1)
    async def endless() -> None:
        await asyncio.get_running_loop().create_future()

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(endless)

    async with Environment(workflows=[order]) as env:
        with pytest.raises(RunFailed) as failed:
            await (await env.start(order)).result()
        assert isinstance(failed.value.__cause__, StepTimeout)
        assert env.now() == START + timedelta(seconds=30)


async def test_a_step_that_is_tried_again_beside_a_timer_is_let_run() -> None:
    @activity(timeout=30, retry=2)
    async def endless() -> None:
        await asyncio.get_running_loop().create_future()

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.race(ctx.step(endless), ctx.sleep(3600))

    async with Environment(workflows=[order]) as env:
        with pytest.raises(RunFailed, match="longer than its timeout"):
            await (await env.start(order)).result()
        assert env.now() == START + timedelta(seconds=30 + 1 + 30)


@pytest.mark.parametrize("how", ["timer", "thread", "sync"])
async def test_a_step_that_waits_for_something_real_is_waited_for_and_time_stands_still(how: str) -> None:
    released = threading.Event()
    threading.Timer(0.05, released.set).start()

    @activity(timeout=1)
    async def timer() -> str:
        await asyncio.sleep(0.05)
        return "timer"

    @activity(timeout=1)
    async def thread() -> str:
        await asyncio.to_thread(released.wait)
        return "thread"

    @activity(timeout=1)
    def sync() -> str:
        released.wait()
        return "sync"

    step: Any = {"timer": timer, "thread": thread, "sync": sync}[how]

    @workflow
    def order(ctx: Context) -> Flow[Any]:
        return (yield from ctx.race(ctx.step(step), ctx.sleep(10))).value

    async with Environment(workflows=[order]) as env:
        assert await (await env.start(order)).result() == how
        assert env.now() == START


async def test_replace_has_another_function_called_sync_or_async(env: Environment) -> None:
    calls: list[Any] = []

    def fake_charge(cents: int) -> str:
        calls.append((cents, current().idempotency_key))
        return "faked"

    async def fake_mail(to: str) -> str:
        return f"no {to}"

    env.replace(charge, fake_charge)
    env.replace(mail, fake_mail)
    run = await env.start(checkout, 5)
    assert (await run.result())[:4] == ["faked", False, "no mail", "no mail"] or calls
    assert [cents for cents, _ in calls] == [5]
    assert (await run.result())[2] == "no after 1"
    assert await (await env.start(mail, "ann")).result() == "no ann"
    env.replace(mail, lambda to: f"still no {to}")
    assert await (await env.start(mail, "bob")).result() == "still no bob"
    with pytest.raises(ConfigurationError, match="takes a function"):
        env.replace(mail, "no function")  # type: ignore[arg-type]  # that is what is refused


async def test_a_fake_may_fail_and_is_tried_again_as_the_activity_would_be(env: Environment) -> None:
    def broken(cents: int) -> str:
        raise ConnectionError(f"attempt {current().attempt}")

    env.replace(charge, broken)
    with pytest.raises(RunFailed, match="attempt 5"):
        await (await env.start(checkout, 5)).result()


async def test_it_serves_every_queue(env: Environment) -> None:
    run = await env.options(queue="elsewhere").start(mail, "ann")
    assert await run.result() == "mail to ann"


async def test_steps_see_the_clock_and_the_client(env: Environment) -> None:
    @activity
    async def looks(to: str) -> str:
        deadline = current().deadline
        assert deadline is not None
        assert abs(deadline - env.now() - timedelta(seconds=300)) < timedelta(seconds=30)
        run = await current().client.start(mail, str(to))
        return str(await run.result())

    env.replace(charge, looks)
    run = await env.start(checkout, 1)
    assert (await run.result())[0] == "mail to 1"


async def test_a_jump_of_time_fences_no_worker_and_burns_nothing(env: Environment) -> None:
    for _ in range(3):
        await env.advance(timedelta(days=365))
        run = await env.start(mail, "ann")
        assert await run.result() == "mail to ann"


async def test_children_of_a_terminated_run_are_cancelled() -> None:
    @workflow
    def parent(ctx: Context) -> Flow[str]:
        return (yield from ctx.child(ship, "cup"))

    async with Environment(workflows=[parent, ship]) as env:
        run = await env.start(parent)
        await run.reached(Status.WAITING)
        assert await env.terminate(run.id)
        [child] = [info for info in (await env.list()).items if info.parent_id == run.id]
        with pytest.raises(RunCancelled):
            await env.handle(child.id).result()


async def test_chance_is_the_same_in_each_environment() -> None:
    @workflow
    def dice(ctx: Context) -> Flow[list[Any]]:
        yield ctx.sleep(1)
        return [str(ctx.uuid()), ctx.random.random()]

    async def thrown() -> list[Any]:
        async with Environment(workflows=[dice]) as env:
            return [await (await env.start(dice)).result() for _ in range(2)]

    assert await thrown() == await thrown()
    first, second = await thrown()
    assert first != second


async def test_it_must_be_open_before_it_is_waited_for() -> None:
    env = Environment(workflows=[ship])
    with pytest.raises(ConfigurationError, match="not open"):
        await env.advance(1)


def test_importing_the_kit_does_not_import_pytest() -> None:
    code = "import sys, runnerq.testing; print('pytest' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "False"


@workflow
def waits_for_ever(ctx: Context) -> Flow[None]:
    yield from ctx.signal(APPROVAL)


async def test_a_thread_that_was_busy_before_the_test_is_not_waited_for() -> None:
    let_go, inside = threading.Event(), threading.Event()

    def busy() -> None:
        inside.set()
        let_go.wait(60)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(busy)
        inside.wait(30)
        try:
            async with Environment(workflows=[waits_for_ever]) as env:
                run = await env.start(waits_for_ever)
                with pytest.raises(ResultTimeout):
                    await run.result()
        finally:
            let_go.set()


async def test_a_step_that_waits_for_a_thread_of_a_librarys_own_is_waited_for() -> None:
    @activity
    async def asks_a_library() -> str:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def work() -> None:
            threading.Event().wait(0.05)
            loop.call_soon_threadsafe(answer.set_result, "answered")

        threading.Thread(target=work, daemon=True).start()
        return await answer

    @workflow
    def asks(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(asks_a_library))

    async with Environment(workflows=[asks]) as env:
        assert await (await env.start(asks)).result() == "answered"
        assert env.now() == START


async def test_an_environment_that_was_opened_on_another_loop_says_so(env: Environment) -> None:
    with pytest.raises(ConfigurationError, match="loop_scope"):
        await asyncio.to_thread(asyncio.run, env.advance(timedelta(seconds=1)))
