"""What ``codec=`` may be given, and the chain it makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from runnerq.errors import ConfigurationError
from runnerq.serialization.compression import MOST, Compression
from runnerq.serialization.encryption import Encryption
from runnerq.serialization.sealing import Chain, Codec

TIMES = 16
"""How many times the payload limit a payload may be when it is opened: others may have had a higher limit."""

AnyCodec: TypeAlias = Codec | Encryption
Codecs: TypeAlias = AnyCodec | Sequence[AnyCodec]


def chain_of(codec: Codecs | None, payload_limit: int = 0) -> Chain | None:
    """The chain of these, the first one innermost; None if there are none. Raises ConfigurationError."""
    if codec is None:
        return None
    given = tuple(codec) if isinstance(codec, Sequence) else (codec,)
    writers: list[Codec] = []
    readers: list[Codec] = []
    encrypts = False
    for each in given:
        if isinstance(each, Encryption):
            readers.extend(each.readers)
            if each.writer is not None:
                encrypts = True
                writers.append(each.writer)
        elif isinstance(each, Compression):
            if encrypts:
                raise ConfigurationError(
                    "codec= has Compression behind Encryption, where it saves nothing: put it first"
                )
            writers.append(each.opening_to(max(MOST, payload_limit * TIMES)))
        else:
            writers.append(_checked(each))
    return Chain(writers, readers) if writers or readers else None


def _checked(codec: object) -> Codec:
    if isinstance(codec, type) or not all(hasattr(codec, name) for name in ("name", "encode", "decode")):
        raise ConfigurationError(
            f"codec= has {codec!r}: expected rq.Compression(...), rq.Encryption(...), or one of your own with name, "
            "encode and decode"
        )
    return codec  # type: ignore[return-value]  # it has what the protocol asks for
