"""Codecs as a user's settings have them."""

from __future__ import annotations

from runnerq.serialization.encryption import Encryption

KEYS = {"cli": bytes(range(32)), "new": bytes(32)}

codec = Encryption({"cli": KEYS["cli"]}, "cli")
before = Encryption(KEYS, "cli")
after = Encryption(KEYS, "new")
reads = Encryption(KEYS, None)


def made() -> Encryption:
    return codec


class Settings:
    codec = codec
