"""What a function takes and returns, read once.

Rules
- ``functools.wraps``, ``partial`` and bound methods are looked through: what is inside says the types.
- An un-annotated parameter or result is Any.
- A generator function annotated ``Flow[R]``, any ``Generator[..., ..., R]``, returns R.
- The context of a workflow and the connection of a transaction are dropped, their annotations are not resolved.
- A signature is kept for as long as its function lives.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from functools import partial
from types import MethodType
from typing import Any, Never, NoReturn, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from runnerq.errors import ConfigurationError
from runnerq.serialization.annotations import annotations_of, parameters_of, resolve

_GENERATORS = (Generator, Iterator, Iterable)
_AWAITABLES = (Coroutine, Awaitable)
_GENERATOR_TEXT = re.compile(r"\b(Flow|Generator|Iterator)\b")
_MAX_LAYERS = 50
_Kind = inspect.Parameter


class Parameter(msgspec.Struct, frozen=True):
    """One parameter. ``by_name`` says whether it can be given by keyword."""

    name: str
    type: Any
    required: bool
    by_name: bool = True


class Signature(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A function's parameters and result, as types. Compared by identity.

    ``is_async`` is True where a call gives something to await. ``source`` is ``file:line``. ``arguments`` is the tuple
    type of all positional arguments, where nothing else has to be given; else None.
    """

    name: str
    positional: tuple[Parameter, ...]
    keyword_only: tuple[Parameter, ...]
    var_positional: Parameter | None
    var_keyword: Parameter | None
    returns: Any
    is_async: bool
    is_generator: bool
    source: str
    arguments: Any = None

    def parameters(self) -> tuple[Parameter, ...]:
        """All of them, ``*args`` and ``**kwargs`` last."""
        variable = (self.var_positional, self.var_keyword)
        return (*self.positional, *self.keyword_only, *(each for each in variable if each is not None))


# What a built-in function that does not tell its parameters is taken to have.
_ANYTHING: dict[Any, tuple[Parameter, ...]] = {
    _Kind.VAR_POSITIONAL: (Parameter("args", Any, required=False),),
    _Kind.VAR_KEYWORD: (Parameter("kwargs", Any, required=False),),
}

# By the reader and whether the function was bound: ``Shop.pay`` takes one argument more than ``shop.pay``.
_known: WeakKeyDictionary[Any, dict[tuple[str, bool], Signature]] = WeakKeyDictionary()


def signature_of(fn: Callable[..., Any]) -> Signature:
    """The signature of a step, activity or plain function.

    Raises ConfigurationError, naming function, annotation and missing import, for what cannot be resolved.
    """
    return _cached("function", fn, _read_function)


def workflow_signature_of(fn: Callable[..., Any]) -> Signature:
    """The signature of a workflow, without its context. Raises ConfigurationError also if ``fn`` can be no workflow."""
    return _cached("workflow", fn, _read_workflow)


def transaction_signature_of(fn: Callable[..., Any]) -> Signature:
    """The signature of what ``ctx.transaction`` calls, without its connection. Raises ConfigurationError, too."""
    return _cached("transaction", fn, _read_transaction)


def layers(fn: Any) -> tuple[Any, ...]:
    """The callable and what it wraps, outermost first."""
    found: list[Any] = []
    while len(found) < _MAX_LAYERS and not any(fn is each for each in found):
        found.append(fn)
        if isinstance(fn, partial):
            fn = fn.func
        elif isinstance(fn, MethodType):
            fn = fn.__func__
        elif (wrapped := getattr(fn, "__wrapped__", None)) is not None:
            fn = wrapped
        elif not isinstance(fn, type) and inspect.isfunction(called := inspect.getattr_static(fn, "__call__", None)):
            fn = called
    return tuple(found)


def returns_generator(fn: Callable[..., Any]) -> bool:
    """Whether the result is annotated as a generator; an annotation that cannot be resolved is judged by its text."""
    inner = layers(fn)[-1]
    annotation = annotations_of(inner).get("return")
    if annotation is None:
        return False
    try:
        type_ = _plain(resolve(inner, "return", annotation))
    except ConfigurationError:
        return _GENERATOR_TEXT.search(str(annotation)) is not None
    return (typing.get_origin(type_) or type_) in _GENERATORS


def source_line(fn: Any) -> str:
    """Where the function is written, ``file:line``; the module of one that is not written in Python."""
    inner = layers(fn)[-1]
    code = getattr(inner, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return str(getattr(inner, "__module__", None) or type(inner).__module__)


def _cached(reader: str, fn: Any, read: Callable[[Any], Signature]) -> Signature:
    # A bound method is a new object each time; what lives is its function.
    bound = isinstance(fn, MethodType)
    owner = fn.__func__ if bound else fn
    try:
        known = _known.setdefault(owner, {})
    except TypeError:  # it can be no key: an unhashable callable object, or a built-in without weak references
        return read(fn)
    signature = known.get((reader, bound))
    if signature is None:
        signature = known[reader, bound] = read(fn)
    return signature


def _read_function(fn: Any) -> Signature:
    return _read(fn, parameters_of(fn))


def _read_transaction(fn: Any) -> Signature:
    parameters = parameters_of(fn)
    if parameters is None:
        return _read(fn, None)
    first = parameters[0] if parameters else None
    if first is None or first.kind in (_Kind.KEYWORD_ONLY, _Kind.VAR_KEYWORD):
        raise ConfigurationError(
            f"{_name(fn)} ({source_line(fn)}) takes no connection, which a transaction's function is given first"
        )
    return _read(fn, parameters if first.kind is _Kind.VAR_POSITIONAL else parameters[1:])


def _read_workflow(fn: Any) -> Signature:
    parameters = parameters_of(fn)
    if any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in layers(fn)):
        raise ConfigurationError(f"{_name(fn)} ({source_line(fn)}) is async: a workflow is written with def and yield")
    first = parameters[0] if parameters else None
    if (
        parameters is None
        or first is None
        or first.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    ):
        raise ConfigurationError(
            f"{_name(fn)} ({source_line(fn)}) takes no context: a workflow's first parameter is ctx"
        )
    signature = _read(fn, parameters if first.kind is inspect.Parameter.VAR_POSITIONAL else parameters[1:])
    if not signature.is_generator:
        raise ConfigurationError(f"{_name(fn)} ({source_line(fn)}) makes no generator: a workflow yields its commands")
    return signature


def _read(fn: Any, parameters: tuple[inspect.Parameter, ...] | None) -> Signature:
    by_kind = _ANYTHING if parameters is None else _by_kind(fn, parameters)
    positional = (*by_kind.get(_Kind.POSITIONAL_ONLY, ()), *by_kind.get(_Kind.POSITIONAL_OR_KEYWORD, ()))
    keyword_only = by_kind.get(_Kind.KEYWORD_ONLY, ())
    returns, is_async, is_generator = _result(fn)
    return Signature(
        name=_name(fn),
        positional=positional,
        keyword_only=keyword_only,
        var_positional=next(iter(by_kind.get(_Kind.VAR_POSITIONAL, ())), None),
        var_keyword=next(iter(by_kind.get(_Kind.VAR_KEYWORD, ())), None),
        returns=returns,
        is_async=is_async,
        is_generator=is_generator,
        source=source_line(fn),
        arguments=None if any(each.required for each in keyword_only) else _tuple_of(positional),
    )


def _by_kind(fn: Any, parameters: tuple[inspect.Parameter, ...]) -> dict[Any, tuple[Parameter, ...]]:
    inner = _annotated(fn)
    written = annotations_of(inner)
    by_kind: dict[Any, tuple[Parameter, ...]] = {}
    for each in parameters:
        type_ = _value_type(resolve(inner, each.name, written[each.name])) if each.name in written else Any
        required = each.default is each.empty and each.kind not in (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)
        parameter = Parameter(each.name, type_, required, each.kind is not _Kind.POSITIONAL_ONLY)
        by_kind[each.kind] = (*by_kind.get(each.kind, ()), parameter)
    return by_kind


def _result(fn: Any) -> tuple[Any, bool, bool]:
    """The type of what a call gives in the end, whether it is to be awaited, and whether it is a generator's."""
    found = layers(fn)
    inner = found[-1]
    if isinstance(inner, type):
        return inner, False, False
    is_async = any(inspect.iscoroutinefunction(each) for each in found)
    is_generator = any(inspect.isgeneratorfunction(each) for each in found) or returns_generator(fn)
    written = annotations_of(inner)
    if "return" not in written:
        return Any, is_async, is_generator
    returns = _plain(resolve(inner, "return", written["return"]))
    origin = typing.get_origin(returns) or returns
    if is_generator:
        returns = _last_argument(returns, of=3) if origin is Generator else Any
    elif origin in _AWAITABLES and not is_async:
        is_async = True
        returns = _last_argument(returns, of=len(typing.get_args(returns)))
    return _value_type(returns), is_async, is_generator


def _annotated(fn: Any) -> Any:
    """What carries the annotations: the innermost function, or the constructor of a class."""
    inner = layers(fn)[-1]
    return inner.__dict__.get("__init__", inner) if isinstance(inner, type) else inner


def _tuple_of(parameters: tuple[Parameter, ...]) -> Any:
    types = tuple(each.type for each in parameters)
    return tuple[types]  # type: ignore[valid-type]  # a type made at run time, for the decoder


def _name(fn: Any) -> str:
    for layer in layers(fn):
        name = getattr(layer, "__name__", None)
        if isinstance(name, str) and name != "__call__":
            return name
    return type(fn).__name__


def _plain(type_: Any) -> Any:
    """The type behind ``Annotated`` and behind an alias of a ``type`` statement."""
    for _ in range(_MAX_LAYERS):
        origin = typing.get_origin(type_)
        if origin is typing.Annotated:
            type_ = type_.__origin__
        elif (value := getattr(origin if origin is not None else type_, "__value__", None)) is not None:
            type_ = value[typing.get_args(type_)] if origin is not None else value
        else:
            break
    return type_


def _last_argument(type_: Any, *, of: int) -> Any:
    arguments = typing.get_args(type_)
    return arguments[-1] if arguments and len(arguments) == of else Any


def _value_type(type_: Any) -> Any:
    """A type that values can be decoded into: Never has none, and object or a bare TypeVar say nothing of them."""
    if type_ in (Never, NoReturn, object) or isinstance(type_, TypeVar):
        return Any
    return type_
