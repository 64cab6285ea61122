"""``on_dead_letter=``: what is queued when a run becomes a dead letter, whoever made it one."""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.clock import ManualClock
from runnerq.errors import ConfigurationError, NonRetryableError, RunFailed, StorageUnavailable
from runnerq.ids import new_token
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Claimed, End, Reaped, Renew, RunFilter, Status, Turn, Verdict, WorkerRow
from runnerq.retry import RetryPolicy
from runnerq.runtime.apart import Apart
from runnerq.runtime.dead_letters import DeadLetter, hook_in
from runnerq.runtime.registry import Registry
from runnerq.runtime.worker import Worker
from runnerq.runtime.writer import Writer
from runnerq.serialization.codec import Codec
from runnerq.serialization.encryption import Encryption
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from runnerq.workflow.journal import Row
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon
from tests.runtime.test_leases import haunt

TWICE = RetryPolicy(max_attempts=2, base=0)


class Told:
    """An activity that is told of dead letters, and what it was told."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.gate = Gate()
        told = self

        @activity
        async def alert(letter: DeadLetter) -> None:
            told.letters.append(letter)
            told.gate.come.set()

        self.alert = alert

    async def the_first(self) -> DeadLetter:
        await self.gate.somebody()
        return self.letters[0]


async def failing(run: Any) -> RunFailed:
    with pytest.raises(RunFailed) as failed:
        await run.result(timeout=SOON)
    return failed.value


async def hooks(stage: Stage) -> list[Any]:
    """The runs of ``alert``, newest first."""
    return list((await stage.client.list(RunFilter(workflow="alert", queue=stage.queue))).items)


async def test_an_activity_whose_attempts_are_used_up_queues_it_with_all_there_is_to_tell(plain_stage: Stage) -> None:
    told = Told()

    @activity(retry=TWICE, on_dead_letter=told.alert)
    async def charge(order: str, *, cents: int) -> None:
        raise ValueError(f"{order} costs {cents}")

    async with plain_stage.serving(charge, told.alert) as client:
        run = await client.start(charge, "book", cents=5)
        assert (await failing(run)).reason == "attempts"
        letter = await told.the_first()
    assert (letter.run_id, letter.name, letter.attempts, letter.reason) == (run.id, "charge", 2, "attempts")
    assert letter.input == {"args": ["book"], "kwargs": {"cents": 5}}
    assert letter.error is not None
    assert (letter.error.type, letter.error.message) == ("ValueError", "book costs 5")


async def test_it_is_a_run_of_its_own_in_the_dead_ones_queue(plain_stage: Stage) -> None:
    told = Told()

    @activity(retry=1, on_dead_letter="alert")
    async def charge() -> None:
        raise ValueError

    async with plain_stage.serving(charge, told.alert) as client:
        run = await client.start(charge)
        await failing(run)
        await told.the_first()
        [hook] = await hooks(plain_stage)
    assert hook.parent_id is None
    assert hook.root_id == hook.id != run.id
    assert hook.queue == plain_stage.queue
    assert hook.priority == (await run.info()).priority


@pytest.mark.parametrize("how", ["a step", "a child", "an undo"])
async def test_a_workflow_queues_it_whatever_made_it_a_dead_letter(plain_stage: Stage, how: str) -> None:
    told = Told()

    @activity(retry=TWICE)
    async def charge() -> None:
        raise ValueError("declined")

    async def give_up() -> None:
        raise NonRetryableError("no")

    @workflow(on_dead_letter=told.alert)
    def order(ctx: Context, how: str) -> Flow[None]:
        if how == "a step":
            yield from ctx.step(charge)
        elif how == "a child":
            yield from ctx.child(charge)
        else:
            ctx.compensate(charge)
            yield from ctx.step(give_up)

    async with plain_stage.serving(order, charge, told.alert) as client:
        run = await client.start(order, how)
        assert (await failing(run)).status == Status.DEAD_LETTER
        letter = await told.the_first()
    assert (letter.run_id, letter.name, letter.input) == (run.id, "order", [how])
    assert letter.reason == ("undo_failed" if how == "an undo" else "attempts")
    # Of the step that it failed by, or of the child: one that gave up had one.
    assert letter.attempts == (1 if how == "an undo" else 2)


async def test_a_run_that_only_failed_or_was_cancelled_queues_nothing(plain_stage: Stage) -> None:
    told = Told()

    @activity(on_dead_letter=told.alert)
    async def charge() -> None:
        raise NonRetryableError("no")

    @workflow(on_dead_letter=told.alert)
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.step(charge)

    async with plain_stage.serving(order, charge, told.alert) as client:
        for fn in (charge, order):
            assert (await failing(await client.start(fn))).status == Status.FAILED
        late = await client.options(delay=100).start(order)
        await client.cancel(late.id)
        assert await hooks(plain_stage) == []


async def test_a_step_that_is_an_activity_with_a_hook_of_its_own_is_its_workflows_affair(memory: Stage) -> None:
    told = Told()

    @activity(retry=1, on_dead_letter=told.alert)
    async def charge() -> None:
        raise ValueError

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.step(charge)

    async with memory.serving(order, charge, told.alert) as client:
        assert (await failing(await client.start(order))).status == Status.DEAD_LETTER
        assert await hooks(memory) == []


class Doubtful(Tapped):
    """Loses the reply of the first commit that ends a run, so that it is sent again."""

    lost = 0

    async def commit(self, turns: Any) -> list[Verdict]:
        verdicts = await super().commit(turns)
        if not self.lost and any(isinstance(turn.move, End) and turn.move.status == "dead_letter" for turn in turns):
            self.lost += 1
            raise StorageUnavailable("the reply is lost")
        return verdicts


async def test_an_end_that_is_sent_again_queues_it_once(plain_stage: Stage) -> None:
    told = Told()
    doubtful = Doubtful(plain_stage.storage)
    stage = plain_stage.on(doubtful)

    @activity(retry=1, on_dead_letter=told.alert)
    async def charge() -> None:
        raise ValueError

    async with stage.serving(charge, told.alert) as client:
        run = await client.start(charge)
        await failing(run)
        await told.the_first()
        assert doubtful.lost == 1
        assert len(await hooks(plain_stage)) == 1
    assert len([turn for turn in doubtful.turns_of(run.id) if turn.children]) == 2


async def test_a_run_that_is_redriven_and_dies_again_queues_another(plain_stage: Stage) -> None:
    told = Told()

    @activity(retry=1, on_dead_letter=told.alert)
    async def charge() -> None:
        raise ValueError

    async with plain_stage.serving(charge, told.alert) as client:
        run = await client.start(charge)
        await failing(run)
        assert await client.redrive(run.id) == 1
        await soon(lambda: len(told.letters) == 2)
        assert {letter.run_id for letter in told.letters} == {run.id}
        assert len(await hooks(plain_stage)) == 2


async def test_a_hook_is_queued_where_it_is_declared_to_run_with_the_priority_it_is_declared_with(
    memory: Stage,
) -> None:
    @activity(queue="alerts", priority=0)
    async def page(letter: DeadLetter) -> None: ...

    @activity(retry=1, on_dead_letter=page)
    async def charge() -> None:
        raise ValueError

    async with memory.serving(charge) as client:
        await failing(await client.start(charge))
        [hook] = (await client.list(RunFilter(workflow="page"))).items
    assert (hook.queue, hook.priority) == ("alerts", 0)
    assert hook.status is Status.PENDING


async def test_an_input_that_cannot_be_carried_is_left_out_and_the_hook_is_not(
    memory: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()

    @activity(retry=1, on_dead_letter=told.alert)
    async def load(text: str) -> None:
        raise ValueError("x" * 300)

    client = Client(memory.storage, payload_limit=1000).options(queue=memory.queue)
    async with Worker(client, activities=[load, told.alert], queues=[memory.queue], build="tests"):
        await failing(await client.start(load, "y" * 900))
        letter = await told.the_first()
    assert letter.input is None
    assert letter.error is not None
    assert letter.error.message == "x" * 300
    assert "its on_dead_letter= activity is not told the input" in caplog.text


async def test_a_hook_that_fails_is_a_dead_letter_like_another_and_may_have_its_own(memory: Stage) -> None:
    told = Told()

    @activity(retry=1, on_dead_letter=told.alert)
    async def page(letter: DeadLetter) -> None:
        raise ValueError("no signal")

    @activity(retry=1, on_dead_letter=page)
    async def charge() -> None:
        raise ValueError("declined")

    async with memory.serving(charge, page, told.alert) as client:
        run = await client.start(charge)
        await failing(run)
        letter = await told.the_first()
    assert letter.name == "page"
    assert letter.input[0]["run_id"] == run.id


# --- crashes ----------------------------------------------------------------------------------------------------------


def hooked(alert: Any) -> Any:
    """A workflow that ends its workers, and names a hook."""

    @workflow(on_dead_letter=alert)
    def order(ctx: Context, name: str) -> Flow[str]:
        return (yield from ctx.signal("words"))

    return order


@pytest.mark.parametrize("generation", [1, 2])
async def test_a_run_that_crashes_again_and_again_queues_it_by_what_its_own_workers_have_written(
    generation: int,
) -> None:
    clock = ManualClock()
    stage = Stage(MemoryStorage(clock))
    told = Told()
    order = hooked(told.alert)
    await stage.storage.register(a_ghost(stage), Registry([order], []).definitions("x"))
    # The worker that ends it knows nothing of the workflow.
    async with stage.base, stage.worker(told.alert, reaper_interval=0.01, beat=0.02):
        run = await stage.client.start(order, "Ada")
        for crash in range(5):
            claim = await haunt(stage, "order@1", lease=1)
            if generation == 2 and crash == 0:
                await renew(stage, claim.runs[0])
            clock.advance(2)
            if crash < 4:
                await run.reached(Status.PENDING, Status.RETRYING, timeout=SOON)
                clock.advance(8)
                await stage.storage.wake_due(1)
        await run.reached(Status.DEAD_LETTER, timeout=SOON)
        letter = await told.the_first()
        assert len(await hooks(stage)) == 1
    assert (letter.run_id, letter.name, letter.input) == (run.id, "order", ["Ada"])
    assert (letter.reason, letter.attempts, letter.error) == ("crash_loop", 5, None)


async def test_the_reaper_queues_it_on_postgres_too(postgres: Stage, shared_database: str) -> None:
    stage = postgres
    told = Told()
    order = hooked(told.alert)
    await stage.storage.register(a_ghost(stage), Registry([order], []).definitions("x"))
    run = await stage.client.start(order, "Ada")
    assert (await haunt(stage, "order@1", lease=0.05)).runs
    connection = await asyncpg.connect(shared_database)
    await connection.execute("update runnerq.live set crashes = 4 where run_id = $1", run.id)
    await connection.close()
    async with stage.worker(told.alert, reaper_interval=0.05, beat=0.05):
        letter = await told.the_first()
    assert (letter.run_id, letter.reason, letter.attempts) == (run.id, "crash_loop", 5)


async def test_a_run_that_cannot_be_ended_while_the_storage_is_away_is_given_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()

    class Away(Tapped):
        async def definitions(self, name: str | None = None) -> Any:
            raise StorageUnavailable("no answer")

    stage = Stage(MemoryStorage(clock))
    told = Told()
    async with stage.base, stage.on(Away(stage.storage)).worker(told.alert, reaper_interval=0.01, beat=0.02):
        run = await stage.client.start(hooked(told.alert), "Ada")
        assert (await haunt(stage, "order@1", lease=1)).runs
        with stage.storage.writing() as (book, _):  # type: ignore[attr-defined]
            book.open[run.id].crashes = 4
        clock.advance(2)
        await run.reached(Status.PENDING, timeout=SOON)
        await soon(lambda: "could not be ended" in caplog.text)


async def test_what_is_written_of_a_function_and_cannot_be_read_keeps_no_run_from_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    stage = Stage(MemoryStorage(clock))
    told = Told()
    order = hooked(told.alert)
    [known] = Registry([order], []).definitions("x")
    strange = msgspec.structs.replace(known, options='{"on_dead_letter": [1]}')
    await stage.storage.register(a_ghost(stage), [strange])
    async with stage.base, stage.worker(told.alert, reaper_interval=0.01, beat=0.02):
        run = await stage.client.start(order, "Ada")
        assert (await haunt(stage, "order@1", lease=1)).runs
        with stage.storage.writing() as (book, _):  # type: ignore[attr-defined]
            book.open[run.id].crashes = 4
        clock.advance(2)
        await run.reached(Status.DEAD_LETTER, timeout=SOON)
        assert await hooks(stage) == []
    assert "what is to be told of its end cannot be read" in caplog.text


def a_ghost(stage: Stage) -> WorkerRow:
    return WorkerRow(
        id=new_token(), lease=60, host="nowhere", pid=1, build="x", queues=(stage.queue,), served=("order@1",)
    )


async def renew(stage: Stage, claimed: Claimed) -> None:
    """Have the run go on in its next generation."""
    started = Row(0, "started", "", claimed.created_at, '{"seed": "s", "build": "x"}')
    first = Row(0, "started", "", claimed.created_at, '{"seed": "s", "build": "x"}')
    turn = Turn(run_id=claimed.id, token=claimed.token, seen=claimed.seen, rows=(first,), move=Renew(started=started))
    assert await stage.storage.commit([turn]) == [Verdict.DONE]


def test_what_the_workers_have_written_of_a_function_names_its_hook() -> None:
    told = Told()

    @workflow(version=2, on_dead_letter=told.alert)
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.sleep(1)

    @activity(on_dead_letter="elsewhere")
    async def charge() -> None: ...

    definitions = Registry([order], [charge, told.alert]).definitions("b")
    hook = hook_in(definitions, "workflow", 2)
    assert hook is not None
    assert hook.name == "alert"
    assert hook_in(definitions, "workflow", 1) is None
    other = hook_in(definitions, "activity", 0)
    assert other is not None
    assert other.name == "elsewhere"


# --- what is refused --------------------------------------------------------------------------------------------------


def test_an_activity_cannot_name_itself() -> None:
    with pytest.raises(ConfigurationError, match="'charge' names itself as on_dead_letter="):

        @activity(on_dead_letter="charge")
        async def charge() -> None: ...


@pytest.mark.parametrize("hook", [7, lambda: None, "", "a@2"])
def test_what_is_no_activity_cannot_be_named(hook: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_dead_letter="):

        @workflow(on_dead_letter=hook)
        def order(ctx: Context) -> Flow[None]:
            yield from ctx.sleep(1)


def test_a_workflow_cannot_be_named() -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.sleep(1)

    with pytest.raises(ConfigurationError, match="expected a function that is decorated with @activity"):
        activity(on_dead_letter=order)(lambda: None)

    @activity(on_dead_letter="order")
    async def charge() -> None: ...

    with pytest.raises(ConfigurationError, match="'charge' names 'order' as on_dead_letter=, which is a workflow"):
        Registry([order], [charge])


def test_hooks_that_come_round_to_themselves_are_refused() -> None:
    @activity(on_dead_letter="b")
    async def a() -> None: ...

    @activity(on_dead_letter="c")
    async def b() -> None: ...

    @activity(on_dead_letter="a")
    async def c() -> None: ...

    @workflow(on_dead_letter="a")
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.sleep(1)

    with pytest.raises(ConfigurationError, match="comes round to itself: a -> b -> c -> a"):
        Registry([order], [a, b, c])
    assert len(Registry([order], [a, b])) == 3


def test_a_dead_letter_reads_back_as_it_was_written() -> None:
    letter = DeadLetter(run_id="r", name="n", input=[1, {"a": None}], error=None, attempts=3, reason="attempts")
    codec = Codec()
    assert codec.decode(codec.encode(letter, "it"), DeadLetter, "it") == letter


async def test_a_run_whose_input_cannot_be_read_here_is_left_to_a_worker_that_can_tell_its_hook(memory: Stage) -> None:
    keys = Client(memory.storage, codec=Encryption({"a": bytes(32)}, "a"))
    order = hooked(Told().alert)
    sealed = await keys.options(queue=memory.queue).start(order, "Ada")
    plain = await memory.client.start(order, "Ada")
    await memory.storage.register(a_ghost(memory), Registry([order], []).definitions("x"))
    apart = Apart(memory.storage, Writer(memory.storage, 1, pytest.fail), Codec())
    await apart.end_crash_loops(
        [
            Reaped(run_id=sealed.id, name="order", crashes=5, token=7),
            Reaped(run_id=plain.id, name="order", crashes=5, token=8),
        ]
    )
    assert list(apart.tokens) == [8]


async def test_of_runs_that_crash_again_and_again_none_is_ended_where_one_cannot_be_read(memory: Stage) -> None:
    class Half(Tapped):
        read = 0

        async def run(self, run_id: str) -> Any:
            self.read += 1
            if self.read == 2:
                raise StorageUnavailable("no answer")
            return await self._storage.run(run_id)

    half = Half(memory.storage)
    runs = [await memory.client.start(hooked(Told().alert), "Ada") for _ in range(2)]
    apart = Apart(half, Writer(half, 1, pytest.fail), Codec())
    reaped = [Reaped(run_id=run.id, name="order", crashes=5, token=7) for run in runs]
    with pytest.raises(StorageUnavailable):
        await apart.end_crash_loops(reaped)
    assert list(apart.tokens) == []
    await apart.end_crash_loops(reaped)
    assert list(apart.tokens) == [7]
