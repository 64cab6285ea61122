"""The checks of a load find what they are for, and blame nobody for what a log cannot tell."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.faults.ledger import Ledger
from tests.limits.checks import Judged, judged, observed
from tests.limits.plan import Rule

ONE = Rule(concurrency=1)
EACH = Rule(concurrency=1, per_key=True)
RATE = Rule(rate=(2, 1.0))


class Book:
    """Writes a log by hand, with times of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ledger = Ledger(folder)

    def line(self, book: str, at: float, *words: object) -> None:
        with (self._folder / book).open("a") as file:
            file.write("\t".join((f"{at:.6f}", *map(str, words))) + "\n")

    def rule(self, at: float, rule: Rule, *, took: float = 0.0) -> None:
        text = msgspec.json.encode(rule).decode()
        self.line("rules", at, "asked", "s", text)
        self.line("rules", at + took, "answered", "s", text)

    def run(
        self,
        name: str,
        sent: float,
        began: float,
        ended: float | None,
        *,
        key: str = "",
        process: int = 1,
        token: int = 1,
    ) -> None:
        self.line("claimed", began, sent, name, token)
        words = ("s", key, name, token, "-", 1, process)
        self.line("inside", began, "in", *words)
        if ended is not None:
            self.line("inside", ended, "out", *words)

    def judged(self) -> Judged:
        return judged(observed(self._ledger))


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def test_two_inside_where_one_may_be_are_found(book: Book) -> None:
    book.rule(0, ONE)
    book.run("a", 1, 2, 4)
    book.run("b", 3, 3.5, 5)
    [fault] = book.judged().faults
    assert fault.startswith("2 runs of 's'")


def test_one_after_the_other_is_right_and_counts_as_full(book: Book) -> None:
    book.rule(0, ONE)
    book.run("a", 1, 2, 4)
    book.run("b", 3, 4.1, 5)
    found = book.judged()
    assert (found.faults, found.full) == ([], 2)


def test_each_key_is_judged_by_itself(book: Book) -> None:
    book.rule(0, EACH)
    book.run("a", 1, 2, 9, key="x")
    book.run("b", 1, 2, 9, key="y")
    assert book.judged().faults == []
    book.run("c", 3, 4, 5, key="y")
    assert len(book.judged().faults) == 1


def test_the_rule_since_the_claim_was_sent_counts_and_a_later_one_does_not(book: Book) -> None:
    book.rule(0, Rule(concurrency=2))
    book.run("a", 1, 2, 9)
    book.run("b", 2, 4, 9)  # admitted by the wider rule, perhaps
    book.rule(3, ONE, took=0.5)
    assert book.judged().faults == []
    book.run("c", 5, 6, 7)
    assert len(book.judged().faults) == 1


def test_what_a_killed_process_had_inside_is_not_inside_any_longer(book: Book) -> None:
    book.rule(0, ONE)
    book.run("a", 1, 2, None, process=7)
    book.line("killed", 3, 7)
    book.run("a", 3.5, 4, 5, token=2)
    found = book.judged()
    assert (found.faults, found.again) == ([], 1)


def test_an_attempt_that_began_twice_though_nobody_was_killed_is_found(book: Book) -> None:
    book.rule(0, Rule(concurrency=5))
    book.run("a", 1, 2, 3)
    book.run("a", 3.5, 4, 5, token=2)
    [fault] = book.judged().faults
    assert "began 2 times" in fault


def test_more_admissions_than_a_span_may_have_are_found_where_they_are_sure(book: Book) -> None:
    book.rule(0, RATE)
    book.run("a", 1.0, 1.1, 1.2)
    book.run("b", 1.0, 1.2, 1.3)
    book.run("c", 1.0, 2.05, 2.1)  # its claim may have been sent long before it was answered
    found = book.judged()
    assert (found.faults, found.rates_used_up) == ([], 1)
    book.run("d", 1.8, 1.9, 2.0)
    [fault] = book.judged().faults
    assert "3 runs of 's' ('') admitted within 1.0 s" in fault


def test_an_admission_while_the_rule_was_changed_is_nobodys(book: Book) -> None:
    book.rule(0, RATE)
    book.run("a", 1.0, 1.1, 1.2)
    book.run("b", 1.1, 1.2, 1.3)
    book.run("c", 1.2, 1.5, 1.6)
    book.rule(1.4, Rule(rate=(5, 1.0)), took=0.2)
    assert book.judged().faults == []
