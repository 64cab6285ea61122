"""How deep JSON text is nested, found without parsing it."""

from __future__ import annotations

import re

MAX_DEPTH = 500
"""Levels that a stored value may have. Python's own limit depends on how deep the caller stands; this one does not."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TO_ROUND = bytes.maketrans(b"[]{}", b"()()")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def too_deep(text: bytes) -> bool:
    """Whether the text has more than MAX_DEPTH levels. Cheap for what has few brackets, which is nearly everything."""
    if len(text) <= MAX_DEPTH or text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    # Brackets inside strings nearly always make it look deeper, not flatter; only then is it worth taking strings out.
    return not _closes(text) and not _closes(_STRING.sub(b"", text))


def _closes(text: bytes) -> bool:
    brackets = text.translate(_TO_ROUND, _NO_BRACKETS)
    if brackets.count(b"(") != brackets.count(b")"):
        return False
    for _ in range(MAX_DEPTH):
        # Each pass takes the innermost level away.
        flatter = brackets.replace(b"()", b"")
        if not flatter:
            return True
        if len(flatter) == len(brackets):
            return False
        brackets = flatter
    return False
