from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from runnerq.cli.acting import person
from runnerq.client.connect import connect
from runnerq.client.schedule import Schedule
from runnerq.console.models.redaction import MASK
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from tests.console.shop import ACTIVITIES, SECRET, WORKFLOWS, checkout, mistaken, refused


async def started(dsn: str) -> dict[str, str]:
    """Runs with a secret in everything, by what became of them."""
    async with connect(dsn) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES, build="tests"):
        done = await client.options(metadata={"auth_token": SECRET}).start(checkout, {"password": SECRET})
        await client.send(done.id, "approval", {"secret": SECRET})
        await done.result(timeout=20)
        dead, spare = await client.start(refused, 4711), await client.start(refused, 4712)
        await dead.reached(Status.DEAD_LETTER, timeout=20)
        await spare.reached(Status.DEAD_LETTER, timeout=20)
        blocked = await client.start(mistaken)
        await blocked.reached(Status.BLOCKED, timeout=20)
        await client.schedules.put(Schedule("nightly", checkout, ({"password": SECRET},), every=3600))
        return {"done": done.id, "dead": dead.id, "blocked": blocked.id, "spare": spare.id}


@pytest.fixture(scope="module")
def runs(dsn: str) -> dict[str, str]:
    return asyncio.run(started(dsn))


@pytest.mark.parametrize("output", ["table", "json"])
def test_what_shows_a_run_or_a_schedule_shows_no_secret_unless_it_is_to_reveal_it(
    runs: dict[str, str], runnerq: Callable[..., Result], output: str
) -> None:
    for command in (
        ("show", runs["done"]), ("show", runs["dead"]), ("show", runs["blocked"]), ("history", runs["done"]),
        ("history", runs["dead"]), ("history", runs["done"], "--view", "json"), ("list",), ("why", runs["blocked"]),
        ("watch", runs["done"]), ("dead", "list"), ("tree", runs["dead"]), ("schedule", "show", "nightly"),
    ):  # fmt: skip
        shown = runnerq(*command, "-o", output)
        assert shown.exit_code == 0, shown.stderr
        assert SECRET not in shown.output, command
        if output == "json":  # a table cuts what is long
            assert SECRET in runnerq(*command, "-o", output, "--reveal").stdout, command


def test_an_export_says_what_is_masked_and_is_whole_when_it_is_to_reveal_it(
    runs: dict[str, str], runnerq: Callable[..., Result], tmp_path: Path
) -> None:
    masked = runnerq("export", runs["done"])
    assert "payloads are masked, which a replay may stumble over: --reveal exports all as it is" in masked.stderr
    exported = json.loads(masked.stdout)
    assert exported["arguments"] == [{"password": MASK}]
    assert exported["redacted"] > 0
    assert SECRET not in masked.stdout
    whole = tmp_path / "run.json"
    whole.write_text(runnerq("export", runs["done"], "--reveal").stdout)
    replayed = runnerq("replay", str(whole), "-m", "tests.console.shop")
    assert replayed.exit_code == 0, replayed.output


def test_a_result_is_printed_as_it_is(runs: dict[str, str], answer: Callable[..., Any]) -> None:
    assert answer("result", runs["done"])["receipt"]["access_token"] == SECRET


def test_what_was_done_on_the_command_line_is_in_the_audit_with_who_and_why(
    runs: dict[str, str], runnerq: Callable[..., Result], answer: Callable[..., Any]
) -> None:
    done = runnerq("dead", "redrive", runs["spare"], "--reason", "try again")
    assert done.exit_code == 0, done.stderr
    assert runnerq("retry", runs["done"]).exit_code == 4
    [redriven] = answer("audit", "--run", runs["spare"], "-o", "json")["items"]
    assert (redriven["action"], redriven["reason"], redriven["outcome"]) == ("redrive", "try again", "done")
    assert redriven["principal"] == person()
    [refused_] = answer("audit", "--run", runs["done"], "-o", "json")["items"]
    assert refused_["outcome"].startswith("refused: ")
    assert "try again" in runnerq("audit").stdout
