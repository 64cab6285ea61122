"""Payloads: kept byte for byte, whatever the JSON holds; and text that cannot be kept, which is refused."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from runnerq.errors import StorageRefused
from runnerq.persistence.records import GOING, Attempt, Back, End, Park, Stuck, Turn, Verdict
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    World,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    a_turn,
    look,
    rows_of,
)

TEXTS = {
    "null": "null",
    "nul": '"a\\u0000b"',
    "surrogate": '"\\ud800"',
    "bigint": "1180591620717411303424",
    "decimal": "1.10",
    "exponent": "1e400",
    "order": '{"b":1,"a":2,"b":3}',
    "spaces": " [ 1 ,\n 2 ] ",
    "unicode": '"é 鍵 🔑 \\u00e9"',
    "quotes": '"\\"\\\\\\/ \' $1 %s"',
    "deep": "[" * 500 + "]" * 500,
    "large": '["' + "x" * 900_000 + '"]',
}
every_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())

BAD = {"not json": "{", "nan": "NaN", "two values": "1 2", "lone surrogate": '"\ud800"', "empty": ""}


class TestPayloads:
    @every_text
    async def test_every_payload_is_kept_as_it_was_written(self, world: World, text: str) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(input=text, options=text))
        assert (run.input, run.options) == (text, text)
        await world.storage.send([a_signal(run.id, value=text)])
        attempt = Attempt(position="1", number=1, error=text, at=AT, next_at=None, details=text)
        rows = (a_row(0, "", text, "started"), a_row(1, "1", text))
        child = a_child(run, input=text)
        turn = a_turn(run, Back(), rows=rows, attempts=(attempt,), children=(child,), published=text)
        assert await world.storage.commit([turn]) == [Verdict.DONE]
        again = await holder.take_again(run)
        assert (again.rows, again.attempts, again.state) == (rows, (attempt,), text)
        assert [mail.value for mail in again.signals] == [text]
        assert await world.storage.state(run.id) == text
        assert (await look(world.storage, run.id)).started == text
        assert (await look(world.storage, child.id)).input == text
        await holder.commit(again, End(status="completed", result=text, error=text))
        [outcome] = await world.storage.outcomes([run.id])
        assert (outcome.result, outcome.error) == (text, text)

    async def test_a_row_without_a_value_differs_from_one_of_null(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        rows = (a_row(0, "", None, "started"), a_row(1, "1", "null"))
        await holder.commit(run, GOING, rows=rows)
        assert await rows_of(world.storage, run.id) == list(rows)

    async def test_free_texts_are_kept_as_they_are(self, world: World) -> None:
        text = "line 1\nline 2\t'\"\\ {} 🔑 $1 %s"
        holder = await a_holder(world.storage)
        blocked, ended = await holder.start(a_run()), await holder.start(a_run())
        await holder.commit(blocked, Stuck(message=text, build=text, line=text, traceback=text))
        await holder.commit(ended, End(status="failed", reason=text))
        block = await world.storage.block(blocked.id)
        assert block is not None
        assert (block.message, block.builds, block.line, block.traceback) == (text, (text,), text, text)
        assert (await look(world.storage, ended.id)).reason == text

    @pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
    async def test_what_cannot_be_kept_is_refused_and_nothing_of_it_is_written(self, world: World, text: str) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await _refuses(world.storage.start([a_run(input=text)]))
        await _refuses(world.storage.send([a_signal(run.id, value=text)]))
        for turn in (
            a_turn(run, GOING, rows=(a_row(0), a_row(1, "1", text)), children=(child,)),
            a_turn(run, End(status="completed", result=text), rows=(a_row(0),)),
            a_turn(run, Park(signals=("go",)), published=text),
        ):
            await _refuses(world.storage.commit([turn]))
        assert await rows_of(world.storage, run.id) == []
        assert await world.storage.run(child.id) is None
        assert (await holder.inbox(run)).seen == 0
        assert await holder.commit(run, COMPLETED) is Verdict.DONE

    async def test_a_bad_turn_can_be_told_from_the_good_ones_of_its_batch(self, world: World) -> None:
        holder = await a_holder(world.storage)
        runs = [await holder.start(a_run()) for _ in range(3)]
        turns = [a_turn(run, COMPLETED) for run in runs]
        turns[1] = a_turn(runs[1], End(status="completed", result="{"))
        await _refuses(world.storage.commit(turns))
        answers = [await _answer(world, turn) for turn in turns]
        assert answers == [Verdict.DONE, None, Verdict.DONE]

    async def test_a_nul_in_a_name_is_refused(self, world: World) -> None:
        new = a_run()
        await world.storage.start([new])
        await _refuses(world.storage.start([a_run(key="a\0b")]))
        await _refuses(world.storage.start([a_run("a\0b")]))
        await _refuses(world.storage.send([a_signal(new.id, "a\0b")]))
        assert await world.storage.send([a_signal(new.id, "ab")]) != []


async def _refuses(call: Awaitable[object]) -> None:
    with pytest.raises(StorageRefused):
        await call


async def _answer(world: World, turn: Turn) -> Verdict | None:
    """The verdict, or None if the turn is refused."""
    try:
        [verdict] = await world.storage.commit([turn])
    except StorageRefused:
        return None
    return verdict
