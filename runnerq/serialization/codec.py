"""Values to JSON text and back, by type.

Rules
- What is stored reads back as an equal value of the annotated type, or it is refused when it is stored, with the place
  inside it: NaN and infinity (JSON has none), lone surrogates, more than 500 levels, what has no JSON form.
- Whole numbers of any size and NUL are kept. bytes are base64, Decimal, UUID and enums their text or value, times ISO
  text. Keys of a dict that are numbers, dates, enums or UUIDs become text, and their annotated type brings them back.
- Without a type (Any) values read back as JSON builtins: dict, list, str, int, float, bool, None.
- pydantic models are dumped and validated by their own methods; pydantic is never imported here.
- ``what`` names the value in errors ("the result of step 'charge' of run X"); it is turned into text only there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from runnerq.errors import ConfigurationError, DecodingError, EncodingError, PayloadTooLarge
from runnerq.serialization.foreign import safely, said
from runnerq.serialization.nesting import MAX_DEPTH, too_deep
from runnerq.serialization.places import NOT_FINITE, TOO_DEEP, convert, find_fault, is_finite
from runnerq.serialization.signatures import Parameter, Signature
from runnerq.serialization.type_forms import check_type, decoder_of, describe

__all__ = ["Codec", "check_type", "encoded"]

_encode = msgspec.json.Encoder(enc_hook=convert).encode
_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    args: list[msgspec.Raw] = []
    kwargs: dict[str, msgspec.Raw] = {}


_call = msgspec.json.Decoder(_Call).decode


def encoded(value: Any, what: object) -> bytes:
    """The JSON of a value, of any size. Raises EncodingError with the place inside it."""
    try:
        out = _encode(value)
    except RecursionError:
        # Also raised for less, by a caller that stands deep in its own recursion.
        raise EncodingError(str(what), TOO_DEEP) from None
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # properties and hooks of user types run here
        place, reason = safely(lambda: find_fault(value), None) or ("", said(exc))
        raise EncodingError(str(what), reason, place) from exc
    if too_deep(out):
        raise EncodingError(str(what), TOO_DEEP)
    # msgspec writes NaN and infinity as null.
    if b"null" in out and value is not None and not safely(lambda: is_finite(value), False):
        place, reason = safely(lambda: find_fault(value), None) or ("", NOT_FINITE)
        raise EncodingError(str(what), reason, place)
    return out


class Codec:
    """Encodes and decodes payloads. ``payload_limit`` is bytes of JSON for one value. Safe to share between threads."""

    def __init__(self, payload_limit: int = 1 << 20) -> None:
        self.payload_limit = payload_limit
        self._decoders: dict[Any, Callable[[str | bytes | msgspec.Raw], Any]] = {}

    def encode(self, value: Any, what: object) -> str:
        """The JSON text of a value. Raises EncodingError with the place inside it, PayloadTooLarge over the limit."""
        out = encoded(value, what)
        if len(out) > self.payload_limit:
            raise PayloadTooLarge(str(what), len(out), self.payload_limit)
        return out.decode()

    def decode(self, text: str, type_: Any, what: object) -> Any:
        """The value of JSON text as this type form, a fresh copy each time.

        Raises DecodingError if the text does not fit, ConfigurationError if nothing can be decoded into the type.
        """
        if len(text) > MAX_DEPTH and too_deep(text.encode("utf-8", "replace")):
            raise DecodingError(str(what), describe(type_), TOO_DEEP)
        return self._decode(text, type_, what)

    def encode_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], what: object) -> str:
        """The arguments of a call: an array, or ``{"args": [...], "kwargs": {...}}`` where there are keyword ones."""
        return self.encode({"args": args, "kwargs": kwargs} if kwargs else args, what)

    def decode_call(self, text: str, signature: Signature, what: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of ``encode_call``, each as its parameter's type. Raises DecodingError if they do not fit."""
        if len(text) > MAX_DEPTH and too_deep(text.encode("utf-8", "replace")):
            raise DecodingError(str(what), signature.name, TOO_DEEP)
        if signature.arguments is not None and (args := self._at_once(text, signature.arguments, what)) is not None:
            return args, {}
        try:
            if text.lstrip()[:1] == "[":
                raw_args: Sequence[msgspec.Raw] = _parts(text)
                raw_kwargs: dict[str, msgspec.Raw] = {}
            else:
                call = _call(text)
                raw_args, raw_kwargs = call.args, call.kwargs
        except Exception as exc:  # msgspec raises errors of four kinds for text that is no JSON
            raise DecodingError(str(what), f"the arguments of {signature.name}", said(exc)) from exc
        by_position = self._positional(signature, raw_args, what)
        by_name = self._named(signature, raw_kwargs, what)
        _check_all_given(signature, len(raw_args), raw_kwargs, what)
        return by_position, by_name

    def _at_once(self, text: str, arguments: Any, what: object) -> tuple[Any, ...] | None:
        """All arguments as one tuple; None if they do not fit it, and are to be read part by part."""
        try:
            decode = self._decoder(arguments, what)
        except ConfigurationError:
            # Each by itself can be read: one of them in pydantic's own way.
            decode = self._decoders[arguments] = _apart
        try:
            return cast("tuple[Any, ...]", decode(text))
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  # user types are made here, by their own code
            return None

    def _positional(self, signature: Signature, raw: Sequence[msgspec.Raw], what: object) -> tuple[Any, ...]:
        parameters = signature.positional
        if len(raw) > len(parameters):
            if signature.var_positional is None:
                takes = f"{len(parameters)} positional argument{'s' if len(parameters) != 1 else ''}"
                raise DecodingError(
                    str(what), f"the arguments of {signature.name}", f"it takes {takes} and {len(raw)} are given"
                )
            parameters += (signature.var_positional,) * (len(raw) - len(parameters))
        return tuple(self._argument(part, each, signature, what) for part, each in zip(raw, parameters, strict=False))

    def _named(self, signature: Signature, raw: dict[str, msgspec.Raw], what: object) -> dict[str, Any]:
        if not raw:
            return {}
        known = {each.name: each for each in (*signature.positional, *signature.keyword_only) if each.by_name}
        arguments = {}
        for name, part in raw.items():
            parameter = known.get(name, signature.var_keyword)
            if parameter is None:
                raise DecodingError(str(what), f"the arguments of {signature.name}", f"it takes no argument {name!r}")
            arguments[name] = self._argument(part, parameter, signature, what)
        return arguments

    def _argument(self, raw: msgspec.Raw, parameter: Parameter, signature: Signature, what: object) -> Any:
        return self._decode(raw, parameter.type, _Argument(parameter.name, signature.name, what))

    def _decode(self, text: str | msgspec.Raw, type_: Any, what: object) -> Any:
        decode = self._decoder(type_, what)
        try:
            return decode(text)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # user types are made here, by their own code
            raise DecodingError(str(what), describe(type_), said(exc)) from exc

    def _decoder(self, type_: Any, what: object) -> Callable[[str | bytes | msgspec.Raw], Any]:
        try:
            return self._decoders[type_]
        except KeyError:
            decode = self._decoders[type_] = decoder_of(type_, what)
            return decode
        except TypeError:  # a type form that cannot be hashed, such as Annotated with a list in it
            return decoder_of(type_, what)


class _Argument:
    """``what`` of one argument, as text only when it is needed."""

    __slots__ = ("_call", "_function", "_name")

    def __init__(self, name: str, function: str, call: object) -> None:
        self._name = name
        self._function = function
        self._call = call

    def __str__(self) -> str:
        return f"{self._call}: argument {self._name!r} of {self._function}"


def _check_all_given(signature: Signature, positional: int, named: dict[str, Any], what: object) -> None:
    twice = [each.name for each in signature.positional[:positional] if each.by_name and each.name in named]
    if twice and signature.var_keyword is None:
        raise DecodingError(str(what), f"the arguments of {signature.name}", f"{twice[0]!r} is given twice")
    rest = (*signature.positional[positional:], *signature.keyword_only)
    missing = [each.name for each in rest if each.required and each.name not in named]
    if missing:
        raise DecodingError(
            str(what), f"the arguments of {signature.name}", f"{', '.join(map(repr, missing))} is missing"
        )


def _apart(text: str | bytes | msgspec.Raw) -> Any:  # noqa: ARG001 - a decoder's form
    raise ValueError("these arguments are read one by one")
