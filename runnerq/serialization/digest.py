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
from runnerq.serialization.nesting import MAX_DEPTH
from runnerq.serialization.places import TOO_DEEP, Unstorable, convert
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
    except Exception as exc:  # properties and hooks of user types run here
        # It knows the place. Where it finds no fault, ours is the answer: a caller deep in its own recursion, say.
        encoded(call, what)
        reason = TOO_DEEP if isinstance(exc, RecursionError) else str(exc) or type(exc).__name__
        raise EncodingError(str(what), reason) from exc
    hashed = blake2b(form, key=key, digest_size=_SIZE).digest()
    return b2a_base64(hashed, newline=False).translate(_TO_URL).decode()


def _canonical(value: Any, depth: int) -> Any:
    """The value as builtins that encode the same for equal values."""
    # Loops and not comprehensions: in Python 3.11 those take a second frame a level, and 500 levels must fit.
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > MAX_DEPTH:
        raise Unstorable(TOO_DEEP)
    if kind is tuple or kind is list:
        return _items(value, depth)
    if kind is dict:
        return _entries(value, depth)
    if kind is float:
        return _finite(value)
    return _special(value, depth)


def _items(value: Any, depth: int) -> list[Any]:
    items = []
    for item in value:
        kind = type(item)
        if kind in _PLAIN or (kind is dict and _is_plain(item)):
            items.append(item)
        else:
            items.append(_canonical(item, depth + 1))
    return items


def _is_plain(value: dict[Any, Any]) -> bool:
    """Whether this dict is its own canonical form, seen at once: text to text, numbers, truths and None."""
    for key, item in value.items():  # noqa: SIM110  # a generator costs twice as much
        if type(item) not in _PLAIN or type(key) is not str:
            return False
    return True


def _entries(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    entries = {}
    for key, item in value.items():
        text = key if type(key) is str else _key(key)
        entries[text] = item if type(item) in _PLAIN else _canonical(item, depth + 1)
    return entries


def _special(value: Any, depth: int) -> Any:
    if isinstance(value, _LEAVES):
        return value
    if isinstance(value, enum.Enum):
        return _canonical(value.value, depth + 1)
    if (shape := shape_of(type(value))) is not None:
        return _given_fields(value, shape, depth)
    if isinstance(value, dict):
        return _entries(value, depth)
    if isinstance(value, list | tuple):
        return _items(value, depth)
    if isinstance(value, set | frozenset):
        return _members(value, depth)
    if hasattr(type(value), "model_dump"):
        return _canonical(value.model_dump(mode="json", exclude_defaults=True), depth + 1)
    return _canonical(convert(value), depth + 1)


def _members(value: set[Any] | frozenset[Any], depth: int) -> list[msgspec.Raw]:
    # Ordered by their encoding: members need not compare with each other.
    forms = []
    for member in value:
        forms.append(_sorted(_canonical(member, depth + 1)))  # noqa: PERF401  # as above
    forms.sort()
    return [msgspec.Raw(form) for form in forms]


def _given_fields(value: Any, shape: Shape, depth: int) -> dict[str, Any]:
    """The fields that are not equal to their defaults."""
    defaults = _defaults.get(type(value))
    if defaults is None:
        defaults = _defaults[type(value)] = tuple(_default(field.default) for field in shape.fields)
    given = dict([shape.tag]) if shape.tag is not None else {}
    for field, default in zip(shape.fields, defaults, strict=True):
        item = getattr(value, field.name, msgspec.UNSET)
        if item is msgspec.UNSET:
            continue
        form = _canonical(item, depth + 1)
        if default is None or _sorted(form) != default:
            given[field.key] = form
    return given


def _default(make: Any) -> bytes | None:
    # Made once a class: a factory that gives something new each time (a time, an id) is then equal to nothing.
    if make is None:
        return None
    try:
        return _sorted(_canonical(make(), 0))
    except Exception:  # noqa: BLE001  # a default that cannot be made or stored is no value of this field
        return None


def _key(key: Any) -> str:
    """A dict's key as it is stored."""
    stored: dict[str, None] = msgspec.json.decode(msgspec.json.encode({key: None}, enc_hook=convert))
    return next(iter(stored))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise Unstorable(f"{value} has no JSON form")
    return value
