"""How an exception that leaves a workflow ends its run."""

from __future__ import annotations

import pytest

from runnerq.errors import UsageError
from runnerq.serialization.failures import modules_snapshot, rebuild, record
from runnerq.workflow.ending import is_code_fault, is_exhausted


def recorded(error: Exception, *, exhausted: bool) -> Exception:
    modules = modules_snapshot()
    return rebuild(record(error, modules, retryable=exhausted), modules)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_a_recorded_failure_of_used_up_attempts_makes_a_dead_letter() -> None:
    assert is_exhausted(recorded(ValueError("no"), exhausted=True))


def test_the_same_failure_wrapped_by_the_workflow_still_makes_a_dead_letter() -> None:
    assert is_exhausted(caused(RuntimeError("wrapped"), recorded(ValueError("no"), exhausted=True)))


def test_what_caused_a_recorded_failure_says_nothing_of_its_attempts() -> None:
    final = caused(ValueError("not to be tried again"), TypeError("a cause that looks retryable"))
    assert not is_exhausted(recorded(final, exhausted=False))


def test_an_error_of_the_workflow_itself_is_no_dead_letter() -> None:
    assert not is_exhausted(ValueError("no"))


@pytest.mark.parametrize(
    "error", [TypeError("x"), KeyError("x"), AttributeError("x"), UsageError("x"), ImportError("x")]
)
def test_what_looks_like_a_fault_of_the_code_is_one(error: Exception) -> None:
    assert is_code_fault(error)


def test_a_fault_raised_while_a_recorded_failure_is_handled_is_no_fault_of_the_code() -> None:
    error = TypeError("x")
    error.__context__ = recorded(ValueError("no"), exhausted=False)
    assert not is_code_fault(error)


def test_a_group_of_nothing_but_faults_of_the_code_is_one() -> None:
    fault = ExceptionGroup("two", [TypeError("a"), ExceptionGroup("inner", [KeyError("b")])])
    assert is_code_fault(fault)
    assert not is_code_fault(ExceptionGroup("two", [TypeError("a"), ValueError("b")]))
    assert not is_code_fault(ExceptionGroup("two", [TypeError("a"), recorded(TypeError("b"), exhausted=False)]))


def test_a_group_is_looked_into() -> None:
    group = ExceptionGroup("two", [ValueError("a"), recorded(ValueError("b"), exhausted=True)])
    assert is_exhausted(group)
