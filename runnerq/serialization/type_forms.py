"""Which type forms can be decoded into, and what they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from runnerq.errors import ConfigurationError
from runnerq.serialization.models import UnionDecoder, is_model, union_decoder, validate

_SUBCLASSED = (str, int, float)
_NO_KEYS = (
    msgspec.inspect.BoolType, msgspec.inspect.CollectionType, msgspec.inspect.TupleType, msgspec.inspect.NamedTupleType,
    msgspec.inspect.StructType, msgspec.inspect.DataclassType,
)  # fmt: skip


def check_type(type_: Any, where: object) -> None:
    """Raise ConfigurationError, naming ``where``, if values cannot be decoded into this type form."""
    if isinstance(decoder_of(type_, where), UnionDecoder):
        return
    try:
        reason = _refusal(msgspec.inspect.type_info(type_), set())
    except Exception as exc:  # annotations of user classes are evaluated
        raise _cannot(type_, where, f"{type(exc).__name__}: {exc}") from exc
    if reason is not None:
        raise _cannot(type_, where, reason)


def decoder_of(type_: Any, where: object) -> Callable[[str | bytes | msgspec.Raw], Any]:
    """What decodes JSON into the type. Raises ConfigurationError, naming ``where``, if nothing can."""
    try:
        return msgspec.json.Decoder(type_, dec_hook=revive).decode
    except Exception as exc:  # annotations of user classes are evaluated
        try:
            union = union_decoder(type_)
        except Exception as refused:  # pydantic makes it, with hooks of user classes
            raise _cannot(type_, where, str(refused) or type(refused).__name__) from refused
        if union is not None:
            return union
        raise _cannot(type_, where, str(exc) or type(exc).__name__) from exc


def revive(type_: Any, stored: Any) -> Any:
    """An instance of what msgspec does not know, from its stored form: the inverse of ``places.convert``."""
    if is_model(type_):
        return validate(type_, stored)
    for plain in _SUBCLASSED:
        if isinstance(type_, type) and issubclass(type_, plain):
            if isinstance(stored, bool) or not isinstance(stored, (int, float) if plain is float else plain):
                raise TypeError(f"Expected `{plain.__name__}`, got `{type(stored).__name__}`")
            return type_(stored)
    raise TypeError(f"{describe(type_)} has no JSON form")


def describe(type_: Any) -> str:
    """The type form as one would write it."""
    if type_ is None or type_ is type(None):
        return "None"
    if isinstance(type_, type) and not hasattr(type_, "__origin__"):
        return type_.__qualname__
    return str(type_).replace("typing.", "").replace("NoneType", "None")


def _cannot(type_: Any, where: object, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where} is annotated {describe(type_)}, and values cannot be stored and read back as that: {reason}. Use "
        "builtins, dataclasses, msgspec.Structs, attrs or pydantic classes; a union of several classes needs tagged "
        "Structs, or pydantic models with a Literal each; Any gives JSON builtins"
    )


def _private(cls: Any) -> str | None:
    """The first field of an attrs class that is not stored."""
    names = (attribute.name for attribute in getattr(cls, "__attrs_attrs__", ()))
    return next((name for name in names if name.startswith("_")), None)


def _refusal(node: Any, seen: set[int]) -> str | None:
    """Why something in a described type cannot be stored and read back; None if all of it can."""
    if isinstance(node, tuple):
        return next(filter(None, (_refusal(each, seen) for each in node)), None)
    if not isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field) or id(node) in seen:
        return None
    seen.add(id(node))
    reason = _refusal_of_itself(node)
    return reason or next(filter(None, (_refusal(getattr(node, name), seen) for name in node.__struct_fields__)), None)


def _refusal_of_itself(node: Any) -> str | None:
    match node:
        case msgspec.inspect.CustomType(cls=cls) if not is_model(cls) and not issubclass(cls, _SUBCLASSED):
            return f"{describe(cls)} has no JSON form"
        case msgspec.inspect.DataclassType(cls=cls) if (hidden := _private(cls)) is not None:
            # It would be lost in silence: msgspec leaves it out.
            return f"field {hidden!r} of {describe(cls)} begins with '_', which is not stored"
        case msgspec.inspect.DictType(key_type=key):
            return _refusal_of_key(key)
        case _:
            return None


def _refusal_of_key(key: Any) -> str | None:
    """Why the keys of a dict cannot be told from the text that they are stored as."""
    kinds = key.types if isinstance(key, msgspec.inspect.UnionType) else (key,)
    if any(isinstance(kind, _NO_KEYS) for kind in kinds):
        return "keys of a dict are stored as text: str, numbers, dates, enums or UUIDs, and no other"
    others = [kind for kind in kinds if not isinstance(kind, msgspec.inspect.StrType | msgspec.inspect.NoneType)]
    if others and any(isinstance(kind, msgspec.inspect.StrType) for kind in kinds):
        return "keys of a dict are stored as text, so that of those that may be str or something else all read as str"
    return None
