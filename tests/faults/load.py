"""The load: a process of its own that starts runs at a rate, signals them, and waits for all results.

``python -m tests.faults.load PLAN`` (JSON of ``Plan``). SIGTERM ends the starting; the process ends when it has seen
the end of every run that it was accepted, with exit code 0.

Rules
- A start or a send without an answer is repeated with the same key, until it is answered.
- It does not catch up: what could not be started while the storage was away is not started afterwards. Nor does it
  start more while too many are open, so that a slow machine shows as a lower rate and not as a growing heap.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.errors import RunCancelled, RunFailed, StorageUnavailable
from runnerq.persistence.postgres import PostgresStorage
from tests.faults.flows import APPROVAL, order, plus_one, shaky
from tests.faults.ledger import Ledger

T = TypeVar("T")

TICKS_OUT = 16
"""Ticks that may wait for an answer at the same time."""
MOST_OPEN, FEW = 1.5, 100
"""Seconds' worth of runs that may be open, and these: a machine that cannot keep up is given less, and the table shows
it. A run is open for a second or so by itself."""
LONGEST_SILENCE = 1.0
"""Seconds between a start and its signal, at most."""


class Plan(msgspec.Struct, frozen=True):
    """``rate`` runs a second in ticks of ``tick`` seconds, half of them orders."""

    dsn: str
    rate: float
    tick: float = 0.1


class Load:
    """Starts, signals, waits. ``stop`` ends the starting."""

    def __init__(self, client: Client, plan: Plan, ledger: Ledger) -> None:
        self._client = client
        self._plan = plan
        self._ledger = ledger
        self._stopped = asyncio.Event()
        self._number = 0
        self._owed = 0.0
        self._open = 0
        self._followed: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        self._stopped.set()

    async def run(self) -> None:
        """Return when every accepted run has ended."""
        places = asyncio.Semaphore(TICKS_OUT)
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as ticks:
            at = clock()
            while not self._stopped.is_set():
                await places.acquire()
                ticks.create_task(self._tick(places))
                at = max(at + self._plan.tick, clock() - 2 * self._plan.tick)
                await self._until(at)
        while self._followed:
            await asyncio.wait(self._followed, return_when=asyncio.FIRST_COMPLETED)

    async def _until(self, at: float) -> None:
        try:
            async with asyncio.timeout_at(at):
                await self._stopped.wait()
        except TimeoutError:
            return

    async def _tick(self, places: asyncio.Semaphore) -> None:
        try:
            if self._open > MOST_OPEN * self._plan.rate + FEW:
                return
            orders, simple, retried = self._shares()
            await asyncio.gather(
                self._start(order, orders[:1]),
                self._start(order, orders[1:]),
                self._start(plus_one, simple),
                self._start(shaky, retried),
            )
        finally:
            places.release()

    def _shares(self) -> tuple[list[int], list[int], list[int]]:
        """The numbers to start in this tick: every second one an order, the others activities, half of them shaky."""
        self._owed += self._plan.rate * self._plan.tick
        first, count = self._number, int(self._owed)
        self._number += count
        self._owed -= count
        numbers = range(first, first + count)
        rest = [number for number in numbers if number % 2]
        # Orders get odd and even numbers, too: one has a workflow as its child, the other an activity.
        orders = [number // 2 for number in numbers if number % 2 == 0]
        return orders, [n for n in rest if n % 4 == 1], [n for n in rest if n % 4 == 3]

    async def _start(self, target: Callable[..., Any], numbers: list[int]) -> None:
        if not numbers:
            return
        keys = [f"{target.__name__}-{number}" for number in numbers]
        self._ledger.write_all("asked", [(key,) for key in keys])
        handles = await answered(lambda: self._started(target, numbers, keys))
        self._ledger.write_all("accepted", [(key, run.id) for key, run in zip(keys, handles, strict=True)])
        self._open += len(handles)
        for run, number in zip(handles, numbers, strict=True):
            self._follow(self._see(run))
            if target is order:
                self._follow(self._sign(run, number))

    async def _started(self, target: Callable[..., Any], numbers: list[int], keys: list[str]) -> list[Handle[Any]]:
        if len(numbers) == 1:
            return [await self._client.options(key=keys[0]).start(target, numbers[0])]
        return await self._client.start_many(target, [(number,) for number in numbers], keys=keys)

    def _follow(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._followed.add(task)
        task.add_done_callback(self._followed.discard)

    async def _sign(self, run: Handle[Any], number: int) -> None:
        await asyncio.sleep(random.random() * LONGEST_SILENCE)
        await answered(lambda: run.send(APPROVAL, number, dedup="the one"))
        self._ledger.write("sent", run.id)

    async def _see(self, run: Handle[Any]) -> None:
        try:
            result, status = await answered(run.result), "completed"
        except (RunFailed, RunCancelled) as error:
            result, status = str(error), type(error).__name__
        self._open -= 1
        self._ledger.write("results", run.id, status, result)


async def answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer. Any other error is the load's end, and so the fault's."""
    pause = 0.05
    while True:
        try:
            return await ask()
        except StorageUnavailable as error:
            logging.getLogger("load").warning("no answer, asking again: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)


async def main(plan: Plan) -> int:
    broken: list[str] = []
    loop = asyncio.get_running_loop()

    def tell(_: object, context: dict[str, Any]) -> None:
        broken.append(str(context.get("exception") or context["message"]))
        logging.getLogger("load").error("%s", context, exc_info=context.get("exception"))

    loop.set_exception_handler(tell)
    async with Client(PostgresStorage(plan.dsn, migrate=False)) as client:
        load = Load(client, plan, Ledger.of_environment())
        loop.add_signal_handler(signal.SIGTERM, load.stop)
        print("ready", flush=True)
        await load.run()
    return 1 if broken else 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.exit(asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Plan))))
