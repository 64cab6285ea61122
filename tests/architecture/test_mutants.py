"""The faults that ``python -m tests.mutants`` puts into the product still have their place there, and their tests.

They are put in seldom, as that takes long: what has gone stale is to show with every change.
"""

from __future__ import annotations

from collections import Counter

from tests.architecture.naming import TESTS, names_of_tests
from tests.architecture.source import ROOT
from tests.mutants.__main__ import KINDS
from tests.mutants.faults import Fault

ALL = [fault for faults in KINDS.values() for fault in faults]


def test_no_two_faults_have_one_name() -> None:
    assert [name for name, times in Counter(fault.name for fault in ALL).items() if times > 1] == []


def test_what_a_fault_replaces_stands_in_the_product() -> None:
    assert {fault.name: gone for fault in ALL if (gone := _gone(fault))} == {}


def test_the_tests_that_are_to_notice_a_fault_are_there() -> None:
    named = {fault.name: (*fault.noticed_by, *fault.still_green) for fault in ALL}
    assert {name: [test for test in tests if not _is_there(test)] for name, tests in named.items()} == {
        name: [] for name in named
    }


def _gone(fault: Fault) -> list[str]:
    """The old texts that its file does not hold any more."""
    text = (ROOT / fault.file).read_text("utf-8")
    gone = []
    for old, new in fault.edits:
        if old not in text:
            gone.append(old)
        text = text.replace(old, new)
    return gone


def _is_there(test: str) -> bool:
    """Whether there is such a file or folder, class, test, or case of one; classes may be of the conformance suite."""
    path, *within = test.partition("[")[0].split("::")
    if not within or not (ROOT / path).is_file():
        return not within and (ROOT / path).exists()
    own = "::".join((str((ROOT / path).relative_to(TESTS)), *within))
    shared = "::".join(("", *within, ""))
    return any(
        f"{name}::".startswith(f"{own}::") or (name.startswith("conformance/") and shared in f"{name}::")
        for name in names_of_tests()
    )
