"""What docs/concepts and docs/guides say is shown by tests, and their code is code.

Behind every paragraph, bullet and table row an HTML comment names the tests that show it, as ``naming`` has them, or
says ``no claim``. The Python blocks of a page are one module: imported, and registered with a worker; ``tests/docs``
has it type-checked with those of all other pages.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
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
from tests.docs.pages import all_pages, module_text, modules_of, name_of, sentences_of

CONCEPTS = ROOT / "docs" / "concepts"
GUIDES = ROOT / "docs" / "guides"
PAGES = sorted([*CONCEPTS.glob("*.md"), *GUIDES.glob("*.md")])
NAMES = [page.stem for page in PAGES]

ABOUT_CODE = re.compile(r"<!-- code: .*?-->", re.DOTALL)
COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
BULLET = re.compile(r"([-*]|\d+\.) ")
RULE = re.compile(r"\|[-:| ]+\|")
NO_CLAIM = "no claim"


class Claim(msgspec.Struct, frozen=True):
    """A paragraph, a bullet or a row of a table; ``tests`` is None where no comment says what shows it."""

    text: str
    tests: list[str] | None


def claims_of(page: Path) -> list[Claim]:
    text = COMMENT.sub(lambda comment: comment.group().replace("\n", " "), ABOUT_CODE.sub("", sentences_of(page)))
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


def module_of(page: Path, folder: Path) -> ModuleType:
    path = folder / f"{page.stem.replace('-', '_')}_page.py"
    path.write_text(module_text(page))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def declared_in(module: ModuleType) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
    """The workflows and the activities of a page's code."""
    declared = [(fn, declaration_of(fn)) for fn in vars(module).values() if callable(fn)]
    flows = [fn for fn, found in declared if isinstance(found, WorkflowDeclaration)]
    return flows, [fn for fn, found in declared if isinstance(found, ActivityDeclaration)]


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


@pytest.mark.parametrize("page", [page for page in all_pages() if modules_of(page)], ids=name_of)
async def test_a_worker_takes_the_workflows_and_activities_of_a_page(page: Path, tmp_path: Path) -> None:
    flows, acts = declared_in(module_of(page, tmp_path))
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
        ("steps", "checkout", ["42", [600, 395]], "receipt for 42"),
        ("steps", "with_a_plan_b", ["42"], "receipt for 42"),
        ("signals", "shipping", ["42"], "42: nobody answered"),
        ("signals", "either", ["42"], "too late"),
        ("sleeping", "trial", ["ada", datetime(2027, 1, 31, tzinfo=UTC)], None),
        ("children", "survey", [["a", "bcd"]], 4),
        ("children", "careful", [["a", "bcd"]], []),
        ("children", "publish", ["cat"], ["https://pictures.example/cat-320", "https://pictures.example/cat-1280"]),
        ("children", "shop", ["42"], 2),
        ("keys", "fulfil", ["42"], "42 is done"),
        ("long-activities", "convert", ["cat"], "cat.webm"),
    ],
)
async def test_a_workflow_of_a_page_does_what_one_reads(
    tmp_path: Path, page: str, flow: str, args: list[Any], answer: Any
) -> None:
    [file] = (ROOT / "docs").rglob(f"{page}.md")
    module = module_of(file, tmp_path)
    flows, acts = declared_in(module)
    async with Environment(workflows=flows, activities=acts) as env:
        run = await env.start(getattr(module, flow), *args)
        result = json.loads(json.dumps(await run.result()))  # a tuple is shown as the list that it is stored as
        assert (result.replace(run.id, "RUN") if isinstance(result, str) else result) == answer


SHOWN_TEST = re.compile(r"^(?:async )?def (test_\w+)\(\)", re.MULTILINE)
SHOWN_TESTS = [(page, name) for page in all_pages() for name in SHOWN_TEST.findall(module_text(page))]


@pytest.mark.parametrize(("page", "name"), SHOWN_TESTS, ids=[f"{page.stem}-{name}" for page, name in SHOWN_TESTS])
async def test_a_test_that_a_page_shows_passes(page: Path, name: str, tmp_path: Path) -> None:
    result = getattr(module_of(page, tmp_path), name)()
    if inspect.isawaitable(result):
        await result


async def test_the_quote_of_the_page_on_determinism_is_the_same_in_every_replay(tmp_path: Path) -> None:
    quote = module_of(CONCEPTS / "determinism.md", tmp_path).quote
    async with Environment(workflows=[quote]) as env:
        answer = await (await env.start(quote, 100, "EUR")).result()
        assert set(answer) == {"number", "price", "until"}
