"""Codecs of stored payloads: compression, encryption, or a user's own, one after the other around every payload.

Rules
- What is sealed is JSON text, and stays JSON text: a string, ``"\\u007erq1:<names>:<base64>"``, where the names are
  those of the codecs that wrapped it, outermost first. No encoder here writes that escape, so nothing else begins like
  it: a payload of before the codec is told apart at sight, and reads as ever.
- What begins like it and is no ``rq1`` is of a newer runnerq, and cannot be opened here.
- Each codec is told the place that the payload belongs to, and what is wrapped inside it. Encryption binds a payload to
  both: one that is moved to another run, or whose names are changed, does not open.
- What cannot be opened is left, without what it held, and with a mark at the name at fault: whoever needs it raises
  PayloadUnreadable, and whoever does not goes on.
- A payload's limit, and the digest of arguments, are of the plain text: a codec changes neither.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Sequence
from typing import Protocol

from runnerq.errors import ConfigurationError, Fault, PayloadUnreadable, StorageRefused

SEALED = '"\\u007erq'
"""How a sealed payload begins, in whatever form."""
_FORM = f"{SEALED}1:"
"""How one in our form begins."""
_LONGEST_FORM = 20
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,31}(=[A-Za-z0-9._-]{1,64})?")
_MISSING, _CHANGED, _OVERSIZED = "?", "!", "+"
_FAULTS: dict[str, Fault] = {_MISSING: "missing", _CHANGED: "changed", _OVERSIZED: "oversized"}


class Oversized(ValueError):
    """A payload would become larger than any that is stored."""


class Codec(Protocol):
    """Wraps the JSON of a payload, and unwraps it: CPU only, no waiting, and safe to be called from several threads.

    ``name`` stands in what is stored, so it must never mean anything else: lower case letters, digits, ``-``, ``.``.
    """

    @property
    def name(self) -> str:
        """What it is called in what is stored."""
        ...

    def encode(self, payload: bytes, place: bytes, /) -> bytes | None:
        """What is to be stored instead; None where it is better left as it is.

        ``place`` says where it belongs, and is the same when it is read.
        """
        ...

    def decode(self, payload: bytes, place: bytes, /) -> bytes:
        """The payload of ``encode``. Whatever it raises means that this cannot be opened."""
        ...


class Chain:
    """Codecs in the order in which they wrap, and all that can unwrap. Safe to share between threads."""

    def __init__(self, writers: Sequence[Codec], readers: Iterable[Codec] = ()) -> None:
        self._writers = tuple(writers)
        self._readers: dict[str, Codec] = {}
        for codec in (*writers, *readers):
            if not _NAME.fullmatch(codec.name):
                raise ConfigurationError(
                    f"codec= has one with the name {codec.name!r}: a name is up to 32 of a to z, digits, '-', '.'"
                )
            if self._readers.setdefault(codec.name, codec) is not codec:
                raise ConfigurationError(f"codec= has two with the name {codec.name!r}: one of them could not be told")

    def seal(self, text: str, place: str) -> str:
        """The text as it is stored. Raises StorageRefused, naming the place, where it cannot be sealed."""
        if text.startswith(SEALED):
            raise StorageRefused(f"the {place} is what another process has sealed, and could not be opened here")
        try:
            payload = text.encode()
        except UnicodeEncodeError as error:
            raise StorageRefused(f"the {place} is no text: {error}") from error
        names = ""
        for codec in self._writers:
            try:
                wrapped = codec.encode(payload, _bound(place, names))
            except Exception as error:  # the codec may be the user's own
                failed = f"the codec {codec.name!r} failed: {error!r}"
                raise StorageRefused(f"the {place} cannot be sealed: {failed}") from error
            if wrapped is not None:
                payload = wrapped
                names = f"{codec.name},{names}" if names else codec.name
        if not names:
            return text
        return f'{_FORM}{names}:{b2a_base64(payload, newline=False).decode("ascii")}"'

    def open(self, text: str, place: str) -> str:
        """The text as it was; of one that cannot be opened here what ``unreadable`` tells of."""
        if not text.startswith(_FORM):
            return text  # plain, or of a newer runnerq
        header, _, body = text[len(_FORM) : -1].partition(":")
        name, _, inside = header.partition(",")
        codec = self._readers.get(name)
        try:
            payload = a2b_base64(body, strict_mode=True)
            while codec is not None:
                payload = codec.decode(payload, _bound(place, inside))
                if not inside:
                    return payload.decode()
                name, _, inside = inside.partition(",")
                codec = self._readers.get(name)
        except Oversized:
            return _left(header, name, _OVERSIZED)
        except Exception:  # noqa: BLE001 - whatever it raises; it is told where the payload is needed
            return _left(header, name, _CHANGED)
        return _left(header, name, _MISSING)


def _bound(place: str, inside: str) -> bytes:
    return f"{place} {inside}".encode("utf-8", "surrogatepass")


def _left(header: str, name: str, mark: str) -> str:
    names = [each + mark if each == name else each for each in header.split(",")]
    return f'{_FORM}{",".join(names)}:"'


def sealed_by(text: str) -> str:
    """The names of the codecs that have sealed this text, outermost first; empty for a plain one."""
    return text[len(_FORM) :].partition(":")[0] if text.startswith(_FORM) else ""


def unreadable(text: str | None, run_id: str | None, entry: str) -> PayloadUnreadable | None:
    """Why this text cannot be read here; None if it can. ``entry`` says which of the run's payloads it is."""
    if text is None or not text.startswith(SEALED):
        return None
    if not text.startswith(_FORM):
        form = text[len(SEALED) - 2 :].partition(":")[0]
        return PayloadUnreadable(run_id, entry, form[:_LONGEST_FORM], None, "newer")
    names = text[len(_FORM) :].partition(":")[0].split(",")
    at_fault = next((name for name in names if name.endswith(tuple(_FAULTS))), names[0])
    codec, _, key = at_fault.rstrip("".join(_FAULTS)).partition("=")
    return PayloadUnreadable(run_id, entry, codec, key or None, _FAULTS.get(at_fault[-1:], "missing"))
