"""Where inside a value the thing is that cannot be stored, and why.

Only asked once something is wrong, or may be: msgspec says what it refuses but not where, and writes NaN as null.
"""

from __future__ import annotations

import enum
import inspect
import math
from collections import deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Any, TypeAlias

import msgspec

from runnerq.serialization.foreign import said
from runnerq.serialization.models import dump, dumps_itself
from runnerq.serialization.nesting import MAX_DEPTH
from runnerq.serialization.shapes import shape_of

NOT_FINITE = "it holds NaN or infinity, and JSON has no such number"
TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels, or contains itself"
_NO_FLOATS = frozenset({str, int, bool, type(None), bytes})

# A place is linked to the one around it, so that its text is made only for the one that is wrong.
_Place: TypeAlias = "tuple[_Place, str] | None"


class Unstorable(TypeError):
    """A value has no stored form; the text says what to do instead."""


def convert(value: Any) -> Any:
    """The stored form of what msgspec does not know: subclasses of str, int and float, and pydantic models.

    Raises Unstorable for everything else.
    """
    # Past what the subclass says of itself: its own __str__ and __float__ may say something else.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__pos__(value)
    if isinstance(value, float):
        return float.__pos__(value)
    if dumps_itself(value):
        return dump(value)
    raise Unstorable(_advice(value))


def is_finite(value: Any) -> bool:
    """Whether no float inside is NaN or infinite; of a value that msgspec has encoded and that is not too deep."""
    kind = type(value)
    if kind is dict:
        items: Any = value.values()
    elif kind is list or kind is tuple:
        items = value
    elif isinstance(value, float):
        return math.isfinite(value)
    else:
        items = [child for _, child in _children(value)]
    for item in items:
        kind = type(item)
        if kind in _NO_FLOATS:
            continue
        # Asked before the call, which costs more: x - x is 0 for finite x alone.
        if item - item != 0 if kind is float else not is_finite(item):
            return False
    return True


def find_fault(value: Any) -> tuple[str, str] | None:
    """The place and the reason of the first thing in ``value`` that cannot be stored."""
    waiting: list[tuple[Any, _Place, int]] = [(value, None, 0)]
    while waiting:
        item, place, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return _text(place), TOO_DEEP
        reason = _fault(item)
        if reason is not None:
            return _text(place), reason
        inside = [(child, (place, part), depth + 1) for part, child in _children(item)]
        waiting.extend(reversed(inside))
    return None


def _fault(item: Any) -> str | None:
    """Why this one, taken without what is inside it, cannot be stored."""
    if isinstance(item, str):
        return _str_fault(item)
    if isinstance(item, float):
        return None if math.isfinite(item) else f"it is {float(item)}, and JSON has no such number"
    if isinstance(item, dict):
        return next(filter(None, map(_key_fault, item)), None)
    if isinstance(item, list | tuple | set | frozenset) or shape_of(type(item)) is not None:
        return None
    return _refusal(item)


def _str_fault(text: str) -> str | None:
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        return (
            f"it holds the lone surrogate {text[exc.start]!r} at index {exc.start}, which is no text: pass bytes, "
            "for a file name those of os.fsencode()"
        )
    return None


def _key_fault(key: Any) -> str | None:
    if isinstance(key, str):
        return _str_fault(key) and f"its key {_shown(key)} holds a lone surrogate, which is no text"
    reason = _refusal({key: None})
    return reason and f"its key {_shown(key)} is {_kind(key)}: keys are str, numbers, dates, enums or UUIDs"


def _refusal(item: Any) -> str | None:
    try:
        msgspec.json.encode(item, enc_hook=convert)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # noqa: BLE001  # properties and hooks of user types run here
        return said(exc)
    return None


def _children(item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, dict):
        for key, child in item.items():
            yield f"[{_shown(key)}]", child
    elif isinstance(item, enum.Enum):
        yield "", item.value
    elif (shape := shape_of(type(item))) is not None:
        for field in shape.fields:
            if hasattr(item, field.name):
                yield f".{field.name}", getattr(item, field.name)
    elif isinstance(item, list | tuple):
        for index, child in enumerate(item):
            yield f"[{index}]", child
    elif isinstance(item, set | frozenset):
        for child in item:
            yield "{...}", child
    elif hasattr(type(item), "model_dump"):
        yield "", convert(item)


def _text(place: _Place) -> str:
    parts = []
    while place is not None:
        place, part = place
        parts.append(part)
    if len(parts) > 12:  # enough of both ends to find it, in a text that can be read
        parts[6:-6] = [" ... "]
    return "".join(reversed(parts)).removeprefix(".")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."  # long enough to find it, short enough to read


def _kind(value: Any) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("a builtins.", "a ")


def _advice(value: Any) -> str:  # noqa: PLR0911  # a table
    kind = _kind(value)
    match value:
        # This floor knows nothing of commands; what they are shows in where they come from.
        case _ if type(value).__module__.startswith("runnerq.workflow."):
            if type(value).__name__ == "Command":
                return f"it is the command {value!r}, not its answer: write `yield from` before it"
            return f"it is {kind}, which only the workflow that has it can use: pass data, such as an id"
        case _ if inspect.isgenerator(value):
            return "it is a generator: write `yield from` before it, or list(...) around it"
        case _ if inspect.isawaitable(value):
            return f"it is {kind}, not its result: write `await` before it"
        case _ if inspect.isasyncgen(value):
            return "it is an async generator: collect what it gives in a list"
        case type():
            return f"it is the class {value.__qualname__}: pass an instance, or its name"
        case _ if inspect.isroutine(value):
            return f"it is the function {getattr(value, '__qualname__', value)}: pass what it returns, or its name"
        case _ if inspect.ismodule(value):
            return f"it is the module {value.__name__}: pass its name"
        case BaseException():
            return f"it is an exception ({type(value).__qualname__}): raise it, or pass str(...) of it"
        case PurePath():
            return "it is a path: pass str(...) of it"
        case Mapping():
            return f"it is {kind}: pass dict(...) of it"
        case deque() | range() | Iterator() | AbstractSet():
            return f"it is {kind}: pass list(...) of it"
        case _:
            return f"{kind} has no JSON form: use builtins, a dataclass, a msgspec.Struct, an attrs or pydantic class"
