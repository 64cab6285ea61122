from __future__ import annotations

import functools
import gc
import inspect
import re
import sys
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Annotated, Any, NoReturn, ParamSpec, TypeVar

import pytest

from runnerq.errors import ConfigurationError
from runnerq.serialization.signatures import Parameter, layers, signature_of, source_line, workflow_signature_of
from runnerq.workflow.commands import Command, Flow
from runnerq.workflow.context import Context
from tests.serialization import for_checkers
from tests.serialization.models import Item, Order

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def pay(
    order: Order, amount: int = 1, /, note: str | None = None, *items: Item, fee: float, **more: bytes
) -> list[Item]:
    return [*items]


async def fetch(url: str) -> bytes:
    return url.encode()


def checkout(ctx: Context, order: Order, *, express: bool = False) -> Flow[list[Item]]:
    yield ctx.sleep(1)
    return order.items


def untyped(ctx, order):  # type: ignore[no-untyped-def]
    yield order


def logged(fn: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return fn(*args, **kwargs)

    return wrapper


class Shop:
    def pay(self, order: Order) -> int:
        return len(order.items)

    @classmethod
    async def open(cls, name: str) -> bool:
        return bool(name)

    @staticmethod
    def close(name: str) -> None: ...

    def flow(self, ctx: Context, order: Order) -> Flow[int]:
        yield from ctx.sleep(1)
        return 1

    def __call__(self, order: Order) -> str:
        return order.note


def types(parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    return {each.name: each.type for each in parameters}


def test_a_signature_has_the_types_of_all_kinds_of_parameters():
    signature = signature_of(pay)
    assert signature.name == "pay"
    assert signature.positional == (
        Parameter("order", Order, required=True, by_name=False),
        Parameter("amount", int, required=False, by_name=False),
        Parameter("note", str | None, required=False),
    )
    assert signature.keyword_only == (Parameter("fee", float, required=True),)
    assert signature.var_positional == Parameter("items", Item, required=False)
    assert signature.var_keyword == Parameter("more", bytes, required=False)
    assert signature.returns == list[Item]
    assert (signature.is_async, signature.is_generator) == (False, False)
    assert signature.arguments is None
    assert [each.name for each in signature.parameters()] == ["order", "amount", "note", "fee", "items", "more"]


def test_a_signature_says_where_the_function_is_written():
    line = inspect.getsourcelines(pay)[1]
    assert signature_of(pay).source == f"{__file__}:{line}"
    assert source_line(logged(functools.partial(pay))) == f"{__file__}:{line}"
    assert source_line(len) == "builtins"


def test_an_async_function_returns_what_it_is_awaited_for():
    signature = signature_of(fetch)
    assert (signature.returns, signature.is_async, signature.arguments) == (bytes, True, tuple[str])


def test_a_function_that_is_annotated_to_return_an_awaitable_is_async():
    def later(url: str) -> Awaitable[bytes]:
        return fetch(url)

    assert (signature_of(later).returns, signature_of(later).is_async) == (bytes, True)


def test_a_workflow_returns_the_result_of_its_flow_and_takes_no_context():
    signature = workflow_signature_of(checkout)
    assert types(signature.positional) == {"order": Order}
    assert types(signature.keyword_only) == {"express": bool}
    assert (signature.returns, signature.is_generator) == (list[Item], True)


def test_an_un_annotated_workflow_takes_and_returns_anything():
    signature = workflow_signature_of(untyped)
    assert types(signature.positional) == {"order": Any}
    assert (signature.returns, signature.is_generator) == (Any, True)


def make(annotation: Any) -> Callable[..., Any]:
    def flow(ctx: Context) -> Any:
        yield

    flow.__annotations__["return"] = annotation
    return flow


@pytest.mark.parametrize(
    ("annotation", "returns"),
    [
        (Flow[int], int),
        (Flow[None], type(None)),
        (Flow, Any),
        (Flow[NoReturn], Any),
        (Generator[Command[Any], Any, dict[str, int]], dict[str, int]),
        (Generator, Any),
        (Iterator[Command[Any]], Any),
        (Annotated[Flow[int], "documented"], int),
        ("Flow[Order]", Order),
        (Any, Any),
    ],
)
def test_the_result_of_a_workflow_is_read_from_every_form_of_its_annotation(annotation, returns):
    signature = workflow_signature_of(make(annotation))
    assert signature.returns == returns
    assert signature.is_generator


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs the type statement")
def test_an_alias_of_a_type_statement_is_looked_through():
    names: dict[str, Any] = {"Flow": Flow}
    exec("type Mine[R] = Flow[R]\ntype Ours = Mine[int]\ndef generic[T](x: T) -> list[T]: ...", names)  # noqa: S102  # 3.12
    assert workflow_signature_of(make(names["Mine"][str])).returns is str
    assert workflow_signature_of(make(names["Ours"])).returns is int
    assert signature_of(names["generic"]).positional[0].type is Any


def test_wraps_partial_and_bound_methods_are_looked_through():
    shop = Shop()
    assert signature_of(logged(logged(fetch))).is_async
    assert types(signature_of(logged(pay)).positional)["order"] is Order
    assert types(signature_of(functools.partial(pay, None, fee=1.0)).positional) == {"amount": int, "note": str | None}
    assert types(signature_of(functools.partial(fetch, url="x")).keyword_only) == {"url": str}
    assert types(signature_of(shop.pay).positional) == {"order": Order}
    assert types(signature_of(Shop.pay).positional) == {"self": Any, "order": Order}
    assert (types(signature_of(Shop.open).positional), signature_of(Shop.open).is_async) == ({"name": str}, True)
    assert types(signature_of(Shop.close).positional) == {"name": str}
    assert (types(signature_of(shop).positional), signature_of(shop).returns) == ({"order": Order}, str)
    assert workflow_signature_of(logged(checkout)).returns == list[Item]
    assert workflow_signature_of(shop.flow).returns is int
    assert types(workflow_signature_of(functools.partial(checkout, express=True)).positional) == {"order": Order}


def test_a_class_is_called_through_its_constructor():
    signature = signature_of(Order)
    assert types(signature.positional)["items"] == list[Item]
    assert signature.returns is Order


def test_a_built_in_function_that_tells_nothing_takes_anything():
    signature = signature_of(max)
    assert (signature.positional, signature.returns, signature.name) == ((), Any, "max")
    assert signature.var_positional is not None
    assert signature.var_keyword is not None


def test_types_that_say_nothing_are_any():
    def generic(x: T, y: object) -> NoReturn:
        raise NotImplementedError

    signature = signature_of(generic)
    assert (*types(signature.positional).values(), signature.returns) == (Any, Any, Any)


def test_what_a_function_closes_over_resolves_its_annotations():
    class Local:
        pass

    def make_local(one: Local) -> list[Local]:
        return [one, Local()]

    assert signature_of(make_local).returns == list[Local]


def test_a_signature_is_read_once_and_goes_with_its_function():
    def short_lived(x: int) -> int:
        return x

    assert signature_of(short_lived) is signature_of(short_lived)
    shop = Shop()
    assert signature_of(shop.pay) is signature_of(shop.pay)
    assert signature_of(checkout) is not workflow_signature_of(checkout)
    gone = weakref.ref(short_lived)
    del short_lived
    gc.collect()
    assert gone() is None


def test_a_callable_that_can_be_no_key_is_read_each_time():
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, x: int) -> str:
            return str(x)

    assert signature_of(Unhashable()).returns is str


def test_functions_that_wrap_each_other_in_a_circle_come_to_an_end():
    def one() -> None: ...

    def other() -> None: ...

    one.__wrapped__ = other  # type: ignore[attr-defined]
    other.__wrapped__ = one  # type: ignore[attr-defined]
    assert layers(one) == (one, other)


# --- what cannot be resolved ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "parts"),
    [
        (
            for_checkers.price,
            (
                "price (",
                "the annotation 'ShopOrder' of parameter 'order' cannot be resolved",
                "'ShopOrder' is imported for type checkers only, at line 12 of tests.serialization.for_checkers",
                "move `from tests.serialization.models import Order as ShopOrder` out of `if TYPE_CHECKING:`",
            ),
        ),
        (
            for_checkers.find,
            (
                "the annotation 'list[Item]' of its result",
                "move `from tests.serialization.models import Item` out of",
            ),
        ),
        (for_checkers.pack, ("'shop_models.Order'", "move `import tests.serialization.models as shop_models` out of")),
        (for_checkers.plain, ("'Context' is imported for type checkers only", "parameter 'ctx'")),
    ],
)
def test_an_import_for_type_checkers_only_is_named_with_its_line(fn, parts):
    with pytest.raises(ConfigurationError) as caught:
        signature_of(fn)
    for part in parts:
        assert part in str(caught.value)


def test_the_context_of_a_workflow_may_be_imported_for_type_checkers_only():
    assert types(workflow_signature_of(for_checkers.un_annotated_result).positional) == {"name": str}
    with pytest.raises(ConfigurationError, match=r"import Flow` out of `if TYPE_CHECKING:`"):
        workflow_signature_of(for_checkers.plain)


def test_a_name_that_a_function_closes_over_but_that_is_not_there_yet_is_named():
    def early(x: int) -> int:
        return later(x)

    early.__annotations__["x"] = "later"
    with pytest.raises(ConfigurationError, match="'later' is not to be found"):
        signature_of(early)

    def later(x: int) -> int:
        return x


def test_a_function_whose_source_is_not_to_be_had_is_named_as_well():
    names: dict[str, Any] = {"__name__": "made_up"}
    exec("def made(x: 'Nowhere') -> None: ...", names)  # noqa: S102  # a function without a file
    with pytest.raises(
        ConfigurationError, match=r"made \(<string>:1\): .*'Nowhere' is not defined at run time in made_up"
    ):
        signature_of(names["made"])


def test_a_name_that_is_nowhere_is_named():
    def lost(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # the point

    with pytest.raises(ConfigurationError, match=r"'Nowhere' is not to be found at run time in .*move it to the top"):
        signature_of(lost)
    lost.__qualname__ = "lost"
    with pytest.raises(ConfigurationError, match="'Nowhere' is not defined at run time in"):
        signature_of(lost)


@pytest.mark.parametrize("annotation", ["Order.Missing", "Order[", "1 / 0", "Order[int]"])
def test_an_annotation_that_cannot_be_evaluated_is_named(annotation):
    def odd(x: int) -> None: ...

    odd.__annotations__["x"] = annotation
    with pytest.raises(ConfigurationError, match=re.escape(f"the annotation {annotation!r} of parameter 'x'")):
        signature_of(odd)


async def no_flow(ctx: Context) -> int:
    return 1


async def no_flow_either(ctx: Context) -> Any:
    yield 1


def no_yield(ctx: Context) -> int:
    return 1


def no_context() -> Flow[int]:
    yield from Context().sleep(1)
    return 1


def only_keywords(*, ctx: Context) -> Flow[int]:
    yield from ctx.sleep(1)
    return 1


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (no_flow, "is async"),
        (no_flow_either, "is async"),
        (logged(no_flow), "is async"),
        (no_yield, "makes no generator"),
        (no_context, "takes no context"),
        (only_keywords, "takes no context"),
        (len, "makes no generator"),
    ],
)
def test_what_can_be_no_workflow_is_refused_with_its_line(fn, reason):
    with pytest.raises(ConfigurationError, match=reason):
        workflow_signature_of(fn)


def test_a_function_that_returns_a_workflows_generator_is_a_workflow():
    def delegate(ctx: Context, order: Order) -> Flow[list[Item]]:
        return checkout(ctx, order)

    def wrapped(*args: Any) -> Flow[int]:
        return for_checkers.plain(*args)

    assert workflow_signature_of(delegate).returns == list[Item]
    assert workflow_signature_of(wrapped).var_positional == Parameter("args", Any, required=False)
