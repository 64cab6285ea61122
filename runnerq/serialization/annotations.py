"""Annotations to types, and, where that fails, the line that would mend it."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from runnerq.errors import ConfigurationError

_NOT_THERE = (NameError, AttributeError)


def annotations_of(fn: Any) -> Mapping[str, Any]:
    """The annotations as they are written: text, values or forward references."""
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415  # it is not there before 3.14, where reading an annotation runs it

        return annotationlib.get_annotations(fn, format=annotationlib.Format.FORWARDREF)
    annotations = getattr(fn, "__annotations__", None)
    return annotations if isinstance(annotations, Mapping) else {}


def resolve(fn: Any, name: str, annotation: Any) -> Any:
    """The type that an annotation of ``fn`` means; ``name`` is the parameter, or ``return``.

    Names are looked up where the function was written: its module, and what it closes over. Raises ConfigurationError
    with the function, the annotation and the import that is missing.
    """
    holder = lambda: None  # noqa: E731  # get_type_hints wants a function; a def's name would show in its errors
    holder.__annotations__ = {"it": annotation}
    try:
        hints = typing.get_type_hints(holder, getattr(fn, "__globals__", {}), _local_names(fn), include_extras=True)
    except Exception as exc:  # noqa: BLE001  # an annotation is code: evaluating it can raise anything
        _refuse(fn, name, annotation, exc)
    return hints["it"]


def _local_names(fn: Any) -> dict[str, Any]:
    names: dict[str, Any] = {each.__name__: each for each in getattr(fn, "__type_params__", ())}
    code = getattr(fn, "__code__", None)
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(fn, "__closure__", None) or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def _refuse(fn: Any, name: str, annotation: Any, exc: Exception) -> NoReturn:
    where = "its result" if name == "return" else f"parameter {name!r}"
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", repr(annotation))
    problem = f"{_described(fn)}: the annotation {text!r} of {where} cannot be resolved"
    missing = getattr(exc, "name", None) if isinstance(exc, _NOT_THERE) else None
    if not isinstance(exc, NameError) or not missing:
        raise ConfigurationError(f"{problem}: {type(exc).__name__}: {exc}") from exc
    raise ConfigurationError(f"{problem}: {_advice(fn, missing)}") from exc


def _described(fn: Any) -> str:
    code = getattr(fn, "__code__", None)
    line = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"{getattr(fn, '__qualname__', fn)}{line}"


def _advice(fn: Any, missing: str) -> str:
    module = getattr(fn, "__module__", None) or "its module"
    written = next(_imports_for_checkers(fn, missing), None)
    if written is not None:
        statement, line = written
        return (
            f"{missing!r} is imported for type checkers only, at line {line} of {module}, and is needed at run "
            f"time: move `{statement}` out of `if TYPE_CHECKING:`"
        )
    if "<locals>" in getattr(fn, "__qualname__", ""):
        return (
            f"{missing!r} is not to be found at run time in {module}: import it there; if it is defined inside a "
            "function, move it to the top of the module"
        )
    return f"{missing!r} is not defined at run time in {module}: import it there, outside `if TYPE_CHECKING:`"


def _imports_for_checkers(fn: Any, missing: str) -> Iterator[tuple[str, int]]:
    """The import statements under ``if TYPE_CHECKING`` of the function's file that bind this name, with their lines."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return
    for block in ast.walk(tree):
        if not isinstance(block, ast.If) or "TYPE_CHECKING" not in ast.unparse(block.test):
            continue
        for statement in block.body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                for alias in statement.names:
                    if missing == (alias.asname or alias.name.partition(".")[0]):
                        yield _import_of(statement, alias), statement.lineno


def _import_of(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(names=[alias]))
    return ast.unparse(ast.ImportFrom(module=statement.module, names=[alias], level=statement.level))


def parameters_of(fn: Callable[..., Any]) -> tuple[inspect.Parameter, ...] | None:
    """The parameters, without looking at annotations; None for a callable that does not tell (some built-in ones)."""
    signature = _signature(fn)
    return None if signature is None else tuple(signature.parameters.values())


def outermost_signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    """What a call itself takes, be it a wrapper that gives something else to what it wraps; None as above."""
    return _signature(fn, follow_wrapped=False)


def _signature(fn: Callable[..., Any], **how: Any) -> inspect.Signature | None:
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415  # as above

        how["annotation_format"] = annotationlib.Format.FORWARDREF
    try:
        return inspect.signature(fn, **how)
    except (ValueError, TypeError):
        return None
