"""The page of errors has every error, with a message as it is, a cause and a cure."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime

import pytest

from runnerq import errors
from runnerq.cli.exits import EXIT_CODES
from runnerq.persistence.records import BlockRecord
from runnerq.serialization.failures import Failure
from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
CLASSES = {
    name: cls
    for name, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, BaseException) and cls.__module__ == errors.__name__
}

RUN = "01990000-0000-7000-8000-000000000001"
CHILD = "01990000-0000-7000-8000-000000000002"
BLOCKED = BlockRecord(
    run_id=RUN, at=datetime.now(UTC), message="the workflow asks for something else than is on record"
)
MADE = [
    errors.NondeterminismError(
        f"run {RUN}: the workflow uses time.time at shop.py:12, which will not be the same in a replay: use ctx.now() "
        "instead"
    ),
    errors.EncodingError(
        "the arguments of charge", "it holds NaN or infinity, and JSON has no such number", ".lines[0].price"
    ),
    errors.PayloadTooLarge("the answer of make_report", 1_572_864, 1_048_576),
    errors.DecodingError("the answer of charge", "Receipt", "Object missing required field `currency`"),
    errors.PayloadUnreadable(RUN, "the input", "aes-gcm", "2025", "missing"),
    errors.RunNotFound(RUN),
    errors.ScheduleNotFound("nightly"),
    errors.RunFinished(RUN, "completed"),
    errors.KeyTaken("checkout", "order-42", RUN),
    errors.WrongState(RUN, "completed", "retry"),
    errors.RunFailed(RUN, "checkout", "failed", None, Failure("ValueError", "builtins", "the order is empty")),
    errors.RunCancelled(RUN, "the customer has withdrawn"),
    errors.RunBlocked(RUN, "checkout", BLOCKED),
    errors.ResultTimeout(RUN, "waiting", 30.0),
    errors.StepError("429 too many requests"),
    errors.StepTimeout("charge", 300.0),
    errors.ChildFailed(CHILD, "ship", "failed", "no such address"),
    errors.ChildCancelled(CHILD, "ship", "the customer has withdrawn"),
    errors.DepthExceeded(RUN, "ship"),
    errors.SignalTimeout("approval"),
    errors.SignalPayloadError("approval", "bool", "Expected `bool`, got `str`"),
    errors.NonRetryableError("the card has expired"),
    errors.RetryableError("the bank is closed", after=3600),
    errors.Cancelled(),
]


def test_every_error_has_a_section_with_a_cause_and_a_cure_and_there_is_none_besides() -> None:
    assert sorted(SECTIONS) == sorted(CLASSES)
    assert [name for name, text in SECTIONS.items() if not ("\nCause: " in text and "\nCure: " in text)] == []


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_the_message_that_is_shown_is_the_errors_own(error: BaseException) -> None:
    assert f"```\n{error}\n```" in SECTIONS[type(error).__name__]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_the_attributes_of_an_error_are_named(error: BaseException) -> None:
    own = {name for name in vars(error) if not name.startswith("_")} - {"message"}
    assert [name for name in sorted(own) if f"`{name}`" not in SECTIONS[type(error).__name__]] == []


def test_the_tree_is_that_of_the_module() -> None:
    tree = PAGE.partition("```\n")[2].partition("```")[0]
    assert sorted(re.findall(r"\w+", tree)) == sorted(set(CLASSES) - {"Cancelled"})
    below: list[tuple[int, str]] = []
    for line in tree.splitlines():
        depth = len(line) - len(line.lstrip("│ ├└─"))
        while below and below[-1][0] >= depth:
            below.pop()
        for name in re.findall(r"\w+", line):
            if below:
                assert below[-1][1] in {base.__name__ for base in CLASSES[name].__bases__}, line
        below.append((depth, re.findall(r"\w+", line)[-1]))


def test_the_exit_codes_of_the_page_are_those_of_the_command_line() -> None:
    sentence = " ".join(re.findall(r"^The command line turns .*?else 1\.$", PAGE, re.MULTILINE | re.DOTALL)[0].split())
    told = {
        name: int(code)
        for code, names in re.findall(r"(\d+) for ((?:`\w+`(?:, | and )?)+)", sentence)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert told == {cls.__name__: code for cls, code in EXIT_CODES if code != 1 and cls.__name__ in CLASSES}
