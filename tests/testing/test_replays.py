"""``check_replay``: exported journals against changed code, in each of the ways in which code changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runnerq.errors import ConfigurationError, RunFailed, RunNotFound
from runnerq.persistence.records import Status
from runnerq.serialization.failures import read
from runnerq.testing import Environment, ReplayReport, check_replay
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.testing.flows import APPROVAL, mail, stamp


@activity
async def reserve(item: str) -> str:
    return f"{item} reserved"


@workflow(name="order")
def order(ctx: Context, item: str) -> Flow[str]:
    yield ctx.step(reserve, item)
    yield ctx.sleep(timedelta(hours=1))
    yield ctx.signal(APPROVAL)
    return (yield from ctx.step(mail, item))


@workflow(name="order")
def returns_early(ctx: Context, item: str) -> Flow[str]:
    yield ctx.step(reserve, item)
    return "done"


@workflow(name="order")
def inserts_the_same_step(ctx: Context, item: str) -> Flow[str]:
    yield ctx.step(reserve, item)
    yield ctx.step(reserve, item)
    yield ctx.sleep(timedelta(hours=1))
    yield ctx.signal(APPROVAL)
    return (yield from ctx.step(mail, item))


@workflow(name="order")
def changes_arguments(ctx: Context, item: str) -> Flow[str]:
    yield ctx.step(reserve, f"a {item}")
    yield ctx.sleep(timedelta(hours=1))
    yield ctx.signal(APPROVAL)
    return (yield from ctx.step(mail, item))


@workflow(name="order")
def removes_a_wait(ctx: Context, item: str) -> Flow[str]:
    yield ctx.step(reserve, item)
    yield ctx.signal(APPROVAL)
    return (yield from ctx.step(mail, item))


@workflow(name="order")
def changes_a_timer(ctx: Context, item: str) -> Flow[str]:
    yield ctx.step(reserve, item)
    yield ctx.sleep(timedelta(hours=2))
    yield ctx.signal(APPROVAL)
    return (yield from ctx.step(mail, item))


@workflow(name="order")
def renames_a_step(ctx: Context, item: str) -> Flow[str]:
    yield ctx.options(name="put_aside").step(reserve, item)
    yield ctx.sleep(timedelta(hours=1))
    yield ctx.signal(APPROVAL)
    return (yield from ctx.step(mail, item))


@workflow(name="order")
def asks_on_at_the_end(ctx: Context, item: str) -> Flow[str]:
    yield ctx.step(reserve, item)
    yield ctx.sleep(timedelta(hours=1))
    yield ctx.signal(APPROVAL)
    yield ctx.step(mail, item)
    return (yield from ctx.step(stamp, item))


@workflow(name="order")
def refactored(ctx: Context, item: str) -> Flow[str]:
    def rest() -> Flow[str]:
        yield ctx.sleep(3600)
        yield ctx.signal(APPROVAL)
        return (yield from ctx.step(mail, item))

    yield ctx.step(reserve, item)
    return (yield from rest())


async def _parked(*functions: Any) -> list[dict[str, Any]]:
    """Journals of runs of ``order``: parked in its sleep, parked at its signal, and completed."""
    async with Environment(workflows=[order]) as env:
        done = await env.start(order, "cup")
        await env.advance(timedelta(hours=1))
        await done.send(APPROVAL, True)
        await done.result()
        at_signal = await env.start(order, "plate")
        await env.advance(timedelta(hours=1))
        asleep = await env.start(order, "spoon")
        assert await asleep.reached(Status.WAITING) is Status.WAITING
        journals = {journal["run_id"]: journal for journal in env.journals()}
        return [journals[run.id] for run in (asleep, at_signal, done)]


async def test_the_same_code_and_code_that_does_the_same_follow_every_journal() -> None:
    journals = await _parked()
    for same in (order, refactored):
        reports = check_replay(journals, [same])
        assert [report.diverged for report in reports] == [False, False, False]
        assert reports[0] == ReplayReport(run_id=journals[0]["run_id"], workflow="order", diverged=False)


WAYS: list[tuple[Callable[..., Any], list[str | None]]] = [
    # The position of the first difference in a run that sleeps, one at the signal, and one that has ended.
    (returns_early, ["2", "2", "2"]),
    (inserts_the_same_step, ["2", "2", "2"]),
    (changes_arguments, ["1", "1", "1"]),
    (removes_a_wait, ["2", "2", "2"]),
    (changes_a_timer, ["2", "2", "2"]),
    (renames_a_step, ["1", "1", "1"]),
    (asks_on_at_the_end, [None, None, "5"]),
]


@pytest.mark.parametrize(("changed", "positions"), WAYS, ids=lambda value: getattr(value, "__name__", ""))
async def test_each_way_of_changing_code_is_seen_at_each_stage(
    changed: Callable[..., Any], positions: list[str | None]
) -> None:
    reports = check_replay(await _parked(), [changed])
    assert [report.position for report in reports] == positions
    assert [report.diverged for report in reports] == [position is not None for position in positions]


async def test_a_report_says_where_and_shows_what_was_and_what_is_asked() -> None:
    [_, journal, _] = await _parked()
    [report] = check_replay([journal], [removes_a_wait])
    assert report.recorded is not None
    assert report.recorded.startswith("sleep")
    assert report.asked is not None
    assert report.asked.startswith("signal 'approval'")
    code = removes_a_wait.__code__  # type: ignore[attr-defined]  # a function, decorated
    assert report.line == f"{__file__}:{code.co_firstlineno + 3} in removes_a_wait"
    lines = report.message.splitlines()
    assert lines[0].startswith(f"run {journal['run_id']} of order@1: position 2: recorded sleep")
    assert lines[1].split() == ["1", "step", "'reserve'"]
    assert lines[2].split()[:3] == ["-", "2", "sleep"]
    assert lines[3].split()[:4] == ["+", "2", "signal", "'approval'"]


async def test_a_report_has_no_digest_of_arguments_by_which_they_could_be_found_out() -> None:
    [journal, *_] = await _parked()
    [report] = check_replay([journal], [changes_arguments])
    assert (report.recorded, report.asked) == ("step 'reserve'", "step 'reserve' with other arguments")
    assert [line.rstrip() for line in report.message.splitlines()[1:]] == [
        "  - 1       step 'reserve'",
        "  + 1       step 'reserve' with other arguments",
    ]
    assert journal["generations"][0]["rows"][0]["asked"][0][3] not in report.message


async def test_a_run_that_ended_must_end_again() -> None:
    [_, _, done] = await _parked()
    [report] = check_replay([done], [asks_on_at_the_end])
    assert "step 'stamp'" in report.message


async def test_a_workflow_that_is_not_there_and_one_that_fails_are_reports() -> None:
    @workflow(name="order")
    def broken(ctx: Context, item: str) -> Flow[None]:
        yield ctx.step(reserve, item)
        raise TypeError("not of the right type")

    @workflow(name="another")
    def another(ctx: Context) -> Flow[None]:
        yield ctx.sleep(1)

    journals = await _parked()
    assert all("order@1 is not among these" in report.message for report in check_replay(journals, [another]))
    assert all("not of the right type" in report.message for report in check_replay(journals, [broken]))


async def test_journals_are_read_from_files_too(tmp_path: Path) -> None:
    paths = []
    for n, journal in enumerate(await _parked()):
        paths.append(tmp_path / f"{n}.json")
        paths[-1].write_text(json.dumps(journal))
    assert [report.diverged for report in check_replay(paths, [order])] == [False, False, False]
    assert [report.diverged for report in check_replay(paths, [renames_a_step])] == [True, True, True]
    paths[0].write_text("[1]")
    with pytest.raises(ConfigurationError, match="0.json is no exported run"):
        check_replay(paths, [order])
    with pytest.raises(ConfigurationError, match="this dict is no exported run of format 1"):
        check_replay([{"format": 2}], [order])


async def test_activities_have_no_journal_and_failed_and_terminated_runs_are_followed() -> None:
    @workflow
    def fails(ctx: Context) -> Flow[None]:
        yield ctx.step(reserve, "cup")
        raise ValueError("out of cups")

    async with Environment(workflows=[order, fails], activities=[mail]) as env:
        await (await env.start(mail, "ann")).result()
        with pytest.raises(RunFailed):
            await (await env.start(fails)).result()
        ended = await env.start(order, "cup")
        await ended.reached(Status.WAITING)
        await env.terminate(ended.id)
        unborn = await env.options(delay=5).start(order, "cup")
        assert await unborn.cancel()
        assert [report.diverged for report in check_replay(env.journals(), [order, fails])] == [False] * 4


async def test_an_export_holds_the_whole_run() -> None:
    async with Environment(workflows=[order], activities=[mail]) as env:
        run = await env.options(key="k", metadata={"team": "shop"}).start(order, "cup")
        await env.advance(timedelta(hours=1))
        await run.send(APPROVAL, True)
        assert await run.result() == "mail to cup"
        exported = await env.export(run.id)
        assert exported in env.journals()
        with pytest.raises(RunNotFound):
            await env.export("018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f")
    assert json.loads(json.dumps(exported)) == exported
    expected = {
        "format": 1, "run_id": run.id, "workflow": "order", "version": 1, "kind": "workflow", "key": "k",
        "queue": "default", "priority": 2, "metadata": {"team": "shop"}, "parent_id": None, "root_id": run.id,
        "depth": 0, "created_at": "2025-01-01T00:00:00Z", "status": "completed", "generation": 1, "arguments": ["cup"],
        "attempts": [],
    }  # fmt: skip
    assert {name: exported[name] for name in expected} == expected
    [generation] = exported["generations"]
    assert [row["kind"] for row in generation["rows"]] == ["started", *["answered"] * 4]
    assert generation["rows"][1]["value"] == "cup reserved"
    assert [(entry["position"], entry["kind"], entry["state"]) for entry in exported["entries"][1:]] == [
        ("1", "step", "answered"), ("2", "sleep", "answered"), ("3", "signal", "answered"), ("4", "step", "answered"),
    ]  # fmt: skip
    assert exported["outcome"]["result"] == "mail to cup"


async def test_an_export_of_a_failed_run_holds_its_error() -> None:
    @activity(retry=3)
    async def never() -> None:
        raise ConnectionError("no")

    async with Environment(activities=[never]) as env:
        run = await env.start(never)
        assert await run.reached(Status.RETRYING) is Status.RETRYING
        assert [attempt["number"] for attempt in (await env.export(run.id))["attempts"]] == [1]
        with pytest.raises(RunFailed):
            await run.result()
        exported = await env.export(run.id)
    assert exported["outcome"]["status"] == "dead_letter"
    assert read(json.dumps(exported["outcome"]["error"])).message == "no"
