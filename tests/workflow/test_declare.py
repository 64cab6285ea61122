from __future__ import annotations

import functools
import pickle
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from runnerq.errors import ConfigurationError, UsageError
from runnerq.persistence.records import Priority
from runnerq.retry import RetryPolicy
from runnerq.workflow.commands import Command, Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import (
    ActivityDeclaration,
    Hook,
    WorkflowDeclaration,
    activity,
    callable_name,
    declaration_of,
    workflow,
)

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]


@activity
def charge(amount: int) -> str:
    return f"charged {amount}"


@workflow
def checkout(ctx: Context, amount: int) -> Flow[str]:
    receipt = yield from ctx.step(charge, amount)
    return receipt


def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


def test_a_decorated_function_is_the_function_and_stays_callable():
    def plain(amount: int) -> int:
        return amount

    def flow(ctx: Context) -> Flow[int]:
        yield from ctx.sleep(1)
        return 1

    assert activity(plain) is plain
    assert activity(timeout=3)(plain) is plain
    assert workflow(flow) is flow
    assert workflow(version=2)(flow) is flow
    assert charge(5) == "charged 5"
    assert isinstance(checkout(Context(), 5), Generator)
    assert pickle.loads(pickle.dumps(charge)) is charge  # noqa: S301  # our own


def test_a_workflow_is_driven_by_hand_in_a_unit_test():
    flow = checkout(Context(), 5)
    asked = next(flow)
    assert (asked.kind, asked.name, asked.args) == ("step", "charge", (5,))
    with pytest.raises(StopIteration) as ended:
        flow.send("a receipt")
    assert ended.value.value == "a receipt"


def test_bare_decorators_declare_the_name_of_the_function_and_nothing_else():
    assert declaration_of(charge) == ActivityDeclaration("charge")
    assert declaration_of(checkout) == WorkflowDeclaration("checkout")
    assert declaration_of(lambda: None) is None
    assert declaration_of(print) is None


def test_options_are_declared_in_seconds_and_policies():
    @activity(name="pay", retry=2, timeout=timedelta(minutes=1), queue="money", priority=Priority.HIGH)
    def fn() -> None: ...

    @workflow(
        name="order", version=3, timeout=1.5, queue="orders", priority=Priority.CRITICAL, metadata={"team": "shop"}
    )
    def flow(ctx: Context) -> Flow[None]:
        yield from ctx.sleep(1)

    assert declaration_of(fn) == ActivityDeclaration("pay", RetryPolicy(max_attempts=2), 60.0, "money", 1)
    assert declaration_of(flow) == WorkflowDeclaration("order", 3, 1.5, "orders", 0, {"team": "shop"})


def test_a_declaration_does_not_change_with_what_it_was_made_from():
    metadata = {"team": "shop"}

    @workflow(metadata=metadata)
    def flow(ctx: Context) -> Flow[None]:
        yield from ctx.sleep(1)

    metadata["team"] = "bank"
    declared = declaration_of(flow)
    assert declared == WorkflowDeclaration("flow", metadata={"team": "shop"})
    with pytest.raises(AttributeError):
        declared.name = "other"  # type: ignore[union-attr,misc]


class Shop:
    @activity(name="shop.pay")
    def pay(self, amount: int) -> int:
        return amount

    @activity
    @staticmethod
    def refund(amount: int) -> int:
        return amount

    @staticmethod
    @activity
    def reserve(amount: int) -> int:
        return amount

    @activity
    @classmethod
    def open(cls, name: str) -> str:
        return name

    @workflow
    @staticmethod
    def static_flow(ctx: Context) -> Flow[int]:
        yield from ctx.sleep(1)
        return 1

    @workflow
    def flow(self, ctx: Context) -> Flow[int]:  # type: ignore[type-var]
        yield from ctx.sleep(1)
        return 1

    def __call__(self) -> None: ...


def test_declarations_travel_through_methods_wraps_and_partial():
    shop = Shop()
    assert declaration_of(shop.pay) == declaration_of(Shop.pay) == ActivityDeclaration("shop.pay")
    assert declaration_of(Shop.refund) == ActivityDeclaration("refund")
    assert declaration_of(Shop.reserve) == ActivityDeclaration("reserve")
    assert declaration_of(Shop.open) == ActivityDeclaration("open")
    assert declaration_of(Shop.static_flow) == WorkflowDeclaration("static_flow")
    assert declaration_of(shop.flow) == WorkflowDeclaration("flow")
    assert declaration_of(logged(charge)) == ActivityDeclaration("charge")
    assert declaration_of(functools.partial(functools.partial(charge), 5)) == ActivityDeclaration("charge")
    assert declaration_of(functools.partial(logged(checkout), amount=5)) == WorkflowDeclaration("checkout")


def test_a_wrapper_can_be_declared_by_another_name_than_what_it_wraps():
    wrapped = activity(name="charge.logged")(logged(charge))
    assert declaration_of(wrapped) == ActivityDeclaration("charge.logged")
    assert declaration_of(charge) == ActivityDeclaration("charge")


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (charge, "charge"),
        (logged(charge), "charge"),
        (functools.partial(charge, 5), "charge"),
        (functools.partial(len), "len"),
        (Shop().pay, "shop.pay"),
        (Shop(), "Shop"),
        (Shop, "Shop"),
        (len, "len"),
        (str.upper, "upper"),
    ],
)
def test_a_callable_has_a_name_for_the_journal(fn, name):
    assert callable_name(fn) == name


@pytest.mark.parametrize("fn", [None, 5, "charge", Command(None, "step", "charge")])
def test_what_is_no_function_has_no_name(fn):
    with pytest.raises(UsageError, match="is not a function"):
        callable_name(fn)


# --- what can be no workflow ------------------------------------------------------------------------------------------


def no_yield(ctx: Context) -> int:
    return 1


def no_yield_untyped(ctx):  # type: ignore[no-untyped-def]
    return 1


async def coroutine(ctx: Context) -> int:
    return 1


async def async_generator(ctx: Context) -> AsyncIterator[int]:
    yield 1


def unresolved(ctx: Context) -> Missing:
    return None


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (no_yield, "makes no generator: it has no yield"),
        (no_yield_untyped, "makes no generator: it has no yield"),
        (logged(no_yield), "makes no generator"),
        (functools.partial(no_yield), "makes no generator"),
        (unresolved, "makes no generator"),
        (coroutine, "is an async function"),
        (logged(coroutine), "is an async function"),
        (functools.partial(coroutine), "is an async function"),
        (async_generator, "is an async function"),
        (5, "takes a generator function, not 5"),
        ("checkout", "takes a generator function, not 'checkout'"),
        (None, "takes a generator function, not None"),
    ],
)
def test_what_makes_no_generator_is_refused_without_being_called(fn, reason):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConfigurationError, match=reason):
            workflow(fn)


def test_a_refusal_says_where_the_function_is_written():
    with pytest.raises(ConfigurationError, match=r"workflow no_yield \(.*test_declare\.py:\d+\)"):
        workflow(no_yield)


def flow_without_annotation(ctx):  # type: ignore[no-untyped-def]
    receipt = yield ctx.step(charge, 5)
    return receipt


def unreachable_yield(ctx: Context) -> Flow[int]:
    return 1
    yield


def delegating(ctx: Context, amount: int) -> Flow[str]:
    return checkout(ctx, amount)


def delegating_to_an_iterator(ctx: Context) -> Iterator[Command[Any]]:
    return iter(ctx.sleep(1))


def delegating_with_an_annotation_to_come(ctx: Context) -> Flow[Missing]:
    return checkout(ctx, 1)


class FlowObject:
    def __call__(self, ctx: Context) -> Flow[int]:
        yield from ctx.sleep(1)
        return 1


@pytest.mark.parametrize(
    "fn",
    [
        flow_without_annotation,
        unreachable_yield,
        delegating,
        delegating_to_an_iterator,
        delegating_with_an_annotation_to_come,
        logged(checkout),
        logged(logged(flow_without_annotation)),
        functools.partial(checkout, amount=5),
        FlowObject(),
    ],
)
def test_what_makes_a_generator_is_a_workflow(fn):
    assert workflow(name="flow")(fn) is fn
    assert declaration_of(fn) == WorkflowDeclaration("flow")


def test_an_activity_that_is_a_generator_function_is_refused():
    with pytest.raises(ConfigurationError, match="a generator cannot be stored as a result"):
        activity(checkout)
    with pytest.raises(ConfigurationError, match="a generator cannot be stored as a result"):
        activity(async_generator)
    with pytest.raises(ConfigurationError, match="takes a function, not 5"):
        activity(5)  # type: ignore[type-var]


# --- options that make no sense ---------------------------------------------------------------------------------------


def test_a_workflow_has_no_retries_of_its_own():
    with pytest.raises(ConfigurationError, match=r"@workflow takes no retry=.*ctx\.options\(retry=\.\.\.\)"):
        workflow(retry=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("decorator", [workflow, activity])
def test_an_unknown_option_is_named(decorator):
    with pytest.raises(ConfigurationError, match="has no option retries, when"):
        decorator(when=5, retries=3)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": ""}, "expected a non-empty str"),
        ({"name": "  "}, "expected a non-empty str"),
        ({"name": 5}, "expected a non-empty str"),
        ({"name": "a@2"}, "'@' is kept for versions"),
        ({"name": "x" * 201}, "at most 200"),
        ({"name": "a\nb"}, "cannot be printed"),
        ({"name": "a\0"}, "cannot be printed"),
        ({"name": "\ud800"}, "cannot be printed"),
        ({"timeout": -1}, r"timeout=\) is -1"),
        ({"timeout": "5"}, r"timeout=\) is '5'"),
        ({"timeout": 0}, "leaves no time to run"),
        ({"timeout": timedelta(0)}, "leaves no time to run"),
        ({"queue": ""}, r"queue=\) is ''"),
        ({"priority": 4}, "expected a Priority"),
        ({"priority": True}, "expected a Priority"),
        ({"priority": "high"}, "expected a Priority"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options, reason):
    with pytest.raises(ConfigurationError, match=reason):
        activity(**options)(charge)
    with pytest.raises(ConfigurationError, match=reason):
        workflow(**options)(checkout)
    assert declaration_of(charge) == ActivityDeclaration("charge")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"version": 0}, "expected a whole number from 1"),
        ({"version": True}, "expected a whole number from 1"),
        ({"version": "2"}, "expected a whole number from 1"),
        ({"version": 2**31}, "expected a whole number from 1"),
        ({"metadata": {"a": 1}}, "text by name, and 'a' has 1"),
        ({"metadata": [("a", "b")]}, "expected a mapping of str to str"),
        ({"metadata": {"a": "lone \ud800"}}, "without NUL and unpaired surrogates"),
    ],
)
def test_an_option_of_workflows_that_makes_no_sense_is_refused(options, reason):
    with pytest.raises(ConfigurationError, match=reason):
        workflow(**options)(checkout)


def test_a_retry_policy_that_makes_no_sense_is_refused_at_the_decorator():
    with pytest.raises(ConfigurationError, match="max_attempts"):
        activity(retry=-1)(charge)


def test_a_name_may_be_of_any_language_and_up_to_200_characters():
    for name in ("Bestellung prüfen", "注文", "shop.orders:checkout/v2", "x" * 200):
        assert declaration_of(activity(name=name)(logged(charge))) == ActivityDeclaration(name)


def test_a_callable_without_a_name_has_to_be_given_one():
    with pytest.raises(ConfigurationError, match=r"has no name of its own: write @activity\(name=\.\.\.\)"):
        activity(functools.partial(charge, 5))


def test_a_callable_that_takes_no_attributes_is_refused():
    with pytest.raises(ConfigurationError, match="takes no attributes: wrap it"):
        activity(len)
    with pytest.raises(ConfigurationError, match="takes no attributes: wrap it"):
        activity(Shop().reserve.__call__)


# --- dead letters -----------------------------------------------------------------------------------------------------


def test_a_hook_is_an_activity_or_the_name_of_one_with_what_it_is_declared_with() -> None:
    @activity(queue="alerts", priority=1)
    def alert(letter: object) -> None: ...

    @activity(on_dead_letter=alert)
    def charge() -> None: ...

    @workflow(on_dead_letter="alert")
    def order(ctx: Context) -> Any:
        yield ctx.sleep(1)

    of_activity, of_workflow = declaration_of(charge), declaration_of(order)
    assert of_activity is not None
    assert of_activity.on_dead_letter == Hook("alert", "alerts", 1)
    assert of_workflow is not None
    assert of_workflow.on_dead_letter == Hook("alert")


def test_an_activity_cannot_be_its_own_hook_and_a_workflow_nobodys() -> None:
    with pytest.raises(ConfigurationError, match="names itself as on_dead_letter="):
        activity(on_dead_letter="charge", name="charge")(lambda: None)

    @workflow
    def order(ctx: Context) -> Any:
        yield ctx.sleep(1)

    for hook in (order, 7, "", len):
        with pytest.raises(ConfigurationError, match="on_dead_letter="):
            activity(on_dead_letter=hook, name="charge")(lambda: None)  # type: ignore[arg-type]
