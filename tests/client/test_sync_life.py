"""The client for code without an event loop: threads, signals, forks, its end, and event loops beside it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.client.sync import loops
from runnerq.client.sync.client import SyncClient
from runnerq.errors import SchemaError, StorageUnavailable, UsageError
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Status
from runnerq.runtime.current import current
from runnerq.runtime.worker import Worker
from runnerq.testing import Environment
from runnerq.workflow.declare import activity
from tests.client.serving import SOON, cursor_of, telling
from tests.client.shop import APPROVAL, ORDER, Shipment, checkout, mail, resize

ROOT = Path(__file__).parents[2]
NOWHERE = "postgresql://postgres@127.0.0.1:1/nowhere"


@pytest.fixture
def client(served: str) -> Iterator[SyncClient]:
    with SyncClient(served) as client:
        yield client


def soon(holds: Callable[[], object]) -> None:
    """Return once it holds; for what sends no event."""
    until = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.001)


# --- threads ----------------------------------------------------------------------------------------------------------


def test_threads_share_a_client_that_the_first_of_them_opens(served: str) -> None:
    client = SyncClient(served)

    def buy(number: int) -> tuple[str, Any]:
        run = client.options(key=f"bought {number}").start(checkout, ORDER)
        run.send(APPROVAL, True)
        return run.id, run.result(timeout=SOON)

    with ThreadPoolExecutor(16) as threads:
        bought = list(threads.map(buy, range(64)))
    client.close()
    assert len({run_id for run_id, _ in bought}) == 64
    assert {result for _, result in bought} == {Shipment("cup")}


def test_arguments_are_gone_through_in_the_callers_thread_and_its_context_is_carried(client: SyncClient) -> None:
    seen: list[object] = []
    who = ContextVar("who", default="nobody")

    def numbers() -> Iterator[tuple[int]]:
        seen.append(threading.current_thread())
        yield from [(1,), (2,)]

    runs = client.start_many(resize, numbers(), keys=iter(["one", "two"]))
    assert ([run.info().key for run in runs], seen) == (["one", "two"], [threading.current_thread()])
    who.set("me")
    assert client.start(telling).wait(lambda state: state and seen.append(who.get()) is None, timeout=SOON)
    assert seen[1:] == ["me"]


class Enough(Exception):
    """What a signal's handler raises."""


def enough() -> None:
    raise Enough


@contextmanager
def handled(handle: Callable[[], object]) -> Iterator[None]:
    """What this process does at the signal."""

    def handler(number: int, frame: FrameType | None) -> None:
        handle()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def interrupted_once(holds: Callable[[], object], handle: Callable[[], object] = enough) -> Iterator[None]:
    """A signal that is handled in this thread, as soon as it holds."""

    def interrupt() -> None:
        soon(holds)
        os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=interrupt)
    with handled(handle):
        thread.start()
        try:
            yield
        finally:
            thread.join()


def test_what_ends_the_wait_cancels_the_call(client: SyncClient) -> None:
    """As Ctrl-C does, and a web server's signal to a worker that takes too long."""
    run = client.options(queue="unserved").start(checkout, ORDER)
    hub = client._asked._core.hub
    with interrupted_once(lambda: run.id in hub._awaited), pytest.raises(Enough):
        run.result()
    soon(lambda: not hub._awaited)
    assert run.status() is Status.PENDING


def test_a_signals_handler_may_call_it_while_a_call_is_handed_over(
    client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = client.options(queue="unserved").start(checkout, ORDER)
    hand_over, seen = loops._handed_over, []

    def handed_over_as_the_signal_comes(call: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGUSR1)
        return hand_over(call, loop)

    with handled(lambda: seen.append(run.status())):
        monkeypatch.setattr(loops, "_handed_over", handed_over_as_the_signal_comes)
        assert run.status() is Status.PENDING
    assert seen == [Status.PENDING]


def test_a_signals_handler_may_call_it_wherever_it_interrupts_a_call(client: SyncClient) -> None:
    """A handler runs between two steps of the interpreter: here at each line of one call, one after the other."""
    seen: list[int] = []

    def at_each_line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            seen.append(client.count())
        return at_each_line

    before = sys.gettrace()
    sys.settrace(at_each_line)
    try:
        counted = client.count()
    finally:
        sys.settrace(before)
    assert (set(seen), len(seen) > 10) == ({counted}, True)


def test_a_signals_handler_may_close_it_while_a_call_is_handed_over(
    served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SyncClient(served)
    client.open()
    loop: Any = client._asked._core.loop

    def handed_over_as_the_signal_comes(call: Callable[..., object], *arguments: Any, **more: Any) -> object:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGUSR1)
        # As if it came once the loop had seen that it is not closed.
        loop._ready.append(asyncio.Handle(call, arguments, loop))
        return None

    monkeypatch.setattr(loop, "call_soon_threadsafe", handed_over_as_the_signal_comes)
    with handled(client.close), pytest.raises(UsageError, match="has ended"):
        client.stats()
    assert waiting_threads() == []


def test_a_signals_handler_that_calls_it_while_it_opens_is_told_so() -> None:
    client = SyncClient(NOWHERE)
    with interrupted_once(waiting_threads, client.stats), pytest.raises(UsageError, match="is being opened or closed"):
        client.start(mail, "me")
    soon(lambda: not waiting_threads())


def test_it_cannot_be_called_where_it_would_wait_for_itself(client: SyncClient) -> None:
    run = client.start(telling)
    with pytest.raises(UsageError, match="its own background thread"):
        run.wait(lambda state: client.info(run.id), timeout=SOON)


def test_it_joins_no_transaction(client: SyncClient) -> None:
    with pytest.raises(UsageError, match="cannot join a transaction"):
        client.options(connection=object())


# --- its life ---------------------------------------------------------------------------------------------------------


def waiting_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "runnerq-sync-client"]


def test_whoever_waits_as_it_is_closed_is_told_so(served: str) -> None:
    client = SyncClient(served)
    run = client.options(queue="unserved").start(checkout, ORDER)
    hub = client._asked._core.hub
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(run.result)
        following = threads.submit(list, client.events())
        soon(lambda: run.id in hub._awaited and hub._followers)
        client.close()
        with pytest.raises(StorageUnavailable, match="closed while this was waited for"):
            waiting.result(SOON)
        following.result(SOON)
    assert waiting_threads() == []


def test_once_closed_it_says_so_until_it_is_opened_again(served: str) -> None:
    client = SyncClient(served)
    with client:
        run = client.options(queue="unserved").start(checkout, ORDER)
        events = client.events(cursor_of(client))
        next(events)
    with pytest.raises(UsageError, match="open it again"):
        run.status()
    assert list(events) == []
    with client:
        assert run.status() is Status.PENDING
    client.close()
    assert waiting_threads() == []


def test_threads_may_close_and_open_it_at_once(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = SyncClient(served)
    client.open()
    core, close = client._asked._core, client._asked._core.close
    with ThreadPoolExecutor(2) as threads:
        opening: list[Future[None]] = []

        async def close_slowly() -> None:
            opening.append(threads.submit(client.open))
            # It has all the time that it would need, if it did not wait for this to end.
            for _ in range(300):
                await asyncio.sleep(0 if opening[0].done() else 0.001)
            assert not opening[0].done()
            await close()

        monkeypatch.setattr(core, "close", close_slowly)
        client.close()
        monkeypatch.undo()
        opening[0].result(SOON)
    assert client.stats().workers
    client.close()
    assert waiting_threads() == []


def test_one_that_cannot_be_opened_says_so_each_time_and_leaves_no_thread(served: str) -> None:
    client = SyncClient(served, schema="missing", migrate=False)
    for _ in range(2):
        with pytest.raises(SchemaError):
            client.start(mail, "me")
    assert waiting_threads() == []


def test_what_ends_the_wait_for_a_server_that_does_not_answer_leaves_no_thread() -> None:
    client = SyncClient(NOWHERE)
    with interrupted_once(waiting_threads), pytest.raises(Enough):
        client.start(mail, "me")
    soon(lambda: not waiting_threads())


class Deaf(MemoryStorage):
    """Its open hears no cancel until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.opening, self.let_go = threading.Event(), threading.Event()

    async def open(self) -> None:
        self.opening.set()
        while not self.let_go.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)


def test_a_thread_that_does_not_end_is_left_behind_and_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loops, "LINGERING", 0.01)
    storage = Deaf()
    asked = Client(storage)
    client = SyncClient._sharing(asked, loops.OwnLoop(asked))
    with interrupted_once(storage.opening.is_set), pytest.raises(Enough):
        client.stats()
    assert "is left behind" in caplog.text
    storage.let_go.set()
    soon(lambda: not waiting_threads())


def test_one_that_nobody_holds_any_more_is_closed(served: str) -> None:
    client = SyncClient(served)
    client.stats()
    [thread] = waiting_threads()
    del client
    gc.collect()
    thread.join(SOON)
    assert not thread.is_alive()


def in_a_process(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


LEFT_OPEN = """
import sys
import runnerq as rq
client = rq.SyncClient(sys.argv[1])
print(client.options(queue="unserved").start("mail", "me").status())
"""


def test_a_process_that_exits_leaves_in_order(served: str) -> None:
    done = in_a_process(LEFT_OPEN, served)
    assert (done.stdout, done.stderr, done.returncode) == ("pending\n", "", 0)


FORKED = """
import os, sys
import runnerq as rq
client = rq.SyncClient(sys.argv[1]).options(queue="unserved")
run = client.start("mail", "of the parent")
client.queues.list()
for nth in range(3):
    pid = os.fork()
    if pid == 0:
        assert nth == 2 or run.status() == "pending"
        print("child", flush=True)
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    client.list(), client.queues.list(), client.start("mail", "of the parent again"), run.status()
print("parent", flush=True)
"""


def test_a_process_made_by_fork_opens_its_own_and_leaves_the_parents_alone(served: str) -> None:
    """Two of the children call it, and one exits without; each tears down at its exit what it has."""
    done = in_a_process(FORKED, served)
    assert (done.stdout, done.returncode) == ("child\nchild\nchild\nparent\n", 0), done.stderr


# --- beside an event loop ---------------------------------------------------------------------------------------------


@activity
def hand_out(count: int) -> list[str]:
    """A sync activity, in a thread of its worker."""
    client = SyncClient.of(current().client)
    return [client.start(mail, str(number)).id for number in range(count)]


def test_what_it_is_opened_with_is_imported_where_it_is_made() -> None:
    """A fork while the loop's thread imports would leave the child with a lock that nobody gives back."""
    made = f"import sys, runnerq; runnerq.SyncClient({NOWHERE!r}); sys.exit('asyncpg' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", made], cwd=ROOT, timeout=120, check=False).returncode == 0


async def test_a_sync_activity_starts_children_through_its_workers_client(served: str) -> None:
    async with connect(served) as client:
        there = client.options(queue="handing out")
        async with Worker(there, activities=[hand_out], queues=["handing out"], build="tests"):
            run = await there.start(hand_out, 2)
            children = await run.result(timeout=SOON)
        assert [node.id for node in (await client.tree(run.id)).children] == children


def view(client: SyncClient) -> Shipment:
    """What a web application does in a thread."""
    run = client.start(checkout, ORDER)
    run.reached(Status.WAITING)
    run.send(APPROVAL, True)
    return run.result()


async def test_sync_code_is_tested_with_an_environment() -> None:
    async with Environment(workflows=[checkout]) as env:
        assert await asyncio.to_thread(view, SyncClient.of(env)) == Shipment("cup")


async def test_the_verbs_of_an_open_client_are_for_other_threads_while_it_is_open() -> None:
    client = Client(MemoryStorage())
    lent = SyncClient.of(client)
    with pytest.raises(UsageError, match="not open"):
        lent.stats()
    async with client:
        with pytest.raises(UsageError, match="would wait here for ever"):
            lent.stats()
        assert (await asyncio.to_thread(lent.stats)).workers == ()
        with pytest.raises(UsageError, match="somebody has opened"):
            lent.open()
        with pytest.raises(UsageError, match="closes it"):
            lent.close()
    with pytest.raises(UsageError, match="not open"):
        lent.stats()


def test_a_call_that_its_event_loop_did_not_come_to_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LOOK_UP", 0.01)
    handed_over = threading.Event()

    class Loop(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
            handle = super().call_soon_threadsafe(*args, **kwargs)
            handed_over.set()
            return handle

    loop, client = Loop(), Client(MemoryStorage())
    loop.run_until_complete(client.open())
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(SyncClient.of(client).stats)
        assert handed_over.wait(SOON)
        loop.close()
        with pytest.raises(StorageUnavailable, match="closed while this was waited for"):
            asked.result(SOON)
