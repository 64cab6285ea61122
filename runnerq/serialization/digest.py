"""A short hash of a call's arguments, to tell on replay whether the same was asked.

Rules
- It is taken over a canonical form: keys sorted, sets ordered, and fields that are equal to their defaults left out,
  nested ones too, so that adding a field with a default changes nothing.
- It depends on the values alone: not on hash seeds, addresses, or the order in which a dict was filled.
- It is keyed per run. What cannot be stored raises EncodingError, as encoding does.
"""

from __future__ import annotations

import enum
import math
from binascii import b2a_base64
from datetime import date, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec

from runnerq.errors import EncodingError
from runnerq.serialization.codec import encoded
from runnerq.serialization.foreign import safely, said
from runnerq.serialization.models import dump_what_differs, dumps_itself
from runnerq.serialization.nesting import MAX_DEPTH
from runnerq.serialization.places import NOT_FINITE, TOO_DEEP, Unstorable, convert
from runnerq.serialization.shapes import Shape, shape_of

_SIZE = 9
_TO_URL = bytes.maketrans(b"+/", b"-_")
_PLAIN = frozenset({str, int, bool, type(None)})
_LEAVES = (date, time, timedelta, Decimal, UUID, bytes, bytearray, memoryview, msgspec.Raw)
_sorted = msgspec.json.Encoder(order="deterministic").encode

# The encoded defaults of a class's fields, in order; None where a field has none.
_defaults: WeakKeyDictionary[type, tuple[bytes | None, ...]] = WeakKeyDictionary()


def digest(args: tuple[Any, ...], kwargs: dict[str, Any], key: bytes, what: object = "an argument") -> str:
    """12 characters that are equal for equal arguments. ``key`` is at most 64 bytes.

    Raises EncodingError, naming ``what``, for arguments that cannot be stored.
    """
    call = {"args": args, "kwargs": kwargs} if kwargs else args
    try:
        form = _sorted(_canonical(call, 0))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # properties and hooks of user types run here
        # It knows the place. Where it finds no fault, ours is the answer: a caller deep in its own recursion, say.
        encoded(call, what)
        reason = TOO_DEEP if isinstance(exc, RecursionError) else said(exc)
        raise EncodingError(str(what), reason) from exc
    hashed = blake2b(form, key=key, digest_size=_SIZE).digest()
    return b2a_base64(hashed, newline=False).translate(_TO_URL).decode()


def _canonical(value: Any, depth: int) -> Any:
    """The value as builtins that encode the same for equal values."""
    # One function, and loops, not comprehensions: a frame a level, so that MAX_DEPTH levels fit wherever it is called.
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > MAX_DEPTH:
        raise Unstorable(TOO_DEEP)
    if kind is not dict and kind is not list and kind is not tuple:
        value = _opened(value)
        kind = type(value)
    if kind is dict:
        if _is_plain(value):
            return value
        entries = {}
        for key, item in value.items():
            entries[key if type(key) is str else _key(key)] = _canonical(item, depth + 1)
        return entries
    if kind is list or kind is tuple:
        items = []
        for item in value:
            items.append(item if type(item) in _PLAIN else _canonical(item, depth + 1))  # noqa: PERF401  # as above
        return items
    if kind is _Fields:
        given = value.tag
        for key, item, default in value.fields:
            form = _canonical(item, depth + 1)
            if default is None or _sorted(form) != default:
                given[key] = form
        return given
    if kind is _Members:
        # Ordered by their encoding: members need not compare with each other.
        forms = []
        for item in value.items:
            forms.append(_sorted(_canonical(item, depth + 1)))  # noqa: PERF401  # as above
        forms.sort()
        return [msgspec.Raw(form) for form in forms]
    return value


class _Fields(msgspec.Struct):
    """What is inside a value of a class: key, item and encoded default of each field."""

    tag: dict[str, Any]
    fields: list[tuple[str, Any, bytes | None]]


class _Members(msgspec.Struct):
    """What is inside a set."""

    items: set[Any] | frozenset[Any]


def _opened(value: Any) -> Any:
    """What is inside: a dict, list or tuple, _Fields or _Members; a leaf as it is stored."""
    while isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, _LEAVES) or type(value) in _PLAIN:
        return value
    if (shape := shape_of(type(value))) is not None:
        return _fields(value, shape)
    if isinstance(value, set | frozenset):
        return _Members(value)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list | tuple):
        return list(value)
    if dumps_itself(value):
        return dump_what_differs(value)
    plain = value if type(value) is float else convert(value)
    if type(plain) is float and not math.isfinite(plain):
        raise Unstorable(NOT_FINITE)
    return plain


def _fields(value: Any, shape: Shape) -> _Fields:
    defaults = _defaults.get(type(value))
    if defaults is None:
        defaults = _defaults[type(value)] = tuple(_default(field.default) for field in shape.fields)
    fields = []
    for field, default in zip(shape.fields, defaults, strict=True):
        item = getattr(value, field.name, msgspec.UNSET)
        if item is not msgspec.UNSET:
            fields.append((field.key, item, default))
    return _Fields({} if shape.tag is None else dict([shape.tag]), fields)


def _is_plain(value: dict[Any, Any]) -> bool:
    """Whether this dict is its own canonical form, seen at once: text to text, whole numbers, truths and None."""
    for key, item in value.items():  # noqa: SIM110  # a generator costs twice as much
        if type(item) not in _PLAIN or type(key) is not str:
            return False
    return True


def _default(make: Any) -> bytes | None:
    # Made once a class: a factory that gives something new each time (a time, an id) is then equal to nothing.
    if make is None:
        return None
    # One that cannot be made or stored is no value of this field.
    return safely(lambda: _sorted(_canonical(make(), 0)), None)


def _key(key: Any) -> str:
    """A dict's key as it is stored."""
    stored: dict[str, None] = msgspec.json.decode(msgspec.json.encode({key: None}, enc_hook=convert))
    return next(iter(stored))
