"""What a user may get wrong: it is an error at the line that did it, and says what was meant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any

import pytest

from runnerq.errors import ConfigurationError, EncodingError, UsageError
from runnerq.workflow.commands import Command, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.journal import Started
from runnerq.workflow.yields import MAX_LEVELS
from tests.workflow.driver import START, Body, Drive, an_interpreter, drive, line_in
from tests.workflow.steps import GO, Order, anything, price, ship


async def a_coroutine_function() -> None: ...


async def a_transaction(connection: Any) -> None: ...


CLOSED = asyncio.new_event_loop()
CLOSED.close()


def a_branch(ctx: Context) -> Any:
    yield ctx.sleep(1)


def said(make: Callable[[Context], Any]) -> str:
    """What a workflow is told that yields this."""

    def wf(ctx: Context) -> Any:
        try:
            yield make(ctx)
        except UsageError as error:
            message = str(error)
        yield ctx.sleep(1)
        return message

    run = drive(wf)
    assert run.open == {"1": "sleep"}, "what is refused takes no number"
    message = run.answer("1").result
    assert isinstance(message, str)
    return message


# --- what is yielded --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("yielded", "hint"),
    [
        (lambda ctx: None, "did the call forget to return its command"),
        (lambda ctx: 42, "int where a command is expected"),
        (lambda ctx: [ctx.sleep(1)], "a list where a command is expected: use ctx.all(...) or ctx.gather([...])"),
        (lambda ctx: (ctx.sleep(1),), "a tuple"),
        (lambda ctx: {"a": 1}, "a dict"),
        (lambda ctx: {1}, "a set"),
        (a_branch, "write `yield from` before it"),
        (lambda ctx: a_coroutine_function(), "give the function to ctx.step, without calling it"),
        (lambda ctx: price, "price, a function, where a command is expected: use ctx.step(...)"),
        (lambda ctx: asyncio.Future(loop=CLOSED), "Future, to be awaited"),
        (lambda ctx: Context().sleep(1), "belongs to another run's context"),
    ],
)
def test_a_bad_yield_is_thrown_at_the_users_line_with_a_hint(yielded: Callable[[Context], Any], hint: str) -> None:
    assert hint in said(yielded)


def test_a_bad_yield_that_is_not_caught_blocks_at_its_line() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)
        yield [1]

    run = drive(wf, {"1": None})
    assert isinstance(run.block.error, UsageError)
    assert run.block.line == f"{line_in(wf, '[1]')} in wf"


def test_a_command_of_another_run() -> None:
    kept: list[Any] = []

    def other(ctx: Context) -> Any:
        kept.append(ctx.sleep(1))
        yield ctx.sleep(2)

    drive(other)
    assert "belongs to another run's context" in said(lambda ctx: kept[0])
    assert "belongs to another run's context" in said(lambda ctx: ctx.all(kept[0]))


@pytest.mark.parametrize("how", ["yield", "yield from", "member", "member of a member"])
def test_a_command_is_used_once(how: str) -> None:
    def wf(ctx: Context) -> Any:
        nap = ctx.sleep(1)
        yield nap
        try:
            if how == "yield from":
                yield from nap
            yield {
                "yield": lambda: nap,
                "member": lambda: ctx.race(ctx.sleep(2), nap),
                "member of a member": lambda: ctx.all(ctx.all(nap)),
            }[how]()
        except UsageError as error:
            return str(error)

    assert "deadline = ctx.now() + d" in drive(wf, {"1": None}).result


def test_a_member_is_used_once() -> None:
    def wf(ctx: Context) -> Any:
        nap = ctx.sleep(1)
        try:
            yield ctx.all(nap, nap)
        except UsageError as error:
            return str(error)

    assert "was used already" in drive(wf).result


@pytest.mark.parametrize("second", ["in the same", "in another", "after it ended", "half way"])
def test_a_branch_is_used_once(second: str) -> None:
    def wf(ctx: Context) -> Any:
        branch = a_branch(ctx)
        match second:
            case "in another":
                waiting = yield ctx.race(ctx.publish(a=1), ctx.gather([ctx.sleep(1), branch], limit=1))
                assert waiting.index == 0
            case "after it ended":
                yield ctx.all(branch)
            case "half way":
                next(branch)
        try:
            yield ctx.all(branch, branch)
        except UsageError as error:
            return str(error)

    run = drive(wf, {"1.0.1": None} if second == "after it ended" else {})
    assert "a branch of <all> was used already" in run.result


def test_a_branch_that_waits_for_its_turn_belongs_to_its_composite() -> None:
    shared: dict[int, Any] = {}

    def thief(ctx: Context) -> Any:
        try:
            yield ctx.all(shared[id(ctx)])
        except UsageError as error:
            return str(error)

    def wf(ctx: Context) -> Any:
        shared[id(ctx)] = a_branch(ctx)
        return (yield ctx.gather([thief(ctx), shared[id(ctx)]], limit=1))

    assert "was used already" in drive(wf, {"1.1.1": None}).result[0]


def test_nesting_has_a_limit() -> None:
    def nest(ctx: Context) -> Any:
        command: Command[Any] = ctx.sleep(1)
        for _ in range(MAX_LEVELS + 1):
            command = ctx.all(command)
        return command

    assert "composites and branches deep" in said(nest)


def test_what_nests_to_the_limit_works() -> None:
    def wf(ctx: Context) -> Any:
        command: Command[Any] = ctx.all(ctx.sleep(1))
        for _ in range(MAX_LEVELS - 1):
            command = ctx.all(command)
        yield command

    [position] = drive(wf).open
    assert position.count(".") == MAX_LEVELS


def test_branches_in_branches_to_the_limit_work_are_cancelled_and_end() -> None:
    def nested(ctx: Context, depth: int) -> Any:
        if depth:
            yield ctx.all(nested(ctx, depth - 1), ctx.sleep(9))
        else:
            yield ctx.sleep(1)

    # One start is enough: each prefix again would take the test's time, and shows nothing more.
    for end in ("answered", "cancelled"):
        run = an_interpreter(nested, MAX_LEVELS // 2)
        run.begin(Started(seed="s", build="b"), START)
        assert max(position.count(".") for position in run.leaves) == MAX_LEVELS
        if end == "cancelled":
            run.cancel(None, START)
        for position in sorted(run.leaves, key=len, reverse=True):
            run.answer(position, None, None, START)
        assert run.end is not None
        run.close()


def test_branches_that_start_each_other_have_a_limit() -> None:
    def again(ctx: Context) -> Any:
        yield ctx.all(again(ctx))

    block = drive(again).block
    assert isinstance(block.error, UsageError)
    assert "flatten" in block.message


@pytest.mark.parametrize("member", [None, 5, [1], price])
def test_a_member_that_is_no_command(member: Any) -> None:
    assert "member 1 of all is" in said(lambda ctx: ctx.all(ctx.sleep(1), member))
    assert "member 0 of gather is" in said(lambda ctx: ctx.gather([member]))
    assert "member 0 of race is" in said(lambda ctx: ctx.race(member))


def test_a_coroutine_as_a_member_or_a_step_is_closed() -> None:
    assert "without calling it" in said(lambda ctx: ctx.all(a_coroutine_function()))
    assert "without calling it" in said(lambda ctx: ctx.step(a_coroutine_function()))  # type: ignore[call-overload]
    assert "is not a function" in said(lambda ctx: ctx.step("price"))  # type: ignore[call-overload]


# --- a command that is not yielded ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda ctx: bool(ctx.step(price, 1)),
        lambda ctx: list(ctx.gather([])),
        lambda ctx: [repr(one) for one in ctx.all(ctx.sleep(1))],
        lambda ctx: dict.fromkeys(ctx.all()),
        lambda ctx: print(*ctx.all(ctx.sleep(1), ctx.sleep(2))),
        lambda ctx: "no" if not ctx.signal("go") else "yes",
        lambda ctx: ctx.gather(ctx.all()),
    ],
)
def test_a_command_used_as_its_answer_says_what_was_forgotten(use: Callable[[Context], Any]) -> None:
    def wf(ctx: Context) -> Any:
        try:
            use(ctx)
        except UsageError as error:
            yield ctx.sleep(1)
            return str(error)

    assert "write `yield from` before it" in drive(wf, {"1": None}).result


def test_unpacking_a_command_says_what_was_forgotten() -> None:
    def wf(ctx: Context) -> Any:
        try:
            _one, _two = ctx.all(ctx.sleep(1), ctx.sleep(2))
        except UsageError as error:
            yield ctx.sleep(1)
            return str(error)

    assert "unpacked" in drive(wf, {"1": None}).result


def test_commands_that_are_never_yielded_are_named_with_their_line() -> None:
    def wf(ctx: Context) -> Any:
        ctx.step(price, "forgotten")
        ctx.all(ctx.sleep(1), ctx.step(price, "inside"))
        yield ctx.all(ctx.sleep(3), ctx.options(timeout=1).child(ship, None))  # type: ignore[arg-type]

    forgotten = drive(wf).run.never_yielded()
    assert [(repr(command), command.line) for command in forgotten] == [
        ("<step 'price'>", line_in(wf, "forgotten")), ("<all>", line_in(wf, "inside")),
    ]  # fmt: skip
    assert Context().sleep(1).line == "an unknown line"


# --- what is returned -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "hint"),
    [
        (lambda ctx: ctx.step(price, 1), "<step 'price'>, a command that was not asked for: write `yield from`"),
        (a_branch, "a generator"),
        (lambda ctx: a_coroutine_function(), "a coroutine"),
    ],
)
def test_a_return_of_what_was_to_be_yielded_blocks(returned: Callable[[Context], Any], hint: str) -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)
        return returned(ctx)

    run = drive(wf, {"1": None})
    assert "the workflow returned" in run.block.message
    assert hint in run.block.message


def test_a_branch_that_returns_a_command_blocks() -> None:
    def branch(ctx: Context) -> Any:
        yield ctx.sleep(1)
        return ctx.sleep(2)

    def wf(ctx: Context) -> Any:
        yield ctx.all(branch(ctx))

    assert "the branch at 1.0 returned" in drive(wf, {"1.0.1": None}).block.message


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda ctx: ctx.step(anything, object()),
        lambda ctx: ctx.child(ship, object()),
        lambda ctx: ctx.spawn(ship, object()),
        lambda ctx: ctx.send("018f3d5e-7a0c-7c2b-8b7e-ffffffffffff", "go", object()),
        lambda ctx: ctx.publish(a=object()),
        lambda ctx: ctx.signal("go", timeout=1, default=object()),
        lambda ctx: ctx.all(ctx.sleep(1), ctx.step(anything, float("nan"))),
    ],
)
def test_what_cannot_be_encoded_is_an_error_at_the_users_line_and_asks_nothing(make: Callable[[Context], Any]) -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield make(ctx)
        except EncodingError as error:
            message = str(error)
        yield ctx.sleep(1)
        return message

    run = drive(wf)
    assert run.open == {"1": "sleep"}
    assert "cannot be stored" in run.answer("1").result


def test_one_that_is_not_caught_ends_the_run_with_that_reason() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(anything, object())

    assert isinstance(drive(wf).error, EncodingError)


def unresolvable() -> NotThere:  # type: ignore[name-defined]  # noqa: F821 - on purpose
    raise AssertionError


def undecodable() -> Callable[[], None]:
    raise AssertionError


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda ctx: ctx.step(unresolvable), "NotThere"),
        (lambda ctx: ctx.step(undecodable), "cannot be stored and read back"),
        (lambda ctx: ctx.child(undecodable), "cannot be stored and read back"),
        (lambda ctx: ctx.signal(Signal("go", Callable[[], None])), "cannot be stored and read back"),
        (lambda ctx: ctx.step(a_branch, 1), "with ctx.all, or as a run of its own with ctx.child"),
        (lambda ctx: ctx.sleep(-1), "not negative"),
        (lambda ctx: ctx.sleep("1"), "a number of seconds or a timedelta"),
        (lambda ctx: ctx.sleep(True), "a number of seconds or a timedelta"),
        (lambda ctx: ctx.sleep(float("nan")), "a number of seconds"),
        (lambda ctx: ctx.sleep(10**400), "at most 1,000 years"),
        (lambda ctx: ctx.sleep(timedelta.max), "at most 1,000 years"),
        (lambda ctx: ctx.signal(GO, timeout=-1), "not negative"),
        (lambda ctx: ctx.signal(""), "a non-empty str"),
        (lambda ctx: ctx.send("018f3d5e-7a0c-7c2b-8b7e-ffffffffffff", 5, 1), "a non-empty str"),
        (lambda ctx: ctx.sleep_until(datetime(2026, 1, 1)), "with a zone"),  # noqa: DTZ001 - on purpose
        (
            lambda ctx: ctx.sleep_until(datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))),
            "a time that UTC has",
        ),
        (lambda ctx: Context().now(), "needs a run"),
        (lambda ctx: ctx.options(on_duplicate="explode"), "is not one of return_existing, no_reuse"),  # type: ignore[arg-type]
    ],
)
def test_what_could_never_work_is_refused_at_once(make: Callable[[Context], Any], hint: str) -> None:
    assert hint in said(make)


@pytest.mark.parametrize("make", [lambda ctx: ctx.send("no-id", "go", 1), lambda ctx: ctx.handle(""),
                                  lambda ctx: ctx.options(key="")])  # fmt: skip
def test_what_is_no_id_or_key_is_a_value_error(make: Callable[[Context], Any]) -> None:
    def wf(ctx: Context) -> Any:
        yield make(ctx)

    assert isinstance(drive(wf).error, ValueError)


def test_a_signal_of_another_type_is_an_error_where_it_is_sent() -> None:
    message = said(lambda ctx: ctx.send("018f3d5e-7a0c-7c2b-8b7e-ffffffffffff", GO, 5))  # type: ignore[arg-type]
    assert "the signal 'go' from run" in message
    assert "does not fit Order" in message


def test_a_signal_whose_type_nothing_can_be_decoded_into_is_an_error_where_it_is_sent() -> None:
    odd = Signal("odd", object)
    assert "no JSON form" in said(lambda ctx: ctx.send("018f3d5e-7a0c-7c2b-8b7e-ffffffffffff", odd, {"a": 1}))


def test_what_a_taken_key_means_goes_with_the_command() -> None:
    command = Context().options(key="k", on_duplicate="no_reuse").child(ship, Order("book"))
    assert command.options.on_duplicate == "no_reuse"


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_signal_needs_a_name(name: Any) -> None:
    with pytest.raises(ConfigurationError):
        Signal(name, int)


def test_a_signal_says_what_it_is() -> None:
    assert repr(Signal("go", int)) == "Signal('go', int)"
    assert repr(Signal("go", list[int])) == "Signal('go', list)"
    assert repr(Signal("go")) == "Signal('go', Any)"


def test_an_answer_type_that_cannot_be_hashed_can_be_asked_for() -> None:
    unhashable: Any = Annotated[int, ["a list"]]

    def wf(ctx: Context) -> Any:
        return (yield ctx.signal(Signal("go", unhashable)))

    assert drive(wf, {"1": 5}).result == 5


def test_times_of_any_zone_are_the_same_command() -> None:
    def until(zone: Any) -> Body:
        def wf(ctx: Context) -> Any:
            yield ctx.sleep_until(datetime(2026, 2, 1, tzinfo=UTC).astimezone(zone))

        return wf

    run: Drive = drive(until(UTC)).retake(until(timezone(timedelta(hours=5))))
    assert run.open == {"1": "sleep"}


def test_a_wait_for_a_signal_takes_no_former_name() -> None:
    with pytest.raises(UsageError, match="formerly= is for steps and children"):
        Context().options(formerly="old").signal(GO)


def test_a_step_or_a_transaction_cannot_be_limited() -> None:
    assert "make it a child" in said(lambda ctx: ctx.options(limit="stripe").step(price, "book"))
    assert "make it a child" in said(lambda ctx: ctx.options(limit="stripe").transaction(a_transaction))
