"""Run ids and lease tokens.

Rules
- A run id is UUIDv7 text (RFC 9562): 48 bits of milliseconds, then 74 bits. Ids made in one process ascend, also
  within a millisecond and when the clock steps back.
- A child's id is derived from a recorded time and its place, so that asking for it again names the same run.
- A token is random and never comes from a clock or a counter: two claims must not share one, also across forks.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from random import Random
from threading import Lock
from time import time_ns

_TAIL_MASK = (1 << 74) - 1
_LOW_MASK = (1 << 62) - 1
_MILLISECONDS_MASK = (1 << 48) - 1
# Version 7 before the 12 bits, variant 2 before the 62 bits that make up the 74.
_VERSION_AND_VARIANT = 7 << 76 | 2 << 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FORM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class _Source:
    """The process's last id and its random numbers."""

    __slots__ = ("lock", "millisecond", "prefix", "random_bits", "tail")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew; a forked child would otherwise repeat its parent's numbers, or find the lock held for ever."""
        self.lock = Lock()
        self.random_bits = Random(os.urandom(32)).getrandbits  # noqa: S311  # ids and tokens differ; they hide nothing
        self.millisecond = 0
        self.prefix = ""
        self.tail = 0

    def enter(self, millisecond: int) -> None:
        """Go on in this millisecond. Half of its tails are left above the first, so that many follow in order."""
        self.millisecond = millisecond
        self.prefix = _prefix(millisecond)
        self.tail = self.random_bits(73)


_source = _Source()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_source.reset)


def new_run_id() -> str:
    """A new UUIDv7, greater than every one that this process has made."""
    source = _source
    now = time_ns() // 1_000_000
    with source.lock:
        if now > source.millisecond:
            source.enter(now)
        else:
            # A random step leaves the ids of one millisecond hard to guess from each other; 2**40 of them fit.
            source.tail += 1 + source.random_bits(33)
            if source.tail > _TAIL_MASK:
                source.enter(source.millisecond + 1)
        prefix, tail = source.prefix, source.tail
    return _text(prefix, tail)


def derived_run_id(at: datetime, *parts: str) -> str:
    """The UUIDv7 of a given time and a hash of the parts: the same for the same, another for anything else."""
    if at.tzinfo is None or at < _EPOCH:
        raise ValueError(f"a run id needs an aware time since 1970, not {at!r}")
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    # Lengths first, so that moving a character from one part to the next makes another id.
    lengths = ",".join([str(len(part)) for part in encoded]).encode()
    tail = int.from_bytes(blake2b(b"".join([lengths, b":", *encoded]), digest_size=10).digest(), "big") & _TAIL_MASK
    return _text(_prefix((at - _EPOCH) // _MILLISECOND), tail)


def check_run_id(text: object) -> str:
    """The id as it is stored, in lower case; ValueError for what can be none. It is not looked up."""
    if isinstance(text, str) and (_FORM.fullmatch(text) or _FORM.fullmatch(text := text.lower())):
        return text
    raise ValueError(f"{text!r} is not a run id: expected UUID text such as '018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f'")


def new_token() -> int:
    """A random lease token, 1 to 2**63 - 1."""
    return _source.random_bits(63) or 1


def _prefix(millisecond: int) -> str:
    text = f"{millisecond & _MILLISECONDS_MASK:012x}"
    return f"{text[:8]}-{text[8:]}-"


def _text(prefix: str, tail: int) -> str:
    rest = (_VERSION_AND_VARIANT | tail >> 62 << 64 | tail & _LOW_MASK).to_bytes(10, "big").hex()
    return f"{prefix}{rest[:4]}-{rest[4:8]}-{rest[8:]}"
