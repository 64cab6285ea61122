"""Signals and cancels that workflows send: until the storage answers, and each told what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runnerq.errors import SchemaError, StorageRefused, StorageUnavailable
from runnerq.persistence.records import NewSignal, Sent
from runnerq.runtime.effects import Effects

SIGNAL = NewSignal(run_id="a", channel="go", value="1", dedup="d")


class Post:
    """The sending side of a storage: answers one by one from a script."""

    def __init__(self, *answers: Sent | Exception) -> None:
        self._answers = list(answers)
        self.seen: list[Any] = []

    def _answer(self, what: Any) -> list[Sent]:
        self.seen.append(what)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        return self._answer([signal.dedup for signal in signals])

    async def cancel(self, run_ids: Sequence[str], reason: str | None = None) -> list[Sent]:
        return self._answer((*run_ids, reason))


@asynccontextmanager
async def effects(post: Post, failures: list[BaseException] | None = None) -> AsyncIterator[Effects]:
    made = Effects(post, ([] if failures is None else failures).append)  # type: ignore[arg-type]
    running = asyncio.create_task(made.run())
    await asyncio.sleep(0)
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.wait({running})


async def told(start: Any) -> Any:
    """What the callback that ``start`` is given is told."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    start(answer.set_result)
    return await asyncio.wait_for(answer, 10)


@pytest.mark.parametrize("sent", list(Sent))
async def test_what_became_of_a_signal_is_told(sent: Sent) -> None:
    post = Post(sent)
    async with effects(post) as made:
        assert await told(lambda tell: made.send(SIGNAL, tell)) is sent
    assert post.seen == [["d"]]


async def test_what_became_of_a_cancel_is_told() -> None:
    post = Post(Sent.FINISHED)
    async with effects(post) as made:
        assert await told(lambda tell: made.cancel("a", "why", tell)) is Sent.FINISHED
    assert post.seen == [("a", "why")]


async def test_a_storage_that_does_not_answer_is_asked_again_for_the_same() -> None:
    post = Post(StorageUnavailable("away"), StorageUnavailable("away"), Sent.DUPLICATE)
    async with effects(post) as made:
        assert await told(lambda tell: made.send(SIGNAL, tell)) is Sent.DUPLICATE
    assert post.seen == [["d"]] * 3


async def test_what_the_storage_refuses_or_breaks_on_is_told_and_stops_nobody() -> None:
    failures: list[BaseException] = []
    post = Post(StorageRefused("no"), ZeroDivisionError("a bug"), Sent.SENT)
    async with effects(post, failures) as made:
        refused = await told(lambda tell: made.send(SIGNAL, tell))
        broken = await told(lambda tell: made.send(SIGNAL, tell))
        assert await told(lambda tell: made.send(SIGNAL, tell)) is Sent.SENT
    assert isinstance(refused, StorageRefused)
    assert isinstance(broken, StorageRefused)
    assert "a bug" in str(broken)
    assert failures == []


async def test_a_schema_that_changed_is_a_failure_of_the_worker() -> None:
    failures: list[BaseException] = []
    async with effects(Post(SchemaError("newer")), failures) as made:
        made.send(SIGNAL, failures.append)  # type: ignore[arg-type]
        async with asyncio.timeout(60):
            while not failures:
                await asyncio.sleep(0.001)
    assert [type(failure) for failure in failures] == [SchemaError]


async def test_cancels_of_children_are_sent_in_one_call_and_refusals_are_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    post = Post(StorageRefused("no"))
    failures: list[BaseException] = []
    async with effects(post, failures) as made:
        made.cancel_children(["a", "b"], "over")
        async with asyncio.timeout(60):
            while "failed" not in caplog.text:
                await asyncio.sleep(0.001)
    assert post.seen == [("a", "b", "over")]
    assert failures == []
