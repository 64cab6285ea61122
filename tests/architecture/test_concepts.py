"""What docs/concepts and docs/guides say is shown by tests, and their code is code.

Behind every paragraph, bullet and table row an HTML comment names the tests that show it, as ``naming`` has them, or
says ``no claim``. The Python blocks of a page are one module: type-checked, imported, and registered with a worker.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.persistence.memory import MemoryStorage
from runnerq.runtime.worker import Worker
from runnerq.testing import Environment
from runnerq.workflow.declare import ActivityDeclaration, WorkflowDeclaration, declaration_of
from tests.architecture.naming import missing
from tests.architecture.source import ROOT

CONCEPTS = ROOT / "docs" / "concepts"
GUIDES = ROOT / "docs" / "guides"
PAGES = sorted([*CONCEPTS.glob("*.md"), *GUIDES.glob("*.md")])
NAMES = [page.stem for page in PAGES]

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
BULLET = re.compile(r"([-*]|\d+\.) ")
RULE = re.compile(r"\|[-:| ]+\|")
NO_CLAIM = "no claim"

PREAMBLE = """\
from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
import runnerq as rq
"""


class Claim(msgspec.Struct, frozen=True):
    """A paragraph, a bullet or a row of a table; ``tests`` is None where no comment says what shows it."""

    text: str
    tests: list[str] | None


def claims_of(page: Path) -> list[Claim]:
    text = COMMENT.sub(lambda comment: comment.group().replace("\n", " "), FENCED.sub("", page.read_text()))
    return [_claim(block) for block in _blocks(text)]


def _blocks(text: str) -> list[str]:
    blocks: list[list[str]] = [[]]
    in_table = False
    for line in text.splitlines():
        row = line.startswith("|")
        if not line.strip() or line.startswith("#"):
            blocks.append([])
        elif row and (not in_table or RULE.fullmatch(line)):
            blocks.append([])  # the heads of the columns, and the rule below them
        elif row or BULLET.match(line.lstrip()):
            blocks.append([line])
        else:
            blocks[-1].append(line.strip())
        in_table = row
    return [" ".join(block) for block in blocks if block]


def _claim(block: str) -> Claim:
    named = " ".join(COMMENT.findall(block)).strip()
    text = COMMENT.sub("", block).strip()
    if named == NO_CLAIM:
        return Claim(text, [])
    return Claim(text, named.split() or None)


def code_of(page: Path) -> str:
    blocks = [code for language, code in FENCED.findall(page.read_text()) if language == "python"]
    return "\n\n".join([PREAMBLE, *blocks])


def module_of(page: Path, folder: Path) -> ModuleType:
    path = folder / f"{page.stem.replace('-', '_')}_page.py"
    path.write_text(code_of(page))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


# --- claims -----------------------------------------------------------------------------------------------------------


def test_the_concepts_are_there() -> None:
    wanted = {"durability", "determinism", "changing-code", "cancellation-and-undo", "testing"}
    assert wanted - set(NAMES) == set()


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_statement_names_what_shows_it(page: Path) -> None:
    claims = claims_of(page)
    assert [claim.text for claim in claims if claim.tests is None] == []
    assert sum(bool(claim.tests) for claim in claims) > len(claims) * 2 / 3


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_test_that_is_named_is_there_and_is_run(page: Path) -> None:
    assert missing([name for claim in claims_of(page) for name in claim.tests or []]) == []


# --- code -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
async def test_a_worker_takes_the_workflows_and_activities_of_a_page(page: Path, tmp_path: Path) -> None:
    declared = [(fn, declaration_of(fn)) for fn in vars(module_of(page, tmp_path)).values() if callable(fn)]
    flows = [fn for fn, found in declared if isinstance(found, WorkflowDeclaration)]
    acts = [fn for fn, found in declared if isinstance(found, ActivityDeclaration)]
    if flows or acts:
        async with Worker(Client(MemoryStorage()), workflows=flows, activities=acts, build="docs") as worker:
            await worker.idle()


@pytest.mark.parametrize(
    ("page", "flow", "args", "answer"),
    [
        ("durability", "pay", ["42"], "receipt of 995 for 42, made once for RUN:1:1:step:charge"),
        ("durability", "subscription", ["ann", 12], 1),
        ("changing-code", "deliver", ["42"], "42 shipped"),
        ("changing-code", "invoice", ["42"], "42 shipped"),
        ("changing-code", "invoice_v2", ["42"], "42 shipped"),
        ("changing-code", "welcome", ["ann"], None),
        ("cancellation-and-undo", "holiday", [], ["flight booked", "hotel booked", "car booked"]),
    ],
)
async def test_a_workflow_of_a_page_does_what_one_reads(
    tmp_path: Path, page: str, flow: str, args: list[Any], answer: Any
) -> None:
    workflow = getattr(module_of(CONCEPTS / f"{page}.md", tmp_path), flow)
    async with Environment(workflows=[workflow]) as env:
        run = await env.start(workflow, *args)
        result = await run.result()
        assert (result.replace(run.id, "RUN") if isinstance(result, str) else result) == answer


async def test_the_quote_of_the_page_on_determinism_is_the_same_in_every_replay(tmp_path: Path) -> None:
    quote = module_of(CONCEPTS / "determinism.md", tmp_path).quote
    async with Environment(workflows=[quote]) as env:
        answer = await (await env.start(quote, 100, "EUR")).result()
        assert set(answer) == {"number", "price", "until"}


def test_the_code_of_the_pages_is_type_checked(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    files = [tmp_path / f"{page.stem.replace('-', '_')}_page.py" for page in PAGES]
    for page, file in zip(PAGES, files, strict=True):
        file.write_text(code_of(page))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
