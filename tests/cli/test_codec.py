"""``--codec``: the command line reads and writes what a codec seals."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import Result

from runnerq.client.connect import connect
from runnerq.persistence.records import Status
from runnerq.serialization.sealing import SEALED
from tests.cli.codecs import codec, reads
from tests.cli.conftest import ROOT
from tests.cli.flows import GO, waiting


async def stored(dsn: str, run_id: str) -> list[str | None]:
    """The run's input, as it is stored, and as who has the key reads it."""
    async with connect(dsn) as blind, connect(dsn, codec=codec) as client:
        records = [await each.storage.run(run_id) for each in (blind, client)]
        return [None if record is None else record.input for record in records]


@pytest.mark.parametrize("name", ["tests.cli.codecs:codec", "tests.cli.codecs:made", "tests.cli.codecs:Settings.codec"])
def test_the_command_line_reads_and_writes_with_the_codec_that_is_named(
    answer: Callable[..., Any], runnerq: Callable[..., Result], dsn: str, name: str
) -> None:
    run = answer("start", "greeting", '"Ada"', "--codec", name, "-o", "json")["run_id"]
    sealed, plain = asyncio.run(stored(dsn, run))
    assert (sealed or "").startswith('"\\u007erq1:aes-gcm=cli:')
    assert plain == '["Ada"]'
    assert answer("export", run, "--codec", name)["arguments"] == ["Ada"]
    blind = runnerq("export", run)
    assert blind.exit_code == 1
    assert "is sealed by 'aes-gcm' with the key 'cli'" in blind.stderr


@contextmanager
def worker(dsn: str, name: str) -> Iterator[None]:
    """A worker process with this codec (``none``: without), that serves a queue of that name and one that all do."""
    named = {} if name == "none" else {"RUNNERQ_CODEC": f"tests.cli.codecs:{name}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "runnerq", "worker", "tests.cli.flows", "-q", name, "-q", "both"],
        env={**os.environ, "RUNNERQ_DSN": dsn, **named},
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "serves" in process.stderr.readline()
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)


async def go_through(dsn: str, *names: str) -> tuple[list[int], set[str]]:
    """Runs of one process, of the other, and of both; their results, and by which keys their rows are sealed."""
    async with connect(dsn, codec=reads) as client:
        queues = (*names, "both")
        runs = [run for queue in queues for run in await client.options(queue=queue).start_many(waiting, [()] * 4)]
        for run in runs:
            await run.reached(Status.WAITING, timeout=60)
        for number, run in enumerate(runs):
            await run.send(GO, number)
        results = [await run.result(timeout=60) for run in runs]
    sealed_by: set[str] = set()
    async with connect(dsn) as blind:
        for run in runs:
            journal = await blind.storage.journal(run.id)
            assert journal is not None
            texts = [row.value for row in journal.rows if row.value is not None]
            sealed_by |= {text.split(":")[1] if text.startswith(SEALED) else "nothing" for text in texts}
    return results, sealed_by


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param("before", "after", {"aes-gcm=cli", "aes-gcm=new"}, id="the key is changed"),
        pytest.param("none", "reads", {"nothing"}, id="encryption is read"),
        pytest.param("reads", "codec", {"aes-gcm=cli", "nothing"}, id="encryption is written"),
    ],
)
def test_two_worker_processes_share_a_queue_while_one_of_them_is_ahead(
    dsn: str, one: str, other: str, expected: set[str]
) -> None:
    with worker(dsn, one), worker(dsn, other):
        results, sealed_by = asyncio.run(go_through(dsn, one, other))
    assert results == list(range(12))
    assert sealed_by == expected


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("codec", "is not of the form module:name"),
        ("tests.cli.nowhere:codec", "No module named 'tests.cli.nowhere'"),
        ("tests.cli.codecs:nothing", "tests.cli.codecs has no 'nothing'"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_in_a_line(runnerq: Callable[..., Result], name: str, why: str) -> None:
    refused = runnerq("list", "--codec", name)
    assert refused.exit_code == 2
    assert why in refused.stderr
