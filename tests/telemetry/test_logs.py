"""Logging: which run a record belongs to, and how it is written."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from runnerq.errors import RunFailed
from runnerq.retry import RetryPolicy
from runnerq.telemetry import JsonFormatter, LogListener, RunFields
from runnerq.telemetry.events import Event, QueueReading, QueuesRead, RunEnded, RunParked, RunReleased
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.telemetry.hearing import SOON, Ear, heard

app = logging.getLogger("shop")


class Lines(logging.Handler):
    """Keeps what is logged, as its formatter writes it."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What is logged to anybody, with the marks of its run."""
    kept = Lines(logging.Formatter("%(name)s %(workflow)s/%(step)s/%(attempt)s %(run_id)s: %(message)s"))
    kept.addFilter(RunFields())
    yield from _installed(kept)


@pytest.fixture
def json_lines() -> Iterator[Lines]:
    yield from _installed(Lines(JsonFormatter()))


def _installed(kept: Lines) -> Iterator[Lines]:
    root = logging.getLogger()
    before = root.level
    root.addHandler(kept)
    root.setLevel(logging.INFO)
    yield kept
    root.removeHandler(kept)
    root.setLevel(before)


@activity
async def pay() -> None:
    app.info("paying")


def pack() -> None:
    app.info("packing")


@workflow
def order(ctx: Context) -> Flow[None]:
    app.info("ordering")
    ctx.log.info("by the run's own logger")
    yield ctx.step(pack)
    yield ctx.child(pay)


@workflow
def bad(ctx: Context) -> Flow[None]:
    yield ctx.sleep(0)
    raise ValueError("no such thing")


class Dark:
    """It cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no")

    __repr__ = __str__


class Sizes:
    """As arrays are: neither equal to another object nor not."""

    __hash__ = None  # type: ignore[assignment]  # as theirs

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    def __str__(self) -> str:
        return "3 sizes"


async def test_what_is_logged_in_a_workflow_a_step_and_an_activity_says_whose_it_is(lines: Lines) -> None:
    app.info("outside")
    async with heard(order, pay, listeners=[ear := Ear()]) as client:
        run = await client.start(order)
        await run.result(timeout=SOON)
        child = (await client.tree(run.id)).children[0].id
        await ear.until(RunEnded)
    assert [line for line in lines.lines if line.startswith(("shop", "runnerq.workflow"))] == [
        "shop -/-/- -: outside",
        f"shop order/-/1 {run.id}: ordering",
        f"runnerq.workflow order/-/1 {run.id}: by the run's own logger",
        f"shop order/pack/1 {run.id}: packing",
        f"shop pay/-/1 {child}: paying",
    ]


async def test_a_record_as_json_has_its_run_what_else_it_was_given_and_its_traceback(json_lines: Lines) -> None:
    async with heard(bad, listeners=[LogListener(), ear := Ear()]) as client:
        run = await client.start(bad)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        await ear.until(RunReleased, lambda event: event.left == "failed")
    try:
        raise LookupError("nowhere")
    except LookupError:
        app.exception("it is lost: %s", "\N{SNOWMAN}", extra={"order": 7})
    read = [json.loads(line) for line in json_lines.lines]
    [own] = [each for each in read if each["logger"] == "runnerq" and "ended as failed" in each["message"]]
    assert (own["level"], own["run_id"], own["workflow"]) == ("ERROR", run.id, "bad")
    [ended] = [each for each in read if each.get("event") == "run_ended"]
    assert (ended["level"], ended["run_id"], ended["workflow"]) == ("INFO", run.id, "bad")
    assert (ended["fields"]["status"], ended["fields"]["error"]) == ("failed", "ValueError")
    assert "run_claimed" not in {each.get("event") for each in read}
    assert read[-1]["message"] == "it is lost: \N{SNOWMAN}"
    assert read[-1]["order"] == 7
    assert "LookupError: nowhere" in read[-1]["error"]
    assert "run_id" not in read[-1]


@pytest.mark.parametrize(
    ("event", "fields", "shown"),
    [
        (
            RunParked(run_id="r", name="n", queue="q", channels=("a", "b"), awaited=2, due_in_seconds=None),
            {"run_id": "r", "name": "n", "queue": "q", "channels": ["a", "b"], "awaited": 2},
            "run_parked run_id=r name=n queue=q channels=a,b awaited=2",
        ),
        (
            QueuesRead(
                worker_id=1, capped=False, seconds=0.25,
                queues_read=(QueueReading(queue="q", ready=1, delayed=0, running=0, waiting=0, blocked=0, workers=1,
                                          paused=False, ready_age_seconds=2.5),),
            ),
            {
                "worker_id": 1, "capped": False, "seconds": 0.25,
                "queues_read": [{"queue": "q", "ready": 1, "delayed": 0, "running": 0, "waiting": 0, "blocked": 0,
                                 "workers": 1, "paused": False, "ready_age_seconds": 2.5}],
            },
            "queues_read worker_id=1 queues_read={'queue': 'q', 'ready': 1, ",
        ),
    ],
    ids=["parked", "queues"],
)  # fmt: skip
def test_an_event_as_json_has_its_fields_as_json(
    event: Event, fields: dict[str, object], shown: str, json_lines: Lines
) -> None:
    LogListener(levels={type(event): logging.INFO}).hear(event)
    [line] = [json.loads(each) for each in json_lines.lines]
    assert line["fields"] == fields
    assert line["message"].startswith(shown)


async def test_what_runnerq_says_of_a_run_has_its_attempt_as_what_the_run_says_itself(lines: Lines) -> None:
    @activity(retry=RetryPolicy(max_attempts=2, base=0.001))
    async def fails() -> None:
        app.info("trying")
        raise LookupError("nowhere")

    async with heard(fails, bad, listeners=[ear := Ear()]) as client:
        runs = [await client.start(fails), await client.start(bad)]
        for run in runs:
            with pytest.raises(RunFailed):
                await run.result(timeout=SOON)
        await ear.until(RunReleased, lambda event: event.left == "dead_letter")
        await ear.until(RunReleased, lambda event: event.left == "failed")
    told = [line.partition(":")[0] for line in lines.lines if line.startswith(("runnerq ", "shop"))]
    assert [each for each in told if runs[0].id in each] == [
        f"shop fails/-/1 {runs[0].id}",
        f"runnerq fails/fails/1 {runs[0].id}",
        f"shop fails/-/2 {runs[0].id}",
        f"runnerq fails/-/2 {runs[0].id}",
    ]
    assert [each for each in told if runs[1].id in each] == [f"runnerq bad/-/1 {runs[1].id}"]


def test_a_character_that_is_none_is_written_as_its_escape() -> None:
    # Not through a logger: what pytest captures of it cannot be sent to another process.
    record = logging.LogRecord("app", logging.INFO, __file__, 1, "\ud800", None, None)
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert json.loads(line)["message"] == "\ud800"


def test_a_record_is_written_whatever_it_was_given(json_lines: Lines) -> None:
    turns: list[object] = []
    turns.append(turns)
    odd = {
        "round": turns,
        "dark": Dark(),
        "nan": float("nan"),
        "by": {(1, 2): 3},
        "sizes": Sizes(),
        "plain": {"a": [1]},
    }
    app.info("odd", extra=odd)
    app.info("its own", extra={"at": "noon", "level": "high", "logger": "me", "error": "none"}, stack_info=True)
    shown, own = [json.loads(line, parse_constant=pytest.fail) for line in json_lines.lines]
    assert shown["dark"] == "a Dark that cannot be shown"
    assert {name: shown[name] for name in odd if name != "dark"} == {
        "round": "[[...]]", "nan": "nan", "by": "{(1, 2): 3}", "sizes": "3 sizes", "plain": {"a": [1]},
    }  # fmt: skip
    # What the record says itself stands, whatever else it was given.
    assert (own["at"] > "2020", own["level"], own["logger"], own["error"]) == (True, "INFO", "shop", "none")
    assert __file__ in own["stack"]
