"""What is asked before a deploy: would the open runs of a database, or exported journals, follow this code?"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from click.testing import Result

from runnerq.cli.following import tell_codeless
from runnerq.client.client import Client
from runnerq.ids import new_run_id
from runnerq.persistence.memory import MemoryStorage
from runnerq.runtime.worker import Worker
from tests.cli import flows
from tests.cli.counter import Counter

CHANGED = "tests.cli.changed_flows"


@pytest.fixture
def parked(counter: Counter) -> str:
    """A run that waits for a signal."""
    run_id = counter.start("waiting")
    counter.work()
    return run_id


@pytest.fixture
async def parked_in() -> AsyncIterator[Client]:
    """A client of a storage in which one waits for a signal, and whose worker has left."""
    async with Client(MemoryStorage()) as client:
        async with Worker(client, workflows=[flows.waiting, flows.greeting], activities=[flows.greet], build="tests"):
            run = await client.start(flows.waiting)
            await run.reached("waiting")
        yield client


def test_runs_that_would_not_follow_the_code_are_listed_with_what_differs(counter: Counter, parked: str) -> None:
    assert counter.call("check", "tests.cli.flows").exit_code == 0
    done = counter.call("check", CHANGED, "-o", "json")
    assert done.exit_code == 1
    [report] = json.loads(done.stdout)["diverged"]
    assert (report["run_id"], report["position"]) == (parked, "2")
    assert "signal 'go'" in report["recorded"]
    assert "sleep" in report["asked"]
    assert "changed_flows.py" in report["line"]
    table = counter.call("check", CHANGED)
    assert parked in table.stdout
    assert "1 open run checked, 1 would not follow this code" in table.stderr
    assert counter.call("check", CHANGED, "-o", "id").stdout.strip() == parked
    assert counter.status(parked) == "waiting"


async def test_open_runs_that_have_no_code_any_more_are_told_by_their_name(
    parked_in: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await parked_in.start("greeting", "Ada")
    await tell_codeless(parked_in, ("waiting@2", "greeting@1", "greet"))
    assert capsys.readouterr().err == ""
    await tell_codeless(parked_in, ("waits@1", "greeting@2"))
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "1 open run of waiting@2 has no code here, and no other worker serves it" in "".join(said)
    assert "runnerq terminate --where 'workflow=waiting version=2'" in "".join(said)
    async with Worker(parked_in, workflows=[flows.waiting, flows.greeting], activities=[flows.greet], build="other"):
        await tell_codeless(parked_in, ("waits@1",))
    assert capsys.readouterr().err == ""


def test_a_run_that_has_not_begun_is_checked_too(counter: Counter) -> None:
    counter.work()  # so that a worker has told what it takes
    refused = counter.call("start", "greeting", "1")
    assert (refused.exit_code, "does not take these arguments" in refused.stderr) == (2, True)
    run_id = counter.start("greeting", "1", "--unchecked")
    done = counter.call("check", "tests.cli.flows", "-o", "json")
    assert done.exit_code == 1
    [report] = json.loads(done.stdout)["diverged"]
    assert (report["run_id"], "the input of workflow 'greeting'" in report["message"]) == (run_id, True)


def test_looking_makes_no_schema(runnerq: Callable[..., Result]) -> None:
    for look in (["list"], ["check", "tests.cli.flows"], ["show", new_run_id()]):
        done = runnerq(*look, "--schema", "mistyped")
        assert (done.exit_code, done.stdout) == (5, "")
        assert "runnerq migrate" in done.stderr
    assert runnerq("migrate", "--status", "--schema", "mistyped").exit_code == 5


def test_an_exported_run_is_replayed_from_its_file(counter: Counter, parked: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(counter.call("export", parked).stdout)
    assert json.loads(file.read_text())["run_id"] == parked
    same = counter.call("replay", str(file), "--module", "tests.cli.flows")
    assert (same.exit_code, same.stdout) == (0, "")
    assert "1 journal checked, 0 would not follow" in same.stderr
    assert counter.call("replay", str(file), "--module", CHANGED).exit_code == 1


def test_a_file_that_is_no_export_and_a_run_that_is_not_there_are_said_in_a_line(
    counter: Counter, tmp_path: Path
) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}")
    done = counter.call("replay", str(file), "--module", "tests.cli.flows")
    assert (done.exit_code, "no exported run" in done.stderr) == (2, True)
    assert counter.call("export", new_run_id()).exit_code == 3
