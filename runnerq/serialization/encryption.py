"""Encryption of stored payloads: AES-GCM, with keys that can be changed while everything runs.

Rules
- A key that is given is never used itself: what encrypts is drawn from it with a salt (HKDF-SHA256), 256 bits. A
  process draws a salt of its own, and a new one every USES payloads, so that random nonces never come near to meeting,
  however long a key is kept; and a forked process, which has the same salt, draws other nonces.
- What is stored: the salt, the nonce, and what AES-GCM makes of the payload. The place it belongs to is authenticated.
- ``cryptography`` is an extra, and is imported when an Encryption is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from runnerq.errors import ConfigurationError

NAME = "aes-gcm"
USES = 1 << 24
_SIZES = (16, 24, 32)
_SALT, _NONCE = 16, 12
_KNOWN = 256
"""Salts of other processes whose ciphers are kept."""
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Encryption:
    """Stores payloads encrypted (AES-GCM): new ones with the key ``current``, and reads those of every key.

    ``keys`` are 16, 24 or 32 random bytes each, by a name that stands beside what is stored. To change keys: give all
    processes the new one, then make it ``current``; take the old one away when nothing is stored with it any more.
    With ``current=None`` nothing is encrypted, and what is encrypted is read.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str | None) -> None:
        if not keys:
            raise ConfigurationError("keys= has none: give one by its name, such as {'2026-11': key}")
        if current is not None and current not in keys:
            raise ConfigurationError(f"current={current!r} is none of the keys, which are {sorted(keys)}")
        for key_id, key in keys.items():
            _check(key_id, key)
        made = {key_id: _Key(key_id, bytes(key), _Crypto()) for key_id, key in keys.items()}
        self._current = None if current is None else made[current]
        self._all = tuple(made.values())

    @property
    def writer(self) -> _Key | None:
        """The codec of new payloads; None if they stay plain."""
        return self._current

    @property
    def readers(self) -> tuple[_Key, ...]:
        """A codec for each key."""
        return self._all

    def __repr__(self) -> str:
        # Without the keys: this is printed and logged.
        current = None if self._current is None else self._current.key_id
        return f"Encryption(keys={[key.key_id for key in self._all]}, current={current!r})"


class _Crypto:
    """What is used of ``cryptography``."""

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
            from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - as above
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - as above
        except ImportError as error:
            raise ConfigurationError(
                "Encryption needs the package cryptography: install runnerq[encryption]"
            ) from error
        self._aes, self._hkdf, self._sha = AESGCM, HKDF, SHA256

    def cipher(self, key: bytes, salt: bytes) -> Any:
        drawn = self._hkdf(algorithm=self._sha(), length=32, salt=salt, info=b"runnerq payload").derive(key)
        return self._aes(drawn)


class _Key:
    """The codec of one key."""

    def __init__(self, key_id: str, key: bytes, crypto: _Crypto) -> None:
        self.name = f"{NAME}={key_id}"
        self.key_id = key_id
        self._key = key
        self._crypto = crypto
        self._known: dict[bytes, Any] = {}
        self._salt = b""
        self._left = 0

    def encode(self, payload: bytes, place: bytes, /) -> bytes:
        if self._left <= 0:
            self._salt = os.urandom(_SALT)
            self._left = USES
        self._left -= 1
        salt, nonce = self._salt, os.urandom(_NONCE)
        encrypted: bytes = self._cipher(salt).encrypt(nonce, payload, place)
        return salt + nonce + encrypted

    def decode(self, payload: bytes, place: bytes, /) -> bytes:
        salt, nonce = payload[:_SALT], payload[_SALT : _SALT + _NONCE]
        decrypted: bytes = self._cipher(salt).decrypt(nonce, payload[_SALT + _NONCE :], place)
        return decrypted

    def _cipher(self, salt: bytes) -> Any:
        cipher = self._known.get(salt)
        if cipher is None:
            cipher = self._crypto.cipher(self._key, salt)
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[salt] = cipher
        return cipher

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _check(key_id: object, key: object) -> None:
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise ConfigurationError(f"{key_id!r} can be no key's name: it is up to 64 letters, digits, '.', '_' and '-'")
    if not isinstance(key, bytes | bytearray) or len(key) not in _SIZES:
        what = f"{len(key)} bytes" if isinstance(key, bytes | bytearray) else f"a {type(key).__name__}"
        raise ConfigurationError(
            f"key {key_id!r} is {what}: a key is 16, 24 or 32 random bytes, as secrets.token_bytes(32) makes them"
        )
