from __future__ import annotations

import base64
import dataclasses
import hashlib
import math
import subprocess
import sys
from collections import OrderedDict, defaultdict
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq.errors import EncodingError
from runnerq.serialization.codec import Codec
from runnerq.serialization.digest import digest
from tests.serialization.models import EXAMPLES, ORDER, Card, Colour, Euros, Item, OrderId, Pieces, Point, Transfer

KEY = b"the run's own key"


def of(*args: Any, **kwargs: Any) -> str:
    return digest(args, kwargs, KEY)


# --- forms ------------------------------------------------------------------------------------------------------------


def test_a_digest_is_12_characters_that_go_into_a_url():
    digests = {of(number) for number in range(2_000)}
    assert len(digests) == 2_000
    assert {len(each) for each in digests} == {12}
    assert set("".join(digests)) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    ("call", "form"),
    [
        (of, "[]"),
        (lambda: of(1, "a", None, 1.5), '[1,"a",null,1.5]'),
        (
            lambda: of({"b": [1], "a": {2, 1}}, n=2**70),
            '{"args":[{"a":[1,2],"b":[1]}],"kwargs":{"n":1180591620717411303424}}',
        ),
        (lambda: of(Point(1), {3: Colour.RED}), '[{"x":1},{"3":"red"}]'),
        (
            lambda: of(ORDER),
            (
                '[{"colour":"red","id":"018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f",'
                '"items":[{"name":"shoe","price":"19.90","tags":["new","red"]}]}]'
            ),
        ),
    ],
)
def test_a_digest_is_taken_over_the_canonical_form(call, form):
    hashed = hashlib.blake2b(form.encode(), key=KEY, digest_size=9).digest()
    assert call() == base64.urlsafe_b64encode(hashed).decode()


def test_a_digest_is_that_of_the_journals_that_are_already_written():
    assert of() == "p3XLlA4RbQPh"


def test_a_digest_is_keyed():
    assert digest((1,), {}, b"one run") != digest((1,), {}, b"another")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, True),
        (1, 1.0),
        (1, "1"),
        (None, "null"),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 2}),
        ({1}, {2}),
        ("", []),
    ],
)
def test_other_arguments_have_another_digest(one, other):
    assert of(one) != of(other)
    assert of([one]) != of([other])
    assert of(a=one) != of(a=other)


def test_positional_and_keyword_arguments_are_told_apart():
    assert len({of(1), of(a=1), of(1, a=1), of({"a": 1}), of([1])}) == 5


def test_the_order_of_keywords_dicts_and_sets_does_not_count():
    assert of(a=1, b=2) == of(b=2, a=1)
    assert of({"a": 1, "b": {"c": 1.5, "d": 2}}) == of({"b": {"d": 2, "c": 1.5}, "a": 1})
    names = [f"name-{number}" for number in range(100)]
    assert of(set(names)) == of({*names[50:], *names[:50]}) == of(frozenset(names))
    assert of({(1, "a"), (2, None)}) == of({(2, None), (1, "a")})
    assert of({1, "a", None, 2.5, (3,)}) == of({(3,), 2.5, "a", None, 1})


@given(
    st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()),
    st.randoms(),
)
def test_a_dict_has_the_same_digest_in_whatever_order_it_was_filled(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert of(value) == of(dict(items))


@pytest.mark.parametrize(("value", "type_"), EXAMPLES, ids=lambda each: repr(each)[:40])
def test_a_value_that_was_stored_and_read_back_has_the_same_digest(value, type_):
    codec = Codec()
    back = codec.decode(codec.encode(value, "it"), type_, "it")
    assert of(value) == of(back)
    assert of(value, [value], x={"y": value}) == of(back, [back], x={"y": back})


class Late(msgspec.Struct):
    id: int
    note: str | msgspec.UnsetType = msgspec.UNSET
    more: Nowhere = None  # type: ignore[name-defined]  # noqa: F821  # the point


def test_subclasses_of_builtins_have_the_digest_of_what_they_are():
    assert of(OrderedDict({"a": [1]})) == of({"a": [1]})
    assert of(defaultdict(list, a=[1])) == of({"a": [1]})
    assert of(UserList([1, {2}])) == of([1, {2}])
    assert of(OrderId("x"), Pieces(2), Euros(1.5)) == of("x", 2, 1.5)


def test_a_field_that_is_not_set_is_left_out():
    assert of(Late(1)) == of({"id": 1, "more": None})
    assert of(Late(1, "x")) == of({"id": 1, "note": "x", "more": None})
    cart = Cart(1)
    del cart.lines
    assert of(cart) == of({"id": 1})


def test_a_digest_changes_nothing_of_the_arguments():
    given_ = {"b": {1, 2}, "a": [ORDER], 3: (1,)}
    before = repr(given_)
    of(given_)
    assert repr(given_) == before


# --- fields equal to their defaults -----------------------------------------------------------------------------------


def grown(name: str, base: type, **more: tuple[Any, Any]) -> type:
    """A class like ``base`` that has got fields with defaults."""
    return dataclasses.make_dataclass(
        name, [(key, type_, default) for key, (type_, default) in more.items()], bases=(base,)
    )


class UserList(list[Any]):
    """A list of somebody's own."""


@dataclasses.dataclass
class Cart:
    id: int
    lines: list[Any] = dataclasses.field(default_factory=list)


class CartStruct(msgspec.Struct, rename="camel"):
    id: int
    line_count: list[Any] = []


class GrownCartStruct(CartStruct, rename="camel"):
    gift_note: str | None = None
    opened: dict[str, int] = msgspec.field(default_factory=dict)


class GrownPoint(NamedTuple):
    x: int
    y: int = 0
    z: int = 0


def test_a_dataclass_that_grew_a_defaulted_field_has_the_same_digest():
    grown_cart = grown(
        "GrownCart",
        Cart,
        note=(str, ""),
        colour=(Colour, Colour.RED),
        inner=(Cart, dataclasses.field(default_factory=lambda: Cart(5))),
    )
    assert of(Cart(1)) == of(grown_cart(1))
    assert of(Cart(1, [2])) == of(grown_cart(1, [2]))
    assert of(Cart(1)) != of(grown_cart(1, note="x"))
    assert of(Cart(1)) != of(grown_cart(1, inner=Cart(6)))


def test_a_struct_that_grew_a_defaulted_field_has_the_same_digest():
    assert of(CartStruct(1)) == of(GrownCartStruct(1))
    assert of(CartStruct(1, [2])) == of(GrownCartStruct(1, [2]))
    assert of(CartStruct(1)) != of(GrownCartStruct(1, [], "x"))


def test_a_named_tuple_that_grew_a_defaulted_field_has_the_same_digest():
    assert of(Point(1)) == of(GrownPoint(1))
    assert of(Point(1, 2)) == of(GrownPoint(1, 2, 0))
    assert of(Point(1)) != of(GrownPoint(1, 0, 1))


def test_nested_fields_equal_to_their_defaults_are_left_out():
    grown_cart = grown("GrownCart", Cart, note=(str, ""))
    assert of([{"cart": (Cart(1), {"more": Cart(2)})}]) == of([{"cart": (grown_cart(1), {"more": grown_cart(2)})}])
    assert of({"carts": {Point(1), Point(2)}}) == of({"carts": {GrownPoint(1), GrownPoint(2)}})


def test_a_value_that_only_compares_equal_to_the_default_is_not_left_out():
    @dataclasses.dataclass
    class Switch:
        on: Any = 0

    assert len({of(Switch(0)), of(Switch(False)), of(Switch(0.0)), of(Switch("0"))}) == 4


def test_a_default_that_differs_each_time_is_never_left_out():
    @dataclasses.dataclass
    class Event:
        id: Any = dataclasses.field(default_factory=uuid4)
        at: datetime = dataclasses.field(default_factory=lambda: datetime.now(UTC))

    assert of(Event()) != of(Event())
    event = Event()
    assert of(event) == of(Event(event.id, event.at))


def test_a_default_that_cannot_be_made_is_no_default():
    def fail() -> int:
        raise RuntimeError("not now")

    @dataclasses.dataclass
    class Fragile:
        id: int = dataclasses.field(default_factory=fail)
        what: Any = dataclasses.field(default_factory=object)

    assert of(Fragile(1, 2)) == of({"id": 1, "what": 2})


def test_tagged_structs_are_told_apart():
    assert of(Card("1")) != of(Transfer("1"))
    assert of(Card("1")) == of({"type": "card", "number": "1"})


def test_attrs_classes_that_grew_a_defaulted_field_have_the_same_digest():
    attrs = pytest.importorskip("attrs")
    fields = {"name": attrs.field(type=str)}
    more = {"tags": attrs.field(type=list, factory=list), "n": attrs.field(type=int, default=3)}
    one, other = attrs.make_class("Kind", fields), attrs.make_class("Kind", fields | more)
    assert of(one("hat")) == of(other("hat"))
    assert of(one("hat")) != of(other("hat", ["new"]))


def test_pydantic_models_that_grew_a_defaulted_field_have_the_same_digest():
    pydantic = pytest.importorskip("pydantic")
    one = pydantic.create_model("Kind", name=(str, ...))
    other = pydantic.create_model("Kind", name=(str, ...), price=(float, 1.0))
    assert of([one(name="hat")]) == of([other(name="hat")])
    assert of([one(name="hat")]) != of([other(name="hat", price=2.0)])


# --- what it must not depend on, and what is refused ------------------------------------------------------------------


def test_digests_do_not_depend_on_the_hash_seed_or_on_addresses():
    program = """
import sys
from tests.serialization.models import EXAMPLES, Colour
from runnerq.serialization.digest import digest
padding = [object() for _ in range(int(sys.argv[1]))]
values = [value for value, _ in EXAMPLES]
words = {f"word-{n}" for n in range(200)} | {1.5, None, (1, "a"), frozenset({"x", "y", 3}), Colour.RED}
print([digest((value,), {"k": words, "v": value}, b"key") for value in values])
"""
    printed = {
        subprocess.run(
            [sys.executable, "-c", program, str(seed * 1000)],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (0, 1, 4711)
    }
    assert len(printed) == 1


def test_a_digest_does_not_depend_on_how_deep_its_caller_stands():
    value: Any = Item("leaf")
    for level in range(120):
        value = [value] if level % 3 else Cart(level, [value])

    def deep(levels: int) -> str:
        return of(value) if levels == 0 else deep(levels - 1)

    assert deep(0) == deep(300)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "[0]"),
        ({"a": [1, math.inf]}, "[0]['a'][1]"),
        ([object()], "[0][0]"),
        ({"a": "\ud800"}, "[0]['a']"),
        (Cart(1, [lambda: 1]), "[0].lines[0]"),
        ({(1, 2): 3}, "[0]"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(value, path):
    with pytest.raises(EncodingError) as caught:
        digest((value,), {}, KEY, "an argument of step 'charge' of run X")
    assert caught.value.path == path
    assert str(caught.value).startswith("an argument of step 'charge' of run X cannot be stored")


def test_arguments_at_the_limit_of_depth_have_a_digest_and_deeper_ones_are_refused():
    value: Any = []
    for _ in range(498):
        value = [value]
    assert of(value)
    looped: list[Any] = []
    looped.append(looped)
    for deep in ([[value]], [[[value]]], looped):
        with pytest.raises(EncodingError, match="500 levels"):
            of(deep)
