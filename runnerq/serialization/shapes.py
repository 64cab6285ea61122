"""The fields of classes that are stored by field: Structs, dataclasses, attrs classes, named tuples."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import msgspec


class Field(msgspec.Struct, frozen=True):
    """An attribute, the key it is stored under, and what makes its default, if it has one."""

    name: str
    key: str
    default: Callable[[], Any] | None = None


class Shape(msgspec.Struct, frozen=True):
    """The fields of a class, and the (key, value) of a tagged Struct."""

    fields: tuple[Field, ...]
    tag: tuple[str, Any] | None = None


_known: WeakKeyDictionary[type, Shape | None] = WeakKeyDictionary()


def shape_of(cls: type) -> Shape | None:
    """The shape of a class; None for one that is not stored by field."""
    try:
        return _known[cls]
    except KeyError:
        shape = _known[cls] = _read(cls)
        return shape


def _read(cls: type) -> Shape | None:
    if issubclass(cls, msgspec.Struct):
        config = cls.__struct_config__
        tag = None if config.tag is None else (str(config.tag_field), config.tag)
        return Shape(_struct_fields(cls), tag)
    if dataclasses.is_dataclass(cls):
        return Shape(tuple(_dataclass_field(field) for field in dataclasses.fields(cls)))
    if isinstance(attributes := getattr(cls, "__attrs_attrs__", None), tuple):
        return Shape(tuple(_attrs_field(attribute) for attribute in attributes))
    if issubclass(cls, tuple) and isinstance(names := getattr(cls, "_fields", None), tuple):
        defaults = getattr(cls, "_field_defaults", {})
        return Shape(tuple(Field(name, name, _constant(defaults, name)) for name in names))
    return None


def _struct_fields(cls: type[msgspec.Struct]) -> tuple[Field, ...]:
    try:
        described = msgspec.structs.fields(cls)
    except Exception:  # noqa: BLE001  # it resolves annotations, which can raise anything; without them no default is known
        names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
        return tuple(Field(name, key) for name, key in names)
    fields = []
    for field in described:
        default: Callable[[], Any] | None = None
        if field.default is not msgspec.NODEFAULT:
            default = _constant({field.name: field.default}, field.name)
        elif field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory
        fields.append(Field(field.name, field.encode_name, default))
    return tuple(fields)


def _dataclass_field(field: dataclasses.Field[Any]) -> Field:
    if field.default is not dataclasses.MISSING:
        return Field(field.name, field.name, _constant({field.name: field.default}, field.name))
    factory = field.default_factory
    return Field(field.name, field.name, None if factory is dataclasses.MISSING else factory)


def _attrs_field(attribute: Any) -> Field:
    default = attribute.default
    if default is getattr(sys.modules.get("attr"), "NOTHING", None):
        return Field(attribute.name, attribute.name)
    if not hasattr(default, "takes_self"):
        return Field(attribute.name, attribute.name, lambda: default)
    # A default made from the other attributes has no one value to compare with.
    return Field(attribute.name, attribute.name, None if default.takes_self else default.factory)


def _constant(values: dict[str, Any], name: str) -> Callable[[], Any] | None:
    return (lambda: values[name]) if name in values else None
