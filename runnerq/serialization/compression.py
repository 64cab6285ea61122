"""Compression of stored payloads."""

from __future__ import annotations

import zlib

from runnerq.errors import ConfigurationError
from runnerq.serialization.sealing import Oversized

_WORTH = 0.75
"""What a payload must shrink to: base64 takes the rest."""
MOST = 1 << 24
"""Bytes that a payload is opened to, unless a client's limit says more."""


class Compression:
    """Stores payloads of at least ``min_size`` bytes of JSON compressed, where that makes them smaller.

    By zlib: ``level`` 1 is fast, 9 small. With ``min_size=None`` nothing is compressed, and what is compressed is read.
    """

    name = "zlib"

    def __init__(self, *, min_size: int | None = 1024, level: int = 6) -> None:
        if min_size is not None and min_size < 0:
            raise ConfigurationError(f"min_size={min_size} is less than nothing: it is bytes of JSON")
        if not 1 <= level <= 9:
            raise ConfigurationError(f"level={level} is none of zlib's: 1 (fast) to 9 (small)")
        self._min_size = min_size
        self._level = level
        self._most = MOST

    def opening_to(self, most: int) -> Compression:
        """The same, for payloads of up to so many bytes."""
        same = Compression(min_size=self._min_size, level=self._level)
        same._most = most
        return same

    def encode(self, payload: bytes, place: bytes, /) -> bytes | None:  # noqa: ARG002 - the protocol's
        if self._min_size is None or not self._min_size <= len(payload) <= self._most:
            return None
        small = zlib.compress(payload, self._level)
        return small if len(small) < len(payload) * _WORTH else None

    def decode(self, payload: bytes, place: bytes, /) -> bytes:  # noqa: ARG002 - as above
        # A few kilobytes that anybody may have written can be gigabytes.
        opened = zlib.decompressobj()
        large = opened.decompress(payload, self._most + 1)
        if len(large) > self._most:
            raise Oversized(f"more than {self._most} bytes")
        if not opened.eof:
            raise ValueError("it was cut off")
        return large

    def __repr__(self) -> str:
        return f"Compression(min_size={self._min_size}, level={self._level})"
