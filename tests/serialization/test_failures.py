from __future__ import annotations

import asyncio
import copy
import json
import math
import pickle
import sys
import types
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq.errors import (
    Cancelled,
    ChildCancelled,
    ChildFailed,
    DecodingError,
    DepthExceeded,
    EncodingError,
    KeyTaken,
    NonRetryableError,
    PayloadTooLarge,
    RetryableError,
    RunFinished,
    RunNotFound,
    SignalPayloadError,
    SignalTimeout,
    StepError,
    StepTimeout,
    UsageError,
    WrongState,
)
from runnerq.serialization.failures import (
    CannotRebuild,
    Failure,
    modules_snapshot,
    read,
    rebuild,
    record,
    recorded_failure,
)
from tests.serialization import oddities
from tests.serialization.oddities import Declined, Reason, Text

LOADED = modules_snapshot()


def raised(exc: BaseException) -> BaseException:
    """The exception with a traceback, as a step raises it."""
    try:
        raise exc  # for its traceback
    except BaseException as caught:  # it is the one
        return caught


def recorded(exc: BaseException) -> Failure:
    text = record(raised(exc), LOADED, retryable=True)
    assert json.loads(text)
    return read(text)


def again(exc: BaseException) -> Exception:
    """The exception that a workflow sees."""
    return rebuild(record(raised(exc), LOADED, retryable=True), LOADED)


def shape(exc: BaseException | None) -> Any:
    """What can be told of an exception from outside."""
    if exc is None:
        return None
    members = [shape(each) for each in exc.exceptions] if isinstance(exc, BaseExceptionGroup) else None
    notes = getattr(exc, "__notes__", [])
    return type(exc), str(exc), [] if members else exc.args, notes, shape(exc.__cause__), members


# --- what a record holds ----------------------------------------------------------------------------------------------


def test_a_record_holds_what_can_be_told_of_an_exception():
    cause = raised(KeyError("order"))
    exc = Declined("no funds", 42)
    exc.add_note("the bank said so")
    exc.__cause__ = cause
    failure = read(record(raised(exc), LOADED, retryable=False))
    assert (failure.type, failure.module) == ("Declined", "tests.serialization.oddities")
    assert failure.message == "('no funds', 42)"
    assert failure.args == ("no funds", 42)
    assert failure.notes == ("the bank said so",)
    assert (failure.rebuilt, failure.retryable) == (True, False)
    assert "raise exc" in failure.stack
    assert __file__ in failure.stack
    assert failure.cause is not None
    assert (failure.cause.type, failure.cause.args, failure.cause.rebuilt) == ("KeyError", ("order",), True)
    assert str(failure) == "Declined: ('no funds', 42)"


def test_a_record_names_an_inner_class_by_its_qualified_name():
    failure = recorded(Declined.Fraud("x"))
    assert failure.type == "Declined.Fraud"
    assert type(again(Declined.Fraud("x"))) is Declined.Fraud


def test_a_recorded_failure_reads_back_as_it_was_written():
    failure = recorded(ExceptionGroup("two", [ValueError(1), Declined("x")]))
    assert read(record(rebuild(failure, LOADED), LOADED, retryable=True)) == failure


@pytest.mark.parametrize("text", ["", "[]", '{"type": 5}', "null", "[" * 100_000])
def test_text_that_is_no_record_is_a_decoding_error(text):
    with pytest.raises(DecodingError, match="a recorded failure"):
        read(text)


def test_a_context_that_is_not_suppressed_is_the_cause():
    def step() -> None:
        try:
            raise KeyError("first")  # the point
        except KeyError:
            raise ValueError("second")  # noqa: B904  # the point

    with pytest.raises(ValueError, match="second") as caught:
        step()
    failure = read(record(caught.value, LOADED, retryable=True))
    assert failure.cause is not None
    assert failure.cause.args == ("first",)

    caught.value.__suppress_context__ = True
    assert read(record(caught.value, LOADED, retryable=True)).cause is None


def test_causes_are_followed_16_deep_and_cycles_are_cut():
    exc: Exception = ValueError(0)
    for number in range(1, 100):
        outer = ValueError(number)
        outer.__cause__ = exc
        exc = outer
    failure: Failure | None = recorded(exc)
    numbers = []
    while failure is not None:
        numbers.append(failure.args[0])
        failure = failure.cause
    assert numbers == list(range(99, 83, -1))

    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    failure = recorded(one)
    assert failure.cause is not None
    assert failure.cause.cause is None


def test_the_stack_shows_the_users_frames_and_not_ours():
    def step() -> None:
        record(Unfinished(), LOADED, retryable=True)

    class Unfinished(Exception):
        def __str__(self) -> str:
            with pytest.raises(ValueError, match="inner") as caught:
                raise ValueError("inner")
            stacks.append(read(record(caught.value, LOADED, retryable=True)).stack)
            return "x"

    stacks: list[str] = []
    step()
    assert "test_failures.py" in stacks[0]
    assert "failure_recording" not in stacks[0]
    # Where there are no others, ours are shown: the fault is there.
    with pytest.raises(DecodingError) as caught:
        read("")
    own = caught.value.with_traceback(caught.tb.tb_next)
    assert "failures.py" in read(record(own, LOADED, retryable=True)).stack


# --- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exc",
    [
        ValueError("x"),
        ValueError(),
        ValueError("a", 1, None, True, 2.5, ["l", {"k": 1}]),
        KeyError("order"),
        OSError(2, "No such file or directory", "order.json"),
        FileNotFoundError(2, "No such file or directory", "a", None, "b"),
        ConnectionRefusedError(111, "refused"),
        TimeoutError(),
        ZeroDivisionError("division by zero"),
        AssertionError("never"),
        RecursionError("deep"),
        MemoryError(),
        StopIteration(5),
        json.JSONDecodeError("bad", "{", 1),
        Declined("no funds", 42),
        oddities.Slotted(7),
        oddities.FrozenError(7, "x"),
        oddities.WithState("x", status=404),
        oddities.Worded("o-1"),
        oddities.Grouped("two", [ValueError("x"), Declined("y")]),
        ExceptionGroup("outer", [ExceptionGroup("inner", [KeyError("k")]), ValueError("x")]),
        UsageError("forgot to yield"),
        NonRetryableError("no"),
        RetryableError("later", after=30),
        RetryableError("later", after=timedelta(seconds=30)),
    ],
    ids=repr,
)
def test_an_exception_that_takes_its_arguments_comes_back_as_itself(exc):
    back = again(exc)
    assert back is not exc
    assert shape(back) == shape(exc)
    assert recorded(exc).rebuilt
    # What comes back is recorded as the same again: a workflow that lets it through fails as the step did.
    assert shape(again(back)) == shape(exc)


def test_attributes_that_the_constructor_does_not_set_come_back():
    exc = oddities.WithState("x", status=404)
    exc.connection = "db-1"
    exc.when = {"at": [1, 2]}  # type: ignore[attr-defined]
    back = again(exc)
    assert vars(back) | {"__runnerq_failure__": None} == {
        "status": 404,
        "connection": "db-1",
        "when": {"at": [1, 2]},
        "__runnerq_failure__": None,
    }
    assert again(oddities.Worded("o-1")).order_id == "o-1"  # type: ignore[attr-defined]


def test_an_attribute_that_has_no_json_form_is_what_the_constructor_makes_it():
    exc = oddities.WithState("x", status=404)
    exc.connection = object()
    back = again(exc)
    assert isinstance(back, oddities.WithState)
    assert (back.status, back.connection) == (404, None)


OURS = [
    (StepTimeout("charge", 30.0), ("name", "timeout")),
    (ChildFailed("c-1", "ship", "dead_letter", "no boat"), ("child_id", "name", "status", "message")),
    (ChildCancelled("c-1", "ship", "too late"), ("child_id", "name", "reason")),
    (ChildCancelled("c-1", "ship"), ("child_id", "name", "reason")),
    (SignalTimeout("approval"), ("channel",)),
    (SignalPayloadError("approval", "Decision", "Expected `bool`"), ("channel", "expected", "reason")),
    (KeyTaken("checkout", "order-42", "r-1"), ("workflow", "key", "run_id")),
    (RunNotFound("r-1"), ("run_id",)),
    (RunFinished("r-1", "failed"), ("run_id", "status")),
    (WrongState("r-1", "running", "retry"), ("run_id", "status", "verb")),
    (EncodingError("it", "why", "[0]"), ("what", "reason", "path")),
    (PayloadTooLarge("it", 5, 4), ("what", "size", "limit", "reason", "path")),
    (DecodingError("it", "int", "why"), ("what", "expected", "reason")),
    (DepthExceeded("r-1", "ship"), ("run_id", "child")),
]


@pytest.mark.parametrize(("exc", "attributes"), OURS, ids=lambda each: type(each).__name__)
def test_our_own_errors_come_back_with_their_attributes(exc, attributes):
    back = again(exc)
    assert type(back) is type(exc)
    assert str(back) == str(exc)
    assert [getattr(back, name) for name in attributes] == [getattr(exc, name) for name in attributes]


@pytest.mark.parametrize("exc", [exc for exc, _ in OURS], ids=lambda each: type(each).__name__)
def test_our_own_errors_can_be_copied_and_pickled(exc):
    for back in (copy.copy(exc), pickle.loads(pickle.dumps(exc))):  # noqa: S301  # our own
        assert (type(back), str(back), vars(back)) == (type(exc), str(exc), vars(exc))


def test_the_cause_notes_and_members_come_back():
    exc = ExceptionGroup("two", [Declined("x"), raised(ValueError("y"))])
    exc.__cause__ = KeyError("k")
    exc.add_note("first")
    exc.exceptions[0].add_note("second")
    assert shape(again(exc)) == shape(exc)


def test_each_time_is_a_fresh_instance():
    text = record(raised(ValueError(["mine"])), LOADED, retryable=True)
    failure = read(text)
    for source in (text, failure):
        one, other = rebuild(source, LOADED), rebuild(source, LOADED)
        assert one is not other
        one.args[0].clear()
        assert other.args == (["mine"],)
        assert rebuild(source, LOADED).args == (["mine"],)


def local_class() -> type[Exception]:
    class Local(Exception):
        pass

    return Local


@pytest.mark.parametrize(
    "exc",
    [
        oddities.TwoPart("o-1", 5),
        oddities.Counted(5),
        oddities.Wrapping({1, 2}),
        oddities.OnlyKeywords(code=5),
        oddities.Coded(5, detail="x"),
        ValueError(Decimal("1.5")),
        ValueError((1, 2)),
        ValueError(b"\xff"),
        ValueError(object()),
        ValueError(math.nan),
        ValueError([math.inf]),
        ValueError(Reason.FUNDS),
        ValueError(Text("x")),
        ValueError(*range(100)),
        ValueError({"a": "x" * 100_000}),
        local_class()("x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        ExceptionGroup("many", [ValueError(number) for number in range(300)]),
        BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError("x")]),
        Cancelled("asked for"),
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        asyncio.CancelledError(),
    ],
    ids=lambda exc: repr(exc).partition(" at 0x")[0][:50],
)
def test_an_exception_that_cannot_be_made_again_comes_back_as_a_step_error(exc):
    failure = recorded(exc)
    back = rebuild(failure, LOADED)
    assert type(back) is StepError
    assert not failure.rebuilt
    assert back.failure == failure
    assert str(back) == (failure.message or failure.type)
    assert (failure.type, failure.module) == (type(exc).__qualname__, type(exc).__module__)


def test_arguments_without_a_json_form_are_shown():
    assert recorded(ValueError(Decimal("1.5"), (1, 2), {3}, lambda: 1)).args[:3] == ("1.5", [1, 2], [3])
    assert "<lambda>" in recorded(ValueError(lambda: 1)).args[0]


def test_the_members_of_a_group_that_cannot_be_made_again_are_kept():
    back = again(BaseExceptionGroup("two", [KeyboardInterrupt(), Declined("x")]))
    assert isinstance(back, StepError)
    assert [member.type for member in back.failure.members] == ["KeyboardInterrupt", "Declined"]


def test_a_step_error_that_passes_through_a_workflow_keeps_its_record():
    first = recorded(oddities.TwoPart("o-1", 5))
    passed = raised(rebuild(first, LOADED))
    assert read(record(passed, LOADED, retryable=True)) == first
    assert recorded_failure(passed) == first
    outer = ChildFailed("c-1", "ship", "failed")
    outer.__cause__ = passed
    assert recorded(outer).cause == first


def test_an_exception_that_passes_through_a_workflow_keeps_the_stack_of_its_step():
    first = recorded(Declined("x"))
    passed = raised(rebuild(first, LOADED))
    second = read(record(passed, LOADED, retryable=True))
    assert second.stack.startswith(first.stack)
    assert "Raised again" in second.stack
    assert recorded_failure(passed) == first
    assert recorded_failure(Declined("x")) is None


# --- which classes are to be had --------------------------------------------------------------------------------------


@pytest.fixture
def plugin():
    """A module that a step imports lazily."""
    module = types.ModuleType("a_lazily_imported_plugin")
    exec("class PluginError(Exception): pass", vars(module))  # noqa: S102  # a module without a file
    sys.modules[module.__name__] = module
    yield module
    sys.modules.pop(module.__name__, None)


def test_a_class_of_a_module_that_was_not_loaded_at_the_start_is_not_rebuilt(plugin):
    text = record(plugin.PluginError("x"), LOADED, retryable=True)
    assert not read(text).rebuilt
    # Not even later, where it is to be had: the record decides.
    assert type(rebuild(text, modules_snapshot())) is StepError


def test_a_class_that_was_rebuilt_before_and_is_not_to_be_had_here_is_never_another(plugin):
    text = record(plugin.PluginError("x"), modules_snapshot(), retryable=True)
    assert type(rebuild(text, modules_snapshot())) is plugin.PluginError
    with pytest.raises(
        CannotRebuild, match=r"a_lazily_imported_plugin\.PluginError .*that class is not loaded"
    ) as caught:
        rebuild(text, LOADED)
    assert caught.value.failure == read(text)
    del sys.modules[plugin.__name__]
    with pytest.raises(CannotRebuild):
        rebuild(text, LOADED | {plugin.__name__})


@pytest.mark.parametrize(
    ("replacement", "reason"),
    [
        ("PluginError = 5", "not loaded"),
        ("class PluginError: pass", "not loaded"),
        ("class PluginError(BaseException): pass", "not loaded"),
        ("def __getattr__(name): return ValueError\ndel PluginError", "not loaded"),
        ("class PluginError(Exception):\n def __init__(self, a, b): pass", "its constructor raised TypeError"),
        ("class PluginError(Exception):\n def __new__(cls, a): return ValueError(a)", "makes a ValueError"),
    ],
)
def test_a_class_that_has_become_another_is_not_rebuilt(plugin, replacement, reason):
    loaded = modules_snapshot()
    text = record(plugin.PluginError("x"), loaded, retryable=True)
    exec(replacement, vars(plugin))  # noqa: S102  # a module without a file
    with pytest.raises(CannotRebuild, match=reason):
        rebuild(text, loaded)


def test_a_cause_that_cannot_be_rebuilt_here_blocks_too(plugin):
    exc = ValueError("x")
    exc.__cause__ = plugin.PluginError("y")
    text = record(exc, modules_snapshot(), retryable=True)
    with pytest.raises(CannotRebuild):
        rebuild(text, LOADED)


def test_a_record_names_no_module_to_import():
    text = json.dumps({"type": "TarError", "module": "tarfile_that_nobody_loaded", "message": "x", "rebuilt": True})
    with pytest.raises(CannotRebuild):
        rebuild(text, LOADED | {"tarfile_that_nobody_loaded"})
    text = json.dumps({"type": "getcwd", "module": "os", "message": "x", "rebuilt": True})
    with pytest.raises(CannotRebuild):
        rebuild(text, LOADED)


# --- nothing stops a record -------------------------------------------------------------------------------------------


def test_a_constructor_that_works_only_once_is_found_out_when_it_is_recorded():
    oddities.Growing.made = 0
    exc = oddities.Growing("x")
    assert not recorded(exc).rebuilt


def cannot_note() -> Exception:
    exc = ValueError("x")
    exc.__notes__ = 5  # type: ignore[assignment]
    return exc


def odd_notes() -> Exception:
    exc = ValueError("x")
    exc.__notes__ = [oddities.Unprintable(), "fine"]  # type: ignore[list-item]
    return exc


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: oddities.Unprintable("x"), "<Unprintable, whose str() failed>"),
        (lambda: oddities.Exiting("x"), "<Exiting, whose str() failed>"),
        (lambda: ValueError(oddities.Unprintable()), "<ValueError, whose str() failed>"),
        (cannot_note, "x"),
        (odd_notes, "x"),
    ],
)
def test_an_exception_whose_own_methods_fail_is_recorded(make: Callable[[], Exception], message: str):
    failure = recorded(make())
    assert failure.message == message
    assert isinstance(again(make()), Exception)


def test_an_exception_that_fails_at_everything_is_recorded_by_its_class():
    failure = recorded(oddities.Lying("x"))
    assert (failure.type, failure.retryable) == ("Lying", True)
    assert isinstance(again(oddities.Lying("x")), StepError)


def test_notes_that_are_none_are_left_out_and_odd_ones_stand_in():
    assert recorded(cannot_note()).notes == ()
    assert recorded(odd_notes()).notes == ("<a note>", "fine")


def test_lone_surrogates_and_nul_in_texts_are_readable():
    exc = ValueError("bad \udc80 and \0")
    exc.add_note("\ud800")
    failure = recorded(exc)
    assert failure.message == "bad \\udc80 and \0"
    assert failure.args == ("bad \\udc80 and \0",)
    assert failure.notes == ("\\ud800",)
    assert shape(again(exc))[:3] == (ValueError, "bad \\udc80 and \0", ("bad \\udc80 and \0",))
    assert type(again(KeyError("\udc80"))) is KeyError


def test_long_texts_are_cut_in_the_middle_and_keep_their_class():
    exc = Declined("start" + "x" * 1_000_000 + "end")
    exc.add_note("y" * 1_000_000)
    for _ in range(100):
        exc.add_note("z" * 10_000)
    text = record(exc, LOADED, retryable=True)
    failure = read(text)
    assert len(text) < 300_000
    assert failure.message.startswith("start")
    assert failure.message.endswith("end")
    assert "characters left out" in failure.message
    assert type(rebuild(text, LOADED)) is Declined


def test_wide_and_deep_groups_stay_bounded():
    exc: Exception = ValueError("x" * 10_000)
    for _ in range(30):
        exc = ExceptionGroup("y" * 10_000, [exc, *(ValueError("z" * 10_000) for _ in range(10))])
    text = record(exc, LOADED, retryable=True)
    assert len(text) < 400_000
    assert type(rebuild(text, LOADED)) is StepError


def test_a_traceback_of_a_thousand_frames_is_cut():
    def fall(levels: int) -> None:
        if levels == 0:
            raise ValueError("bottom")
        fall(levels - 1)

    with pytest.raises(ValueError, match="bottom") as caught:
        fall(500)
    stack = read(record(caught.value, LOADED, retryable=True)).stack
    assert "frames left out" in stack
    assert len(stack) < 20_000
    assert 'raise ValueError("bottom")' in stack


def test_an_interrupt_while_recording_passes_through():
    class Interrupted(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(Interrupted(), LOADED, retryable=True)


def test_a_record_made_deep_in_a_recursion_is_a_record():
    def deep() -> str:
        try:
            return deep()
        except RecursionError as exc:
            return record(exc, LOADED, retryable=True)

    assert read(deep()).type == "RecursionError"


json_args = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(json_args, max_size=4), st.sampled_from([ValueError, Declined, KeyError, StopIteration, OSError]))
def test_whatever_its_arguments_an_exception_comes_back_with_equal_ones_or_as_a_step_error(args, cls):
    exc = cls(*args)
    back = rebuild(record(exc, LOADED, retryable=True), LOADED)
    if type(back) is type(exc):
        readable = [
            each.encode("utf-8", "backslashreplace").decode() if type(each) is str else each for each in exc.args
        ]
        assert list(back.args) == readable
    else:
        assert type(back) is StepError
