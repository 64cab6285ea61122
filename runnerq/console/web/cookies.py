"""Cookies: their names, and the word that an action leaves for the next page.

A host's cookies are seen by every port of it and by everything below their path, so that each console gives its own
names: two of them on one machine do not sign each other out.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

Tone: TypeAlias = Literal["ok", "warn", "fail"]

YEAR = 365 * 24 * 3600
_MAC = 12
_LONGEST = 600
"""Bytes of a message; browsers refuse cookies of more than 4 kB."""


class Flash(msgspec.Struct, frozen=True, array_like=True):
    """What an action has to say to who asked for it."""

    message: str
    tone: Tone = "ok"


def cookie_name(kind: str, host: str, base: str) -> str:
    """The name of a cookie of the console that is at this host and under this prefix."""
    return f"rq_{kind}_{sha256(f'{host}{base}'.encode()).hexdigest()[:8]}"


def flash_text(message: str, tone: Tone, secret: bytes) -> str:
    """A cookie's value that says this, once."""
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST - 1]}…"
    payload = msgspec.json.encode(Flash(message, tone))
    return urlsafe_b64encode(_mac(payload, secret) + payload).decode("ascii").rstrip("=")


def flash_of(text: str | None, secret: bytes) -> Flash | None:
    """What the cookie says; None if there is none, or one that this console did not make."""
    if not text:
        return None
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        mac, payload = raw[:_MAC], raw[_MAC:]
        return msgspec.json.decode(payload, type=Flash) if hmac.compare_digest(mac, _mac(payload, secret)) else None
    except ValueError:
        # What is no base64, no ASCII or no such message: msgspec's errors are ValueErrors, too.
        return None


def _mac(payload: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, b"flash:" + payload, sha256)[:_MAC]
