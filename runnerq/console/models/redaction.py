"""What is not for everybody's eyes: which values are masked, and how payloads and errors are shown.

Rules
- A redactor is asked about every value that leaves, with the spot it stands at; what it answers is shown instead.
- By default what has a name that tells of a secret is masked, however deep it lies, and in errors also what stands
  behind such a name in the text; passwords and tokens in URLs, and private keys, everywhere. A secret under a name
  that does not tell of it is not found: give ``Console(redact=)`` a function that knows your payloads.
- Keys and ids of runs, names of workflows, queues, channels and reasons are no payloads, and are shown as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

SpotKind: TypeAlias = Literal[
    "input", "result", "error", "state", "signal", "journal", "metadata", "heartbeat", "schedule"
]

MASK = "••••••"
"""What stands for a value that is masked."""
LONGEST_NAME = 200
"""Characters of a name that are looked at: its last."""

_TELLING = re.compile(
    r"passw|passphrase|passcode|secret|token|authorization|cookie|credential|credit_?card|card_?(?:no|num|holder)"
    r"|(?:api|access|private|signing|encryption)_?key|session_?id"
    r"|(?:^|_)(?:card|ssn|pwd|cvc2?|cvv2?|jwt|otp|pin|iban)s?(?:_|$)|^(?:pass|auth)$"
)
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
# Each begins where nothing before it could, and takes what it can at once: no text takes longer than its length.
# Quotes may be escaped, as in JSON within JSON, and what is quoted may follow on a comma: ('cookie', 'id=..').
_NAMED = re.compile(
    r"""(?<![\w-])(?P<name>[\w-]++)"""
    r"""(?P<between>(?:\\{0,3}["']\]?\s{0,8}+(?:=>|[=:,])|\]?\s{0,8}+(?:=>|[=:]))\s{0,8}+)"""
)
_QUOTED = re.compile(r"""b?(?P<quote>\\{0,3}["'])(?:(?!(?P=quote))(?:\\.|[^\\]))*+(?:(?P=quote))?""", re.DOTALL)
_BARE = re.compile(r"""[^\s"',;&)}\]]++""")
_LINE = re.compile(r"[^\n]++")
_IN_PAIR = re.compile(r"""[(\[]b?["']\Z""")
# As a command has it, also as a list of its parts: --password x, ['--password', 'x'].
_OPTION = re.compile(
    r"""(?<![\w-])(?P<before>--?(?P<name>[A-Za-z][\w-]*+)(?:[ \t]++|["'],\s*+["']))(?![-"'])[^\s"']++"""
)
_ELEMENT = re.compile(r"(?P<before><(?P<name>[\w:.-]++)[^<>]*+>)[^<]++(?=</)")
# Of a header of these names all of the line is the value: "Token abc", "theme=dark; session=abc".
_HEADER = re.compile(r"(?:authorization|cookie)s?$")
# How a name ends that a value follows on; a word of those that prose has as well.
_ENDING = re.compile(
    r"(?:passw\w*|passphrase|passcode|pwd|secret|authorization|credential|key|(?:key|session)_?id|number|num|no|holder"
    r"|ssn|jwt|iban|(?P<word>token|cookie|card|pass|auth|otp|pin))s?$"
)
_COLONS = (": ", ":  ")
_LONGEST_WORD = 20
_IN_TWO_CASES = re.compile(r"[a-z][A-Z]")
_CONTAINERS = (dict, list, tuple)
"""JSON has no tuples, and builtins made of our own values have."""
_SCHEME = re.compile(r"(?<![\w-])(?P<before>(?:Bearer|Basic)\s)[\w.~+/=-]{16,}+")
_IN_URL = re.compile(r"(?P<before>://[^\s/:@]*+:)[^\s/@]++(?:@[^\s/@]++(?=@))*+(?=@)")
_IN_QUERY = re.compile(r"""(?P<before>[?&#](?P<name>[\w.-]++)=)[^\s&#"'<>]++""")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----)[\s\S])*+(?:-----END [A-Z ]{0,60}+-----)?"
)


class Spot(msgspec.Struct, frozen=True):
    """Where a value stands. ``path`` is the place inside the payload: ``("args", 0, "card")``.

    ``name`` is the channel of a signal, and the step or child that a value of a journal, an error or a heartbeat is of;
    ``""`` for what is the run's own. What a signal brought is a ``signal`` wherever it is shown. ``run_id`` is ``""``
    where no run has the value yet, as the arguments of a schedule.
    """

    kind: SpotKind
    run_id: str
    workflow: str
    path: tuple[str | int, ...] = ()
    name: str = ""


Redactor: TypeAlias = Callable[[Spot, Any], Any]
"""Given a payload as JSON builtins, the same or another to be shown. It MUST not change what it is given, and may be
called in another thread: a long run is shown in one."""


def mask(spot: Spot, value: Any) -> Any:
    """The value with what has a telling name masked. The very same object where there is nothing to mask."""
    within = _in_text if spot.kind == "error" else _in_any
    if isinstance(value, str):
        return within(value)
    if not isinstance(value, _CONTAINERS):
        return value
    changed = False
    whole = _as_empty(value)
    # Without recursion: a payload may have 500 levels, and whoever shows it stands deep already.
    left: list[tuple[Any, Any]] = [(value, whole)]
    while left:
        source, copy = left.pop()
        for name, inside in source.items() if isinstance(source, dict) else enumerate(source):
            shown = inside
            if inside is not None and isinstance(name, str) and telling(name):
                shown = MASK
            elif isinstance(inside, str):
                shown = within(inside)
            elif isinstance(inside, _CONTAINERS):
                copy[name] = _as_empty(inside)
                left.append((inside, copy[name]))
                continue
            changed = changed or shown is not inside
            copy[name] = shown
    return whole if changed else value


def show_all(_: Spot, value: Any) -> Any:
    """The value as it is: for whoever may see everything."""
    return value


def telling(name: str) -> bool:
    """Whether a name tells of a secret: ``apiKey``, ``card_number`` and ``Set-Cookie`` do, ``discard`` does not."""
    return _tells(name[-LONGEST_NAME:])


@lru_cache(maxsize=4096)
def _tells(name: str) -> bool:
    return _TELLING.search(_words(name)) is not None


def _words(name: str) -> str:
    return _BETWEEN_WORDS.sub("_", name).lower()


def _as_empty(value: dict[str, Any] | list[Any] | tuple[Any, ...]) -> dict[str, Any] | list[Any]:
    return {} if isinstance(value, dict) else [None] * len(value)


def _in_text(text: str) -> str:
    text = _SCHEME.sub(_behind, _in_any(text))
    text = _ELEMENT.sub(_of_telling, _OPTION.sub(_of_telling, text))
    parts, told, at = [], 0, 0
    while (named := _NAMED.search(text, at)) is not None:
        at = named.end()
        value = _value_of(text, named) if telling(named["name"]) else None
        if value is not None:
            parts += [text[told:at], MASK]
            told = at = value.end()
    return "".join([*parts, text[told:]]) if parts else text


def _value_of(text: str, named: re.Match[str]) -> re.Match[str] | None:
    """What stands behind a telling name, if it is a value."""
    at, start = named.end(), named.start()
    quoted = _QUOTED.match(text, at)
    if "," in named["between"]:
        # A list of names is none of pairs.
        return quoted if _IN_PAIR.search(text, max(0, start - 3), start) else None
    if quoted is not None:
        return quoted
    name = _words(named["name"][-LONGEST_NAME:])
    value = (_LINE if _HEADER.search(name) else _BARE).match(text, at)
    prose = value is not None and named["between"] in _COLONS and _is_prose(name, value[0])
    return None if prose else value


def _is_prose(name: str, value: str) -> bool:
    """Whether a word follows on a colon, as in "card_declined: insufficient funds" or "unexpected token: else"."""
    ending = _ENDING.search(name)
    if ending is None:
        return True
    told = any(letter.isdigit() or letter == "=" for letter in value) or _IN_TWO_CASES.search(value) is not None
    return ending["word"] is not None and len(value) < _LONGEST_WORD and not told


def _in_any(text: str) -> str:
    """The text without what is a secret in any payload: passwords and tokens in URLs, and private keys."""
    if "://" in text:
        text = _IN_QUERY.sub(_of_telling, _IN_URL.sub(_behind, text))
    return _PRIVATE_KEY.sub(MASK, text) if "PRIVATE KEY" in text else text


def _of_telling(found: re.Match[str]) -> str:
    return _behind(found) if telling(found["name"]) else found[0]


def _behind(found: re.Match[str]) -> str:
    return found["before"] + MASK
