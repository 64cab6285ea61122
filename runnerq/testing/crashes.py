"""``explore_crashes``: a worker dies at every commit of a run, before and after, and the run must end as it would have.

Rules
- The run is played once without a crash, which says how it ends and how many commits that takes; then once for each
  boundary, on a storage of its own, with the same id and the same chance.
- A worker that dies writes nothing more, its steps are cut off, and another takes over at once, with an empty cache.
- Time stands still in a crash, so that no timer can win a race only because a worker died.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, cast

import msgspec

from runnerq.client.client import Client
from runnerq.client.options import NO_OPTIONS
from runnerq.client.starting import new_run, target_of, template
from runnerq.errors import RunnerQError, StorageUnavailable
from runnerq.ids import derived_run_id
from runnerq.persistence.protocol import CommitUnclear, Storage, Work
from runnerq.persistence.records import Outcome, Turn, Verdict
from runnerq.retry import seconds
from runnerq.runtime.worker import Worker
from runnerq.serialization.chains import Codecs
from runnerq.serialization.failures import read
from runnerq.testing.client import StageClient, worker_of
from runnerq.testing.stage import START, NothingLeft
from runnerq.workflow.commands import Signal
from runnerq.workflow.declare import ActivityDeclaration, declaration_of

SignalIn: TypeAlias = "tuple[Signal[Any] | str, Any] | tuple[Signal[Any] | str, Any, float | timedelta]"

RUN_ID = derived_run_id(START, "explore_crashes")


class CrashReport(msgspec.Struct, frozen=True):
    """How the run ends (its result, or the error that ``result()`` raises), after how many crashes it was the same, and
    after how many of these each step ran twice."""

    result: Any
    crashes: int
    ran_twice: dict[str, int]


class Boundary(msgspec.Struct, frozen=True):
    """Where a worker dies: at the how many-th commit, and whether that is written."""

    commit: int
    written: bool
    cache: int

    def __str__(self) -> str:
        when = "after" if self.written else "before"
        return f"a crash {when} commit {self.commit}, with the cache {'on' if self.cache else 'off'}"


class _Mortal:
    """The storage of one worker, which dies at a boundary: that commit, and whatever else it asks, has no answer."""

    def __init__(self, storage: Storage, boundary: Boundary | None) -> None:
        self._storage = storage
        self._boundary = boundary
        self.commits = 0
        self.died_of: str | None = None

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        self.commits += 1
        boundary = self._boundary
        if boundary is None or boundary.commit != self.commits:
            return await self._alive("commit")(turns)  # type: ignore[no-any-return]  # of any method
        if boundary.written:
            await self._storage.commit(turns)
        self.died_of = f"{boundary} ({_described(turns)})"
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # it never returns

    async def transact(self, work: Work) -> Verdict:
        if self.died_of is not None:
            raise StorageUnavailable("this worker has died")
        verdict = await self._storage.transact(cast("Work", _MortalWork(work, self._before)))
        self._meet("a transaction", written=True)
        if self.died_of is not None:
            # It never hears of its commit.
            raise CommitUnclear(self.died_of)
        return verdict

    async def _before(self, turn: Turn) -> None:
        """A transaction is about to be committed."""
        self.commits += 1
        self._meet(_described([turn]), written=False)
        if self.died_of is not None:
            await asyncio.get_running_loop().create_future()

    def _meet(self, what: str, *, written: bool) -> None:
        """Die, if this is the boundary."""
        boundary = self._boundary
        here = boundary is not None and (boundary.commit, boundary.written) == (self.commits, written)
        if here and self.died_of is None:
            self.died_of = f"{boundary} ({what})"

    async def give_back(self, worker_id: int) -> int:
        return 0 if self.died_of is not None else await self._storage.give_back(worker_id)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)
        return self._alive(name) if inspect.iscoroutinefunction(found) else found

    def _alive(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*args: Any, **kwargs: Any) -> Any:
            if self.died_of is not None:
                raise StorageUnavailable("this worker has died")
            return await getattr(self._storage, name)(*args, **kwargs)

        return ask


class _MortalWork:
    """A transaction's work, with what is done before its commit."""

    def __init__(self, work: Work, before: Callable[[Turn], Awaitable[None]]) -> None:
        self.work = work
        self.before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)

    async def carry_out(self, connection: Any) -> Turn:
        turn = await self.work.carry_out(connection)
        await self.before(turn)
        return turn

    def committing(self) -> None:
        self.work.committing()


class _Mind(msgspec.Struct, frozen=True):
    """What a worker works for: a client's codec, and a storage of its own."""

    client: Client
    storage: Any

    @property
    def codec(self) -> Any:
        return self.client.codec

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


class _Played(msgspec.Struct, frozen=True):
    """How one play went. ``answer`` is what ``result()`` gives or raises, ``died_of`` where the worker died, if so."""

    outcome: Outcome | None
    answer: Any
    state: str | None
    commits: int
    died_of: str | None
    ran_twice: frozenset[str]

    def told(self) -> tuple[Any, ...]:
        """What must be the same each time."""
        if self.outcome is None:
            return "no end", str(self.answer)
        error = None if self.outcome.error is None else read(self.outcome.error)
        why = None if error is None else (error.type, error.message)
        return self.outcome.status, self.outcome.result, why, self.outcome.reason, self.state


async def explore_crashes(
    workflow: Callable[..., Any],
    /,
    *args: Any,
    activities: Iterable[Callable[..., Any]] = (),
    signals: Iterable[SignalIn] = (),
    reset: Callable[[], object] | None = None,
    codec: Codecs | None = None,
    connection: Any = None,
) -> CrashReport:
    """Crash a worker at every commit of this run, before and after it, with the cache on and off.

    ``activities`` are what it starts as children, workflows included. ``signals`` are (channel, value) pairs sent once
    it has started, or (channel, value, duration) sent so long after. ``reset`` is called before each play, to give what
    the steps touch its first state again. ``codec`` is what ``connect`` takes.
    ``connection`` is what functions of ``ctx.transaction`` are given; one that has transactions of its own is rolled
    back where a worker dies before the commit.

    Raises AssertionError, which names the boundary, if the run does not end each time as it does without a crash; and
    what ``result()`` raises of a run that is not deterministic, or blocked.
    """
    play = _Play(workflow, args, list(activities), list(signals), reset, codec, connection)
    without = await play.once(None, 0, watched=True)
    if without.outcome is None:
        raise without.answer
    crashes = 0
    ran_twice: Counter[str] = Counter()
    for cache in (100, 0):
        commits = (await play.once(None, cache)).commits
        for boundary in (Boundary(n, written, cache) for n in range(1, commits + 1) for written in (False, True)):
            played = await play.once(boundary, cache)
            if played.died_of is None:
                continue
            crashes += 1
            ran_twice.update(played.ran_twice)
            if played.told() != without.told():
                raise AssertionError(_differs(played, without))
    return CrashReport(without.answer, crashes, dict(ran_twice))


class _Play:
    """A run that is played again and again."""

    def __init__(
        self,
        workflow: Callable[..., Any],
        args: tuple[Any, ...],
        others: list[Callable[..., Any]],
        signals: list[SignalIn],
        reset: Callable[[], object] | None,
        codec: Codecs | None,
        connection: Any,
    ) -> None:
        self._workflow = workflow
        self._args = args
        self._activities = [fn for fn in others if isinstance(declaration_of(fn), ActivityDeclaration)]
        self._workflows = [workflow, *(fn for fn in others if fn not in self._activities)]
        self._signals = signals
        self._reset = reset
        self._codec = codec
        self._connection = connection

    async def once(self, boundary: Boundary | None, cache: int, *, watched: bool = False) -> _Played:
        """One play, on a stage of its own; ``watched`` drives each turn again."""
        if self._reset is not None:
            self._reset()
        async with StageClient(codec=self._codec) as client:
            client.stage.storage.connection = self._connection
            if watched:
                client.watch(self._workflows, self._activities)
            return await _Scene(self, client, boundary, cache).play()

    def worker(self, client: StageClient, storage: Any, cache: int) -> Worker:
        return worker_of(_Mind(client, storage), client.stage, self._workflows, self._activities, cache)

    async def start(self, client: StageClient) -> None:
        target = target_of(self._workflow)
        run = new_run(template(target, NO_OPTIONS), client.codec, self._args, {}, None)
        await client.storage.start([msgspec.structs.replace(run, id=RUN_ID)])

    def returns(self) -> Any:
        return target_of(self._workflow).returns

    def mail(self, now: datetime) -> list[tuple[datetime, Signal[Any] | str, Any]]:
        """What is to be sent, and when, the first first."""
        mail: list[tuple[datetime, Signal[Any] | str, Any]] = []
        for one in self._signals:
            after = seconds(one[2], "signals") if len(one) == 3 else 0.0
            mail.append((now + timedelta(seconds=after), one[0], one[1]))
        return sorted(mail, key=lambda each: each[0])


class _Scene:
    """One play: its worker dies at most once, and then another takes over."""

    def __init__(self, play: _Play, client: StageClient, boundary: Boundary | None, cache: int) -> None:
        self._play = play
        self._client = client
        self._cache = cache
        self._mortal = _Mortal(client.storage, boundary)
        self._survived = False
        self._running: asyncio.Task[None] | None = None

    async def play(self) -> _Played:
        client, stage = self._client, self._client.stage
        worker = self._enter(self._mortal)
        try:
            await self._play.start(client)
            outcome, answer = await self._to_the_end(worker)
        finally:
            await self._leave()
        twice = frozenset(name for (_, name), calls in stage.calls.items() if calls > 1)
        state = await client.storage.state(RUN_ID)
        return _Played(outcome, answer, state, self._mortal.commits, self._mortal.died_of, twice)

    async def _to_the_end(self, worker: Worker) -> tuple[Outcome | None, Any]:
        stage = self._client.stage
        mail = self._play.mail(stage.now())
        while True:
            within = (mail[0][0] - stage.now()).total_seconds() if mail else None
            try:
                found = await stage.until(self._look, within)
            except NothingLeft:
                return None, await self._answer(None)
            except RunnerQError as error:
                return None, error
            if found is None:
                _, channel, value = mail.pop(0)
                await self._client.send(RUN_ID, channel, value)
            elif isinstance(found, Outcome):
                return found, await self._answer(0)
            else:
                self._survived = True
                await self._leave()
                stage.storage.crash(_id_of(worker))
                worker = self._enter(self._client.storage)

    async def _look(self) -> Outcome | str | None:
        outcome = await self._client.came_to_an_end(RUN_ID)
        return outcome if outcome is not None or self._survived else self._mortal.died_of

    async def _answer(self, timeout: float | None) -> Any:
        try:
            return await self._client.handle(RUN_ID, self._play.returns()).result(timeout)
        except RunnerQError as error:
            return error

    def _enter(self, storage: Any) -> Worker:
        worker = self._play.worker(self._client, storage, self._cache)
        self._running = asyncio.create_task(worker.run(), name="runnerq-mortal-worker")
        return worker

    async def _leave(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait({running})


def _id_of(worker: Worker) -> int:
    if worker.worker_id is None:
        raise AssertionError("a worker died before it had registered")
    return worker.worker_id


def _described(turns: Sequence[Turn]) -> str:
    said = [_turn(turn) for turn in turns]
    return "; ".join(said)


def _turn(turn: Turn) -> str:
    rows = [f"{row.kind} {row.position}".rstrip() for row in turn.rows]
    return ", ".join([*rows, type(turn.move).__name__.lower()])


def _differs(played: _Played, without: _Played) -> str:
    return (
        f"{played.died_of}: the run ends as {played.told()}, and without a crash as {without.told()}. "
        f"Steps that ran twice: {', '.join(sorted(played.ran_twice)) or 'none'}; a step that may run twice must do no "
        "harm, for example by passing on rq.current().idempotency_key"
    )
