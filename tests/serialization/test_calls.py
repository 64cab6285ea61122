from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from runnerq.errors import DecodingError, EncodingError, PayloadTooLarge
from runnerq.serialization.codec import Codec
from runnerq.serialization.signatures import signature_of, workflow_signature_of
from tests.serialization.models import ORDER, Item, Order

WHAT = "the arguments of run X"
codec = Codec()


def pay(order: Order, amount: int = 1, *, note: str = "") -> None: ...


def must_say(order_id: UUID, /, *, reason: str) -> None: ...


def anything(*items: Item, **prices: float) -> None: ...


def untyped(ctx, order, amount=1): ...  # type: ignore[no-untyped-def]


def shop(ctx: object, order: Order) -> Any:
    yield order


def read_back(fn: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return codec.decode_call(codec.encode_call(args, kwargs, WHAT), signature_of(fn), WHAT)


def test_positional_arguments_are_an_array_and_keyword_ones_make_it_an_object():
    assert codec.encode_call((1, "a"), {}, WHAT) == '[1,"a"]'
    assert codec.encode_call((), {}, WHAT) == "[]"
    assert codec.encode_call((1,), {"b": 2}, WHAT) == '{"args":[1],"kwargs":{"b":2}}'


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((ORDER,), {}),
        ((ORDER, 5), {}),
        ((ORDER,), {"amount": 5}),
        ((), {"order": ORDER, "note": "thanks"}),
        ((ORDER, 5), {"note": "thanks"}),
    ],
)
def test_each_argument_reads_back_as_its_annotated_type(args, kwargs):
    assert read_back(pay, *args, **kwargs) == (args, kwargs)


def test_positional_only_and_keyword_only_arguments_read_back():
    assert read_back(must_say, ORDER.id, reason="late") == ((ORDER.id,), {"reason": "late"})


def test_variable_arguments_read_back_as_the_type_of_each():
    given = ((Item("hat"), Item("shoe")), {"hat": 1.0, "shoe": 2.0})
    assert read_back(anything, *given[0], **given[1]) == given
    assert read_back(anything) == ((), {})


def test_un_annotated_arguments_read_back_as_json_builtins():
    assert codec.decode_call('[{"a": 1}, 2]', workflow_signature_of(untyped_flow), WHAT) == (({"a": 1}, 2), {})


def untyped_flow(ctx, order, amount=1):  # type: ignore[no-untyped-def]
    yield order, amount


def test_the_context_of_a_workflow_is_no_argument():
    text = codec.encode_call((ORDER,), {}, WHAT)
    assert codec.decode_call(text, workflow_signature_of(shop), WHAT) == ((ORDER,), {})


def test_a_built_in_function_takes_what_it_is_given():
    assert read_back(max, 1, 2) == ((1, 2), {})
    assert read_back(print, "a", sep="") == (("a",), {"sep": ""})


@pytest.mark.parametrize("text", ["[]", " [ ] ", '{"args": [], "kwargs": {}}', "{}"])
def test_a_call_without_arguments_may_be_written_by_hand(text):
    assert codec.decode_call(text, signature_of(anything), WHAT) == ((), {})


@pytest.mark.parametrize(
    ("fn", "text", "reason"),
    [
        (pay, "[]", "'order' is missing"),
        (must_say, '["018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f"]', "'reason' is missing"),
        (must_say, '{"args": [], "kwargs": {"order_id": "x", "reason": "y"}}', "no argument 'order_id'"),
        (pay, '{"args": [], "kwargs": {"amount": 1, "colour": 2}}', "it takes no argument 'colour'"),
        (
            pay,
            '[{"id": "018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f"}, 1, "note"]',
            "takes 2 positional arguments and 3 are given",
        ),
        (pay, '[{"id": 5}]', "argument 'order' of pay does not fit Order: Expected `uuid`, got `int` - at `$.id`"),
        (
            pay,
            '{"args": [{"id": "018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f"}, 1], "kwargs": {"amount": 2}}',
            "'amount' is given twice",
        ),
        (anything, '{"args": [], "kwargs": {"hat": "free"}}', "argument 'prices' of anything does not fit float"),
        (pay, "5", "Expected `object`"),
        (pay, '{"args": [], "more": 1}', "more"),
        (pay, '[{"id"', "truncated"),
        (pay, "", "truncated"),
        (pay, "[" * 1_000, "500 levels"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_what_does_not(fn, text, reason):
    with pytest.raises(DecodingError, match=re.escape(reason)) as caught:
        codec.decode_call(text, signature_of(fn), WHAT)
    assert str(caught.value).startswith(WHAT)


def test_an_argument_that_cannot_be_stored_is_refused_with_its_place():
    with pytest.raises(EncodingError) as caught:
        codec.encode_call((1, {"a": object()}), {}, WHAT)
    assert caught.value.path == "[1]['a']"
    with pytest.raises(PayloadTooLarge):
        Codec(10).encode_call(("a" * 10,), {}, WHAT)
