"""Cursors: where a listing goes on, in a form that nobody can make up or carry to another listing.

Rules
- A cursor is a direction and an id, with a MAC of both and of the listing they belong to: its name and its filter.
- One that does not fit, or that another console has made, is BadCursor. The page begins anew then.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from hashlib import sha256
from secrets import token_bytes
from typing import Literal, TypeAlias

import msgspec

from runnerq.errors import RunnerQError

Direction: TypeAlias = Literal["after", "before", "from"]
_MAC = 12
"""Bytes: 96 bits, which nobody guesses over HTTP."""
_LONGEST = 400


class BadCursor(RunnerQError):
    """A cursor that was not given out for this listing: begin it anew."""

    def __init__(self) -> None:
        super().__init__("this cursor is not of this listing with these filters: begin again without a cursor")


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a page begins: ``after`` this one in the order of the listing, ``from`` it on, or
    ``before`` it, which is the way back."""

    direction: Direction
    at: str


class Cursors:
    """Signs cursors with a secret: a new one for each console, unless several of them share one."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or token_bytes(32)

    def sign(self, listing: str, place: Place) -> str:
        """The cursor of a place in this listing. ``listing`` names it with all its filters."""
        payload = msgspec.json.encode(place)
        return urlsafe_b64encode(self._mac(listing, payload) + payload).decode("ascii").rstrip("=")

    def read(self, listing: str, cursor: str) -> Place:
        """The place that a cursor of this listing stands for. Raises BadCursor."""
        if len(cursor) > _LONGEST:
            raise BadCursor
        try:
            raw = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        except (NotBase64, UnicodeEncodeError) as error:
            raise BadCursor from error
        mac, payload = raw[:_MAC], raw[_MAC:]
        if not hmac.compare_digest(mac, self._mac(listing, payload)):
            raise BadCursor
        return msgspec.json.decode(payload, type=Place)

    def _mac(self, listing: str, payload: bytes) -> bytes:
        told = listing.encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, b"%d:%b%b" % (len(told), told, payload), sha256)[:_MAC]
