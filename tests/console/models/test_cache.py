from __future__ import annotations

import asyncio

import pytest

from runnerq.console.models.cache import MOST, Cache


class Question:
    """Asked by several; answers when it is let."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked = 0
        self.begun = asyncio.Event()
        self.let = asyncio.Event()
        self._error = error
        self.changing: Cache | None = None

    async def ask(self) -> int:
        self.asked += 1
        self.begun.set()
        await self.let.wait()
        if self._error is not None:
            raise self._error
        return self.asked

    async def change(self) -> int:
        """Answer, and have something happen meanwhile."""
        answer = await self.ask()
        assert self.changing is not None
        self.changing.forget()
        return answer


async def test_of_several_who_ask_at_the_same_time_one_does() -> None:
    cache, question = Cache(), Question()
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(cache.get("n", question.ask)) for _ in range(5)]
        await question.begun.wait()
        question.let.set()
    assert [task.result() for task in asking] == [1] * 5


async def test_an_error_is_told_to_all_who_waited_for_it_and_asked_for_once() -> None:
    cache, question = Cache(), Question(ConnectionError("gone"))
    asking = [asyncio.create_task(cache.get("n", question.ask)) for _ in range(5)]
    await question.begun.wait()
    question.let.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in answers] == [ConnectionError] * 5
    assert question.asked == 1


async def test_one_who_gives_up_leaves_asking_to_the_next() -> None:
    cache, question = Cache(), Question()
    first = asyncio.create_task(cache.get("n", question.ask))
    await question.begun.wait()
    second = asyncio.create_task(cache.get("n", question.ask))
    first.cancel()
    question.let.set()
    assert await second == 2
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_after_a_change_it_is_asked_anew() -> None:
    cache, question = Cache(), Question()
    question.let.set()
    assert [await cache.get("n", question.ask), await cache.get("n", question.ask)] == [1, 1]
    cache.forget()
    assert await cache.get("n", question.ask) == 2


async def test_what_was_known_before_something_happened_is_soon_asked_anew() -> None:
    cache, question = Cache(), Question()
    question.let.set()
    assert await cache.get("n", question.ask, fresh=1e9) == 1
    cache.stir()
    async with asyncio.timeout(10):
        while await cache.get("n", question.ask, fresh=1e9) == 1:
            await asyncio.sleep(0)


async def test_a_change_while_it_is_asked_is_not_forgotten() -> None:
    cache, question = Cache(), Question()
    asking = asyncio.create_task(cache.get("n", question.ask))
    await question.begun.wait()
    cache.forget()
    question.let.set()
    assert await asking == 1
    assert await cache.get("n", question.ask) == 2


async def test_whoever_comes_after_something_happened_is_soon_told_what_was_asked_after_it() -> None:
    cache, question = Cache(), Question()
    asking = asyncio.create_task(cache.get("n", question.ask, fresh=1e9))
    await question.begun.wait()
    cache.stir()
    question.let.set()
    assert await asking == 1
    async with asyncio.timeout(10):
        while await cache.get("n", question.ask, fresh=1e9) == 1:
            await asyncio.sleep(0)


async def test_those_who_wait_while_things_happen_all_take_the_next_answer() -> None:
    cache, question = Cache(), Question()
    first = asyncio.create_task(cache.get("n", question.ask))
    await question.begun.wait()
    waiting = [asyncio.create_task(cache.get("n", question.change)) for _ in range(5)]
    await asyncio.sleep(0)
    question.changing = cache
    cache.forget()
    question.let.set()
    assert await first == 1
    assert await asyncio.gather(*waiting) == [2] * 5


async def test_no_more_than_so_many_answers_are_kept_however_many_are_asked_for() -> None:
    cache, question = Cache(), Question()
    question.let.set()
    for n in range(MOST + 50):
        await cache.get(n, question.ask)
    assert len(cache) == MOST
    assert await cache.get(MOST + 49, question.ask) == MOST + 50
    assert await cache.get(0, question.ask) == MOST + 51
