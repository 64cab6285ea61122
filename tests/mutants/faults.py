"""Faults put into the SQL statements, one at a time, each of which must turn a test red."""

from __future__ import annotations

from dataclasses import dataclass

VARIABLE = "RUNNERQ_TEST_MUTANT"


@dataclass(frozen=True)
class Fault:
    name: str

    def apply(self, texts: dict[str, str]) -> None: ...


BY_NAME: dict[str, Fault] = {}
