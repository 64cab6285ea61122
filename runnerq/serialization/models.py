"""Classes that dump and validate themselves, as pydantic's models do; pydantic is never imported here.

Rules
- A model is stored under its fields' own names, not their aliases, and without computed fields: the form that reads
  back whatever the two kinds of aliases say. It is read by names and by aliases, for what somebody else has written; by
  names alone where an alias is another field's name, which would read one field's value into the other.
- It is read as JSON and not as Python values: what is strict takes a date's text only there.
- A union is read by a tag, or where JSON itself tells its members apart: pydantic, left to itself, takes what fits
  best. Where one stands in a field of a model, what is stored is read once more, and refused if it is not the same.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import msgspec

_PLAIN = frozenset({str, int, float, bool, NoneType})
_CONTAINERS = frozenset({list, dict, tuple})
_UNIONS = frozenset({typing.Union, UnionType})


class CannotDump(TypeError):
    """A model writes what could not be read back; the text says what to do instead."""


class CannotTell(TypeError):
    """Members of a union look alike in JSON; the text says what to do."""


class _Model(msgspec.Struct, frozen=True):
    """What matters of a pydantic class. ``how`` is how it is read: by names (pydantic 2.11 and later) and by aliases.

    ``hides``: it has fields that pydantic writes as asterisks. ``doubtful``: what it writes may read back as something
    else, which is looked at each time.
    """

    how: dict[str, bool]
    hides: bool
    doubtful: bool


_known: WeakKeyDictionary[type, _Model] = WeakKeyDictionary()


def is_model(type_: Any) -> bool:
    """Whether values of this class are read by its own ``model_validate``."""
    return hasattr(type_, "model_validate")


def dumps_itself(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(type(value), "model_dump")


def dump(value: Any) -> Any:
    """The value as JSON builtins. Raises CannotDump for one that would lose something."""
    cls = type(value)
    model = _model_of(cls)
    if model is None:
        return value.model_dump(mode="json")
    dumped = _dumped(value, model)
    if (model.hides or model.doubtful) and not _reads_back(value, dumped):
        if model.hides:
            raise CannotDump(
                f"it is a {cls.__qualname__}, whose secret pydantic writes as asterisks: give that field a "
                "field_serializer that writes its value, and connect(codec=Encryption(...)) to keep it"
            )
        raise CannotDump(
            f"it is a {cls.__qualname__}, and what pydantic writes of it reads back as another value: in a field that "
            "is a union give each class a Literal of its own, and the field a discriminator"
        )
    return dumped


def dump_what_differs(value: Any) -> Any:
    """The same without fields that are equal to their defaults: what a digest is made of."""
    model = _model_of(type(value))
    if model is None:
        return value.model_dump(mode="json", exclude_defaults=True)
    return _dumped(value, model, exclude_defaults=True)


def _dumped(value: Any, model: _Model, **how: Any) -> Any:
    try:
        return value.model_dump(mode="json", round_trip=True, by_alias=not model.how, **how)
    except UnicodeDecodeError as error:
        raise CannotDump(
            f"it is a {type(value).__qualname__} with bytes that are no UTF-8: give the class "
            "ConfigDict(ser_json_bytes='base64', val_json_bytes='base64')"
        ) from error


def _reads_back(value: Any, dumped: Any) -> bool:
    try:
        return bool(validate(type(value), dumped) == value)
    except ValueError:
        return False


def validate(type_: Any, stored: Any) -> Any:
    """The instance of what was stored."""
    model = _model_of(type_)
    if model is None:
        return type_.model_validate(stored)
    return type_.model_validate_json(msgspec.json.encode(stored), **model.how)


def _model_of(cls: type) -> _Model | None:
    """None for a class that is none of pydantic's, and only looks like one."""
    if not hasattr(cls, "__pydantic_validator__"):
        return None
    model = _known.get(cls)
    if model is None:
        forms = list(_forms(cls, {}))
        model = _known[cls] = _Model(
            how=_how(cls.model_validate_json, forms),  # type: ignore[attr-defined]  # a model
            # Secrets of pydantic's: SecretStr and the like.
            hides=any(hasattr(form, "get_secret_value") for form in forms),
            doubtful=any(_is_doubtful(form) for form in forms),
        )
    return model


def _how(read: Any, forms: Iterable[Any]) -> dict[str, bool]:
    """How ``read`` is told to read these forms; nothing before pydantic 2.11, which reads by aliases alone."""
    if "by_name" not in inspect.signature(read).parameters:
        return {}
    return {"by_alias": not any(map(_collides, forms)), "by_name": True}


def _forms(type_: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """The form, and all that it is made of: arguments, and the types of fields, each with what is said of the field."""
    if id(type_) in seen:
        return
    seen[id(type_)] = type_  # kept, so that no other gets its id
    yield type_
    inside: Iterable[Any] = typing.get_args(type_)
    if _is_discriminated(type_):
        inside = typing.get_args(typing.get_args(type_)[0])
    elif isinstance(type_, type) and (fields := _fields(type_)):
        inside = [Annotated[field.annotation, field] for field in fields.values()]
    elif (behind := getattr(type_, "__value__", None)) is not None:  # an alias of a ``type`` statement
        inside = [behind]
    elif isinstance(type_, type) and hasattr(type_, "__annotations__"):
        try:
            inside = typing.get_type_hints(type_, include_extras=True).values()
        except Exception:  # noqa: BLE001 - annotations are code: pydantic itself says what is wrong with them
            inside = ()
    for each in inside:
        yield from _forms(each, seen)


def _fields(cls: Any) -> dict[str, Any]:
    """The fields of a class of pydantic's, by name."""
    fields = getattr(cls, "__pydantic_fields__", None) or getattr(cls, "model_fields", None)
    return fields if isinstance(fields, dict) else {}


def _collides(form: Any) -> bool:
    """Whether it is a class of which an alias is another field's name, or leads into one."""
    fields = _fields(form)
    return any(
        key in fields and (key != name or not is_all) for name, field in fields.items() for key, is_all in _keys(field)
    )


def _keys(field: Any) -> Iterator[tuple[str, bool]]:
    """The keys that a field is also read from, and whether it is all that stands there."""
    for alias in (field.alias, *getattr(field.validation_alias, "choices", [field.validation_alias])):
        if alias is not None:
            path = getattr(alias, "path", [alias])
            yield path[0], len(path) == 1


def _is_doubtful(form: Any) -> bool:
    """Whether it is a union that pydantic guesses at, or a class in which something may stand under a field's alias."""
    if typing.get_origin(form) in _UNIONS:
        return len([each for each in typing.get_args(form) if each is not NoneType]) > 1
    extra = getattr(form, "model_config", {}).get("extra") if isinstance(form, type) else None
    return extra == "allow" and any(key != name for name, field in _fields(form).items() for key, _ in _keys(field))


def _is_discriminated(form: Any) -> bool:
    return any(getattr(each, "discriminator", None) is not None for each in getattr(form, "__metadata__", ()))


# --- unions of models -------------------------------------------------------------------------------------------------


class UnionDecoder:
    """Decodes JSON into a type form that has unions of models in it, in whatever order their members are written."""

    def __init__(self, adapter: Any, how: dict[str, bool]) -> None:
        self._adapter = adapter
        self._how = how

    def __call__(self, text: str | bytes | msgspec.Raw) -> Any:
        return self._adapter.validate_json(bytes(text) if isinstance(text, msgspec.Raw) else text, **self._how)


def union_decoder(type_: Any) -> UnionDecoder | None:
    """A decoder of this form, if it is made of models, plain values and containers of these alone; else None.

    Of anything else pydantic has another stored form than we. Raises CannotTell for a union whose members look alike.
    """
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not _is_of_models(type_):
        return None
    adapter = pydantic.TypeAdapter(_told_apart(type_, pydantic.Field))
    return UnionDecoder(adapter, _how(adapter.validate_json, _forms(type_, {})))


def _is_of_models(type_: Any) -> bool:
    if type_ in _PLAIN or _is_pydantic(type_):
        return True
    origin = typing.get_origin(type_)
    arguments = [each for each in typing.get_args(type_) if each is not Ellipsis]
    if origin is Annotated:
        return _is_of_models(arguments[0])
    if origin is dict and (not arguments or arguments[0] is not str):
        return False
    return (origin in _CONTAINERS or origin in _UNIONS) and all(map(_is_of_models, arguments))


def _is_pydantic(type_: Any) -> bool:
    return isinstance(type_, type) and is_model(type_) and hasattr(type_, "__pydantic_validator__")


def _told_apart(form: Any, field: Any) -> Any:
    """The form, with each union of models read by its tag. ``field`` is pydantic's."""
    origin: Any = typing.get_origin(form)
    arguments = typing.get_args(form)
    if origin is Annotated:
        inner, *said = arguments
        if _is_discriminated(form):
            apart = _any_of([_told_apart(each, field) for each in typing.get_args(inner)])
        else:
            apart = _told_apart(inner, field)
        return Annotated[(apart, *said)]
    if origin in _UNIONS:
        return _union([_told_apart(each, field) for each in arguments], field)
    if origin in _CONTAINERS:
        inside = tuple(each if each is Ellipsis else _told_apart(each, field) for each in arguments)
        return types.GenericAlias(origin, inside)
    return form


def _union(members: list[Any], field: Any) -> Any:
    """A union of these, in an order of our own: forms that are equal are decoded the same."""
    plain = sorted((each for each in members if each in _PLAIN), key=repr)
    arrays = [each for each in members if typing.get_origin(each) in (list, tuple)]
    objects = [each for each in members if each not in plain and each not in arrays]
    # Of what it writes itself nothing is known.
    unsure = [each for each in objects if _is_pydantic(each) and _writes_itself(each)]
    if len(arrays) > 1 or (unsure and len(members) - (NoneType in plain) > 1):
        raise CannotTell(_ALIKE.format(" and ".join(map(_name, unsure or arrays))))
    if len(objects) > 1:
        tag = _tag_of(objects)
        if tag is None:
            raise CannotTell(_ALIKE.format(" and ".join(map(_name, objects))))
        objects = [Annotated[_any_of(objects), field(discriminator=tag)]]
    return _any_of([*objects, *arrays, *plain])


def _any_of(members: Sequence[Any]) -> Any:
    return typing.Union[tuple(members)]  # noqa: UP007 - members that are known at run time


_ALIKE = (
    "what is stored of {} does not say which it was: give each model a field of one name with a Literal of its own, "
    "such as kind: Literal['charge'] = 'charge' and kind: Literal['refund'] = 'refund'"
)


def _name(member: Any) -> str:
    return str(getattr(member, "__qualname__", member)).replace("typing.", "")


def _writes_itself(model: Any) -> bool:
    decorators = getattr(model, "__pydantic_decorators__", None)
    return getattr(model, "__pydantic_root_model__", False) or bool(getattr(decorators, "model_serializers", None))


def _tag_of(members: Sequence[Any]) -> str | None:
    """The field that says which of these models it is."""
    for name in _fields(members[0]):
        values = [_literals(member, name) for member in members]
        every = [value for each in values for value in each]
        if all(values) and len(set(every)) == len(every):
            return name
    return None


def _literals(member: Any, name: str) -> tuple[Any, ...]:
    annotation = getattr(_fields(member).get(name), "annotation", None)
    return typing.get_args(annotation) if typing.get_origin(annotation) is Literal else ()
