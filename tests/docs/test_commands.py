"""No page shows a command or an option that there is not."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from tests.architecture.source import ROOT
from tests.docs.commands import commands_shown, faults_of, files_run, variables_of_options
from tests.docs.pages import all_pages, blocks_of, name_of


def test_every_command_that_a_page_shows_is_one_that_there_is() -> None:
    shown = list(commands_shown())
    assert sum("runnerq" in line for _, line, _ in shown) > 15, "the commands are shown in another way now"
    assert [f"{where}: {fault}" for where, line, whole in shown for fault in faults_of(line, whole=whole)] == []


def test_programs_that_a_page_has_you_run_are_there() -> None:
    assert [str(file) for _, line, _ in commands_shown() for file in files_run(line) if not file.exists()] == []


@pytest.mark.parametrize(
    ("line", "whole", "fault"),
    [
        ("runnerq worker shop -c 4", True, None),
        ("RUNNERQ_DSN=x runnerq result ID --wait | jq .", True, None),
        ("runnerq send", False, None),
        ("runnerq start checkout '\"order 42\"' --key k  # a comment", True, None),
        ("pip install 'runnerq[embedded,console]'", True, None),
        ("make demo", True, None),
        ("runnerq wroker shop", True, "no command"),
        ("runnerq worker shop --reloadd", True, "--reloadd"),
        ("runnerq send", True, "is missing"),
        ("runnerq schedule lst", False, "no command"),
        ("echo x && runnerq queue show mail MORE", True, "takes no"),
        ("pip install 'runnerq[embeded]'", True, "no extra"),
        ("make demmo", True, "no such target"),
    ],
)
def test_a_wrong_command_is_found_and_a_right_one_is_not(line: str, whole: bool, fault: str | None) -> None:
    told = faults_of(line, whole=whole)
    assert bool(told) == (fault is not None), told
    assert fault is None or fault in told[0]


def test_variables_that_a_page_names_are_read_somewhere() -> None:
    named = re.compile(r"\bRUNNERQ_[A-Z_]*[A-Z]\b")
    read = set(variables_of_options())
    for folder in ("runnerq", "benchmarks", "tests/postgres.py", "tests/pgbouncer.py"):
        for file in (ROOT / folder).rglob("*.py") if (ROOT / folder).is_dir() else [ROOT / folder]:
            read |= set(named.findall(file.read_text(encoding="utf-8")))
    told = {(name_of(page), name) for page in all_pages() for name in named.findall(page.read_text(encoding="utf-8"))}
    assert told
    assert sorted((page, name) for page, name in told if name not in read) == []


def test_every_request_that_a_page_shows_is_one_of_the_api() -> None:
    document = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text(encoding="utf-8"))
    there = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    asked = list(_requests())
    assert asked
    assert [(where, method, path) for where, method, path in asked if not _answers(there, method, path)] == []


def _requests() -> Iterator[tuple[str, str, str]]:
    """Every ``curl`` of an address of the API: where it stands, its method, its path below ``/api/v1``."""
    for page in all_pages():
        for block in blocks_of(page):
            for line in block.text.replace("\\\n", " ").splitlines():
                if "curl " in line and "/api/v1/" in line:
                    words = shlex.split(line, comments=True)
                    [address] = [word for word in words if "/api/v1/" in word]
                    yield block.where, _method(words), "/" + address.partition("/api/v1/")[2].partition("?")[0]


def _method(words: list[str]) -> str:
    for option in ("-X", "--request"):
        if option in words:
            return words[words.index(option) + 1]
    return "POST" if {"-d", "--data", "--json"} & set(words) else "GET"


def _answers(there: set[tuple[str, str]], method: str, path: str) -> bool:
    pattern = re.compile(r"\\{[^/]+\\}")
    return any(
        known == method and re.fullmatch(pattern.sub("[^/]+", re.escape(template)), path) is not None
        for known, template in there
    )
