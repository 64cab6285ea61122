from __future__ import annotations

import json
import math
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from runnerq.errors import ConfigurationError, DecodingError, EncodingError, PayloadTooLarge
from runnerq.serialization.codec import Codec, check_type
from runnerq.serialization.signatures import signature_of
from runnerq.workflow.commands import Command
from tests.serialization.models import EXAMPLES, ORDER, Card, Colour, Euros, Item, Order, OrderId, Pieces, Transfer
from tests.serialization.others_models import OTHERS, Aliased, Cat, Dog

WHAT = "the result of step 'charge' of run X"
codec = Codec()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def round_trip(value: object, type_: Any) -> Any:
    return codec.decode(codec.encode(value, WHAT), type_, WHAT)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def refusal(value: object) -> EncodingError:
    with pytest.raises(EncodingError) as caught:
        codec.encode(value, WHAT)
    assert str(caught.value).startswith(WHAT)
    return caught.value


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "type_"), EXAMPLES, ids=lambda each: repr(each)[:40])
def test_a_value_reads_back_as_an_equal_one_of_the_same_type(value, type_):
    back = round_trip(value, type_)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(("value", "type_"), EXAMPLES, ids=lambda each: repr(each)[:40])
def test_every_example_can_be_registered(value, type_):
    check_type(type_, "the result of f")


@given(json_values)
def test_json_values_read_back_equal_without_a_type(value):
    text = codec.encode(value, WHAT)
    assert codec.decode(text, Any, WHAT) == value
    assert json.loads(text) == value


def test_each_reading_gives_a_fresh_copy():
    text = codec.encode(ORDER, WHAT)
    one, other = (codec.decode(text, Order, WHAT) for _ in range(2))
    one.items.clear()
    assert other == ORDER


@given(st.floats())
def test_a_float_is_kept_to_the_bit_or_refused(value):
    if math.isfinite(value):
        back = round_trip([value], list[float])[0]
        assert math.copysign(1, back) == math.copysign(1, value)
        assert back == value
    else:
        assert refusal([value]).path == "[0]"


@given(st.text(st.characters(codec=None)))
def test_a_text_is_kept_or_refused(value):
    try:
        value.encode()
    except UnicodeEncodeError:
        assert "lone surrogate" in refusal({"text": value}).reason
    else:
        assert round_trip(value, str) == value


def test_without_a_type_values_read_back_as_json_builtins():
    assert round_trip(ORDER, Any) == {
        "id": str(ORDER.id),
        "items": [{"name": "shoe", "price": "19.90", "tags": ["new", "red"]}],
        "colour": "red",
        "note": "",
    }
    assert round_trip((1, {2}), Any) == [1, [2]]
    assert round_trip(b"\xff", Any) == "/w=="
    assert round_trip({1: "a"}, Any) == {"1": "a"}
    assert round_trip(2**70, Any) == 2**70


def test_text_is_utf_8_and_the_limit_counts_its_bytes():
    small = Codec(payload_limit=10)
    assert small.encode("☃" * 2, WHAT) == '"☃☃"'
    with pytest.raises(PayloadTooLarge) as caught:
        small.encode("☃" * 3, WHAT)
    assert (caught.value.size, caught.value.limit) == (11, 10)
    assert WHAT in str(caught.value)
    assert "payload_limit" in str(caught.value)


def test_a_value_just_under_the_default_limit_is_kept_and_one_over_it_is_not():
    text = "x" * ((1 << 20) - 2)
    assert round_trip(text, str) == text
    with pytest.raises(PayloadTooLarge):
        codec.encode(text + "x", WHAT)


# --- what is refused, and where ---------------------------------------------------------------------------------------


class Line(msgspec.Struct):
    price: float
    note: str | None = None


@dataclass
class Basket:
    lines: list[Line]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, ""),
        ([1.0, None, math.inf], "[2]"),
        ({"a": [{"b c": -math.inf}]}, "['a'][0]['b c']"),
        ([None, Basket([Line(1.0), Line(math.nan)])], "[1].lines[1].price"),
        ((1.0, {"null": math.nan}), "[1]['null']"),
        ([{1.0, math.nan}], "[0]{...}"),
    ],
)
def test_nan_and_infinity_are_refused_with_their_place(value, path):
    assert refusal(value).path == path


def test_nan_is_refused_in_the_dump_of_a_class_that_dumps_itself():
    assert refusal([Model(name="x", price=math.nan)]).path == "[0]['price']"


@given(json_values)
def test_nothing_finite_is_ever_taken_for_nan(value):
    assert round_trip([None, value], Any) == [None, value]


@pytest.mark.parametrize("kind", [list, dict, Line])
def test_500_levels_are_kept_and_501_are_refused(kind):
    def nest(levels: int) -> Any:
        value: Any = None
        for _ in range(levels):
            value = [value] if kind is list else {"[": value} if kind is dict else Line(0.0, value)
        return value

    assert codec.decode(codec.encode(nest(500), WHAT), Any, WHAT) is not None
    assert "500 levels" in refusal(nest(501)).reason
    assert "500 levels" in refusal(nest(100_000)).reason


def test_a_value_that_contains_itself_is_refused():
    value: list[Any] = []
    value.append({"me": value})
    assert "contains itself" in refusal(value).reason


def test_many_small_values_are_not_taken_for_deep_ones():
    wide = [{"a": [i], "text": "]}{[" * i} for i in range(600)]
    assert round_trip(wide, Any) == wide


def test_brackets_inside_strings_do_not_count_as_levels():
    assert round_trip(["[" * 5_000, "\\" * 5_000, '"[' * 600], Any) is not None
    flat = ["]", '"', "\\"] * 10
    assert "500 levels" in refusal([flat, nested(501), flat]).reason


def generator() -> Iterable[int]:
    yield 1


async def coroutine() -> None: ...


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (generator, "write `yield from` before it"),
        (lambda: Command(None, "step", "charge"), "the command <step 'charge'>, not its answer: write `yield from`"),
        (lambda: generator, "the function generator"),
        (lambda: len, "the function len"),
        (lambda: [].append, "append"),
        (lambda: Item, "the class Item: pass an instance"),
        (lambda: json, "the module json"),
        (lambda: ValueError("x"), "an exception (ValueError)"),
        (lambda: Path("x"), "pass str(...)"),
        (lambda: deque([1]), "pass list(...)"),
        (lambda: range(3), "pass list(...)"),
        ({"a": 1}.keys, "pass list(...)"),
        (lambda: iter((1, 2)), "pass list(...)"),
        (lambda: MappingProxyType({}), "pass dict(...)"),
        (lambda: 1j, "a complex has no JSON form"),
        (object, "a object has no JSON form"),
        (lambda: {(1, 2): 3}, "its key (1, 2) is a tuple"),
        (lambda: {None: 3}, "its key None is a NoneType"),
        (lambda: {"\ud800": 3}, "its key '\\ud800' holds a lone surrogate"),
        (lambda: 10**5000, "4300 digits"),
    ],
)
def test_what_has_no_json_form_is_refused_with_a_hint(make: Callable[[], object], hint: str):
    assert hint in refusal({"here": [make()]}).reason
    assert refusal({"here": [make()]}).path == "['here'][0]"


def test_a_coroutine_is_refused_with_a_hint():
    made = coroutine()
    assert "write `await` before it" in refusal([made]).reason
    made.close()


def test_the_place_of_a_deep_fault_is_readable():
    value: Any = object()
    for i in range(100):
        value = {f"key-{i}" * 20: value}
    path = refusal(value).path
    assert len(path) < 700
    assert " ... " in path


def test_a_property_that_raises_is_an_encoding_error():
    class Sly(dict[str, int]):
        def items(self) -> Any:
            raise RuntimeError("not today")

    class Dumped:
        def model_dump(self, mode: str) -> Any:
            raise RuntimeError("not today")

    assert "not today" in refusal([Dumped()]).reason
    assert codec.encode(Sly(a=1), WHAT) == '{"a":1}'


def test_what_is_turned_into_text_only_where_it_is_needed():
    class Lazy:
        def __str__(self) -> str:
            raise AssertionError("nobody needed this")

    assert codec.decode(codec.encode([1], Lazy()), list[int], Lazy()) == [1]
    with pytest.raises(AssertionError):
        codec.encode(object(), Lazy())


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "type_", "reason"),
    [
        ('{"name": 5}', Item, "Expected `str`, got `int` - at `$.name`"),
        ('"1"', int, "Expected `int`, got `str`"),
        ("1", Order | None, "Expected `object | null`, got `int`"),
        ('"green"', Colour, "Invalid enum value 'green'"),
        ('{"type": "cash"}', Card | Transfer, "Invalid value 'cash'"),
        ("true", Euros, "Expected `float`, got `bool`"),
        ('"two"', Pieces, "Expected `int`, got `str`"),
        ("true", OrderId, "Expected `str`, got `bool`"),
        ("", Any, "truncated"),
        ("[1, 2", Any, "truncated"),
        ("NaN", float, "invalid"),
        ("1e999", float, "range"),
        ('"\ud800"', str, "surrogates not allowed"),
        ("[" * 501 + "]" * 501, Any, "500 levels"),
        ("[" * 100_000, Any, "500 levels"),
        ('{"a":' * 600 + "1" + "}" * 600, Any, "500 levels"),
    ],
)
def test_text_that_does_not_fit_is_a_decoding_error_that_says_what_and_where(text, type_, reason):
    with pytest.raises(DecodingError, match=re.escape(reason)) as caught:
        codec.decode(text, type_, WHAT)
    assert str(caught.value).startswith(WHAT)


def test_an_error_in_the_constructor_of_a_value_is_a_decoding_error():
    class Picky(msgspec.Struct):
        n: int

        def __post_init__(self) -> None:
            raise LookupError("no such n")

    with pytest.raises(DecodingError, match="no such n"):
        codec.decode('{"n": 1}', Picky, WHAT)


def test_text_at_the_limit_of_depth_is_read_from_deep_in_a_recursion():
    def deep(levels: int) -> Any:
        return codec.decode("[" * 400 + "]" * 400, Any, WHAT) if levels == 0 else deep(levels - 1)

    assert deep(300) == nested(400)
    if sys.version_info >= (3, 12):  # where compiled code counts its own levels
        return
    with pytest.raises(DecodingError, match="recursion"):
        deep(sys.getrecursionlimit() - 250)


def test_a_type_form_that_cannot_be_hashed_works():
    form = Annotated[int, msgspec.Meta(ge=0, extra={"a": [1]})]
    assert codec.decode("5", form, WHAT) == 5
    with pytest.raises(DecodingError, match=">= 0"):
        codec.decode("-5", form, WHAT)


def test_forms_that_compare_equal_to_none_another_are_kept_apart():
    assert codec.decode("1", Literal[1], WHAT) == 1
    with pytest.raises(DecodingError):
        codec.decode("true", Literal[1], WHAT)
    with pytest.raises(DecodingError):
        codec.decode("1.0", int | str, WHAT)
    assert codec.decode("1", float, WHAT) == 1.0


# --- registration -----------------------------------------------------------------------------------------------------


class Unknown:
    pass


@dataclass
class Holder:
    inside: list[dict[str, Unknown]]


@dataclass
class Unresolved:
    inside: Nowhere  # type: ignore[name-defined]  # noqa: F821  # the point


@dataclass
class OtherOrder:
    id: str


@pytest.mark.parametrize(
    ("type_", "named"),
    [
        (Unknown, "Unknown"),
        (list[Unknown | None], "Unknown"),
        (Holder, "Unknown has no JSON form"),
        (complex, "complex"),
        (Callable[[], int], "Callable"),
        (type[int], "type"),
        (Iterable[int], "Iterable"),
        (Exception, "Exception"),
        (dict[bool, int], "str, numbers, dates, enums or UUIDs, and no other"),
        (list[dict[tuple[int, int], int]], "str, numbers, dates, enums or UUIDs, and no other"),
        (dict[Order | int, int], "str, numbers, dates, enums or UUIDs, and no other"),
        (dict[int | str, int], "all read as str"),
        (Order | OtherOrder, "more than one dataclass"),
        (Unresolved, "Nowhere"),
        (5, "5"),
        (..., "Ellipsis"),
        ("Order", "Order"),
    ],
)
def test_a_type_that_nothing_can_be_read_into_is_refused_at_registration(type_, named):
    with pytest.raises(ConfigurationError, match=re.escape(named)) as caught:
        check_type(type_, "the result of charge (shop.py:12)")
    assert str(caught.value).startswith("the result of charge (shop.py:12) is annotated ")


@pytest.mark.parametrize(
    "type_", [Any, None, int, TypeVar("T"), list[int], dict[str | None, int], dict[int | date, int], Literal["a", 1]]
)
def test_a_type_that_can_be_read_is_taken(type_):
    check_type(type_, "the result of charge")


def test_a_type_is_called_what_one_would_write():
    for type_, name in ((None, "None"), (Order, "Order"), (list[int] | None, "list[int] | None"), (Any, "Any")):
        with pytest.raises(DecodingError, match=re.escape(f"does not fit {name}: ")):
            codec.decode("[", type_, WHAT)


# --- classes that dump and validate themselves, as pydantic's do ------------------------------------------------------


class Model:
    def __init__(self, name: str, price: float = 1.0) -> None:
        self.name = name
        self.price = price

    def model_dump(self, mode: str, *, exclude_defaults: bool = False) -> dict[str, Any]:
        dumped: dict[str, Any] = {"name": self.name}
        return dumped if exclude_defaults and self.price == 1.0 else {**dumped, "price": self.price}

    @classmethod
    def model_validate(cls, stored: Any) -> Model:
        if not isinstance(stored, dict):
            raise TypeError("a Model is an object")
        return cls(**stored)


def test_a_class_that_dumps_itself_reads_back_through_its_own_validation():
    check_type(list[Model], "the result of f")
    [back] = round_trip([Model("hat", 2.0)], list[Model])
    assert (type(back), back.name, back.price) == (Model, "hat", 2.0)
    with pytest.raises(DecodingError, match="a Model is an object"):
        codec.decode("[5]", list[Model], WHAT)


def test_pydantic_models_read_back_equal():
    pydantic = pytest.importorskip("pydantic")
    kind = pydantic.create_model("Kind", name=(str, ...), price=(float, 1.0))
    check_type(kind, "the result of f")
    assert round_trip([kind(name="hat")], list[kind]) == [kind(name="hat")]


def test_attrs_classes_read_back_equal():
    attrs = pytest.importorskip("attrs")
    kind = attrs.make_class("Kind", {"name": attrs.field(type=str), "tags": attrs.field(type=list, factory=list)})
    check_type(kind, "the result of f")
    assert round_trip([kind("hat", ["new"])], list[kind]) == [kind("hat", ["new"])]


# --- classes of pydantic's and attrs', as they are --------------------------------------------------------------------


@pytest.mark.parametrize(("value", "type_"), OTHERS)
def test_values_of_others_classes_read_back_as_equal_ones_of_their_type(value: object, type_: object) -> None:
    check_type(type_, "the result of f")
    back = round_trip(value, type_)
    assert (back, type(back)) == (value, type(value))


def test_a_model_that_was_written_by_its_aliases_is_read_as_well() -> None:
    assert codec.decode('{"orderId":1}', Aliased, WHAT) == Aliased(orderId=1)


class Switches(pydantic.BaseModel):
    """All have defaults, so that nothing is missing where an alias is not read."""

    model_config = pydantic.ConfigDict(alias_generator=to_camel)
    dry_run: bool = True
    page_size: int = 10


class Swapped(pydantic.BaseModel):
    """The alias of one field is the name of another one."""

    first: int = pydantic.Field(0, alias="second")
    second: int = pydantic.Field(0, alias="third")


class Led(pydantic.BaseModel):
    """The alias leads into what stands under the field's own name."""

    first: list[int] = pydantic.Field([], validation_alias=pydantic.AliasPath("first", 0))


class Holding(pydantic.BaseModel):
    swapped: Swapped = Swapped()
    led: Led = Led()


class Loose(Switches):
    model_config = pydantic.ConfigDict(extra="allow")


class Tight(Switches):
    model_config = pydantic.ConfigDict(extra="forbid")


class SwitchesOf(pydantic.BaseModel):
    switches: Switches = Switches()


@pytest.mark.parametrize("text", ['{"dryRun":false,"pageSize":99}', '{"dry_run":false,"page_size":99}'])
@pytest.mark.parametrize("kind", [Switches, Loose, Tight])
def test_a_model_is_read_by_its_aliases_and_by_its_names_be_there_defaults_or_not(
    kind: type[Switches], text: str
) -> None:
    assert codec.decode(text, kind, WHAT) == kind(dryRun=False, pageSize=99)
    inside = codec.decode(f'[{{"switches":{text}}}]', list[SwitchesOf], WHAT)
    assert inside == [SwitchesOf(switches=Switches(dryRun=False, pageSize=99))]
    assert round_trip(kind(dryRun=False, pageSize=99), kind) == kind(dryRun=False, pageSize=99)


def test_a_model_whose_alias_is_another_fields_name_is_read_by_names_alone() -> None:
    value = Holding(swapped=Swapped(second=1, third=2), led=Led.model_validate({"first": [[7]]}))
    assert codec.encode(value, WHAT) == '{"swapped":{"first":1,"second":2},"led":{"first":[7]}}'
    assert round_trip([value], list[Holding]) == [value]


def test_a_model_with_a_value_beside_its_fields_that_has_a_fields_name_is_refused() -> None:
    class Both(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow", populate_by_name=True)
        x: int = pydantic.Field(0, alias="y")

    with pytest.raises(EncodingError, match="reads back as another value"):
        codec.encode(Both(x=1, y=2), WHAT)  # type: ignore[call-arg]  # the point


class Charge(pydantic.BaseModel):
    amount: int
    capture: bool = True


class Refund(pydantic.BaseModel):
    amount: int


class Tagged(pydantic.BaseModel):
    kind: Literal["tagged"] = "tagged"
    amount: int = 0


class Labelled(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=to_camel)
    kind: Literal["labelled"] = "labelled"
    in_cents: int = 0


class Shouted(pydantic.BaseModel):
    words: str

    @pydantic.model_serializer
    def shout(self) -> str:
        return self.words


@pydantic.dataclasses.dataclass
class Flat:
    kind: Literal["flat"] = "flat"
    data: bytes = b""


@pytest.mark.parametrize(
    "type_",
    [
        Charge | Refund,
        Refund | Charge,
        list[Charge | Refund],
        dict[str, Charge | Refund | None],
        tuple[Charge | Refund, int],
        Annotated[Charge | Refund, "note"],
        Charge | Tagged,
        Charge | dict[str, int],
        list[Charge] | list[Refund],
        Shouted | str,
        pydantic.RootModel[int] | int,
    ],
    ids=str,
)
def test_a_union_whose_members_look_alike_when_stored_is_refused_at_registration(type_: Any) -> None:
    with pytest.raises(ConfigurationError, match="does not say which it was: give each model a field of one name"):
        check_type(type_, "the result of f")


def test_a_union_of_pydantics_dataclasses_which_are_stored_in_our_form_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs tagged Structs, or pydantic models with a Literal each"):
        check_type(Flat | Tagged | Labelled, "the result of f")


ONE_OF = [
    (Tagged(amount=5), Tagged | Labelled),
    (Labelled(inCents=5), Tagged | Labelled),
    (Labelled(inCents=5), Labelled | Tagged | int | str | None),
    ("5", Labelled | Tagged | int | str | None),
    (5, Labelled | Tagged | int | str | None),
    ([Tagged(), Labelled(inCents=2), None], list[Tagged | Labelled | None]),
    ({"a": [Labelled(inCents=2)], "b": 7}, dict[str, list[Tagged | Labelled] | int]),
    (Refund(amount=5), Refund | int),
    ([Refund(amount=5)], Refund | list[Refund]),
    ([Swapped(second=1, third=2), Tagged()], tuple[Swapped, Tagged | Labelled]),
]


@pytest.mark.parametrize(("value", "type_"), ONE_OF)
def test_a_union_that_is_told_apart_reads_back_as_the_member_that_it_was(value: Any, type_: Any) -> None:
    check_type(type_, "the result of f")
    back = codec.decode(codec.encode(value, WHAT), type_, WHAT)
    assert list(back) == list(value) if isinstance(value, list) else (back, type(back)) == (value, type(value))


def test_a_member_of_a_union_is_read_by_its_aliases_too() -> None:
    assert codec.decode('{"kind":"labelled","inCents":5}', Tagged | Labelled, WHAT) == Labelled(inCents=5)


def test_a_text_without_the_tag_of_a_union_is_refused_and_not_guessed_at() -> None:
    with pytest.raises(DecodingError, match="discriminator"):
        codec.decode('{"amount":5}', Tagged | Labelled, WHAT)


@pytest.mark.parametrize("order", [0, 1])
def test_what_a_union_reads_does_not_depend_on_what_was_read_before(order: int) -> None:
    """Forms that differ in their order alone are equal, and have one place in the cache."""
    fresh = Codec()
    forms: list[Any] = [int | float | Refund, float | int | Refund]
    read = [fresh.decode('"1"', form, WHAT) for form in (forms, forms[::-1])[order]]
    assert {(each, type(each)) for each in read} == {(1.0, float)}


class Payment(pydantic.BaseModel):
    """A union in a field of a model, where pydantic takes what fits best."""

    step: Charge | Refund
    at: date | str = ""


@pytest.mark.parametrize("value", [Payment(step=Refund(amount=5)), Payment(step=Charge(amount=5), at="2024-01-01")])
def test_a_model_that_would_read_back_with_a_member_of_another_class_is_refused(value: Payment) -> None:
    with pytest.raises(EncodingError, match="reads back as another value: in a field that is a union") as refused:
        codec.encode({"it": value}, WHAT)
    assert refused.value.path == "['it']"


def test_a_model_with_a_union_that_reads_back_as_it_was_is_kept() -> None:
    class Tells(pydantic.BaseModel):
        step: Tagged | Labelled = pydantic.Field(discriminator="kind")
        other: int | str = 0

    for value in (Payment(step=Charge(amount=5), at="today"), Tells(step=Labelled(inCents=1), other="1")):
        assert round_trip(value, type(value)) == value


def test_what_a_type_does_not_say_is_not_kept() -> None:
    class Special(Refund):
        reason: str = "none"

    class Sparse(pydantic.BaseModel):
        anything: Any = None
        held: list[Refund] = []
        left_out: int = pydantic.Field(0, exclude=True)
        _private: int = 0

    sparse = Sparse(anything=(1, date(2024, 1, 1)), held=[Refund(amount=1)], left_out=5)
    sparse._private = 5
    back = round_trip(sparse, Sparse)
    assert (back.anything, back.left_out, back._private) == ([1, "2024-01-01"], 0, 0)
    assert type(round_trip(Special(amount=1), Refund)) is Refund


def test_a_secret_that_pydantic_would_write_as_asterisks_is_refused() -> None:
    class Login(pydantic.BaseModel):
        passwords: list[pydantic.SecretStr]

    with pytest.raises(EncodingError, match="secret pydantic writes as asterisks: give that field a field_serializer"):
        codec.encode([Login(passwords=[pydantic.SecretStr("hush")])], WHAT)


def test_bytes_of_a_model_that_are_no_text_are_refused_with_what_to_do() -> None:
    class File(pydantic.BaseModel):
        data: bytes

    with pytest.raises(EncodingError, match="no UTF-8: give the class ConfigDict"):
        codec.encode({"file": File(data=b"\xff")}, WHAT)


def test_an_attrs_field_that_is_not_stored_is_refused_at_registration() -> None:
    @attrs.define
    class Hidden:
        _inside: int = 0

    with pytest.raises(ConfigurationError, match="field '_inside' of .*Hidden begins with '_', which is not stored"):
        check_type(list[Hidden], "the result of f")


def test_a_union_of_models_beside_arguments_of_our_own_form_reads_each_in_its_own() -> None:
    def pet(animal: Cat | Dog, photo: bytes, day: date = date(2024, 1, 1)) -> None: ...

    text = codec.encode_call((Dog(name="Rex"), b"\xff"), {}, WHAT)
    for _ in range(2):
        assert codec.decode_call(text, signature_of(pet), WHAT) == ((Dog(name="Rex"), b"\xff"), {})


def test_a_union_of_models_among_what_pydantic_stores_otherwise_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Type unions may not contain more than one custom type"):
        check_type(tuple[Cat | Dog, bytes], "the result of f")


def test_a_model_that_can_be_read_by_its_aliases_alone_is_stored_by_them() -> None:
    """As all were before pydantic 2.11."""

    class Older(pydantic.BaseModel):
        order_id: int = pydantic.Field(alias="orderId")

        @classmethod
        def model_validate_json(cls, json_data: Any) -> Any:  # type: ignore[override]  # it takes no more
            return super().model_validate_json(json_data)

    assert codec.encode(Older(orderId=1), WHAT) == '{"orderId":1}'
    assert round_trip([Older(orderId=1)], list[Older]) == [Older(orderId=1)]
