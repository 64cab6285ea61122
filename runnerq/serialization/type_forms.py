"""Which type forms can be decoded into, and what they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from runnerq.errors import ConfigurationError
from runnerq.serialization.models import UnionDecoder, is_model, union_decoder, validate

_SUBCLASSED = (str, int, float)


def check_type(type_: Any, where: object) -> None:
    """Raise ConfigurationError, naming ``where``, if values cannot be decoded into this type form."""
    if isinstance(decoder_of(type_, where), UnionDecoder):
        return
    try:
        refused = _refused(msgspec.inspect.type_info(type_), set())
    except Exception as exc:  # annotations of user classes are evaluated
        raise _cannot(type_, where, f"{type(exc).__name__}: {exc}") from exc
    if refused is None:
        return
    hidden = _private(refused)
    if hidden is not None:
        # It would be lost in silence: msgspec leaves it out.
        raise _cannot(type_, where, f"field {hidden!r} of {describe(refused)} begins with '_', which is not stored")
    raise _cannot(type_, where, f"{describe(refused)} has no JSON form")


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


def _refused(node: Any, seen: set[int]) -> Any:
    """The first class in a described type that nothing here can revive; None if there is none."""
    if isinstance(node, tuple):
        return next(filter(None, (_refused(each, seen) for each in node)), None)
    if not isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field) or id(node) in seen:
        return None
    seen.add(id(node))
    if isinstance(node, msgspec.inspect.CustomType):
        return None if is_model(node.cls) or issubclass(node.cls, _SUBCLASSED) else node.cls
    if isinstance(node, msgspec.inspect.DataclassType) and _private(node.cls) is not None:
        return node.cls
    return next(filter(None, (_refused(getattr(node, name), seen) for name in node.__struct_fields__)), None)
