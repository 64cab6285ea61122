"""Just enough of the Postgres wire protocol to know which statement a message belongs to. No I/O.

Rules
- A message is a type byte, four bytes of length (which count themselves), and the rest. Only a client's first message
  has no type.
- What a client sends up to and with Sync (or a simple Query) is a group; the server answers a group with messages up to
  and with ReadyForQuery. A group is named after the statement that it binds: the stem of its file in sql/.
- The text that prepares a statement says which one it is; later groups say only the name that the client gave to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from runnerq.persistence.postgres.statements import Statements

_HEADER = 5
_LENGTH = 4
READY = b"Z"
LISTEN = "listen"
OTHER = "other"

_ENDS_A_GROUP = frozenset((b"S", b"Q"))
# A client waits for answers after these, too; they pass as they are.
_PASSES = frozenset((b"H", b"X", b"p", b"d", b"c", b"f"))


def _stems() -> dict[str, str]:
    texts = Statements("runnerq")._texts
    return {text: stem.removesuffix("_plain") for stem, text in texts.items()}


class Frames:
    """Cuts a stream of bytes into messages. ``bare`` streams begin with a message without a type."""

    def __init__(self, *, bare: bool) -> None:
        self._held = bytearray()
        self._bare = bare

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The messages that are complete now, each as its type (empty for a bare one) and all of its bytes."""
        held = self._held
        held += data
        at = 0
        while True:
            header = _LENGTH if self._bare else _HEADER
            if len(held) - at < header:
                break
            size = int.from_bytes(held[at + header - _LENGTH : at + header], "big") + header - _LENGTH
            if len(held) - at < size:
                break
            message = bytes(held[at : at + size])
            at += size
            kind = b"" if self._bare else message[:1]
            self._bare = False
            yield kind, message
        del held[:at]


class Asking:
    """One client's side: which group its next bytes belong to, and what each group is named."""

    def __init__(self) -> None:
        self._frames = Frames(bare=True)
        self._named: dict[bytes, str] = {}
        self._stems = _stems()
        self._group = bytearray()
        self._name = OTHER

    def feed(self, data: bytes) -> Iterator[tuple[str | None, bytes]]:
        """Groups that are complete, each with its name; None is the name of what belongs to no group."""
        for kind, message in self._frames.feed(data):
            self._group += message
            if kind == b"P":
                name, text = message[_HEADER:].split(b"\0", 2)[:2]
                self._named[name] = self._name_of(text)
            elif kind == b"B":
                self._name = self._named.get(message[_HEADER:].split(b"\0", 2)[1], OTHER)
            elif kind == b"Q":
                self._name = self._name_of(message[_HEADER:-1])
            if kind in _ENDS_A_GROUP:
                yield self._name, self._taken()
            elif kind == b"" or kind in _PASSES:
                yield None, self._taken()

    def _name_of(self, text: bytes) -> str:
        query = text.decode(errors="replace")
        return LISTEN if query.lower().startswith("listen") else self._stems.get(query, OTHER)

    def _taken(self) -> bytes:
        group = bytes(self._group)
        self._group.clear()
        self._name = OTHER
        return group


class Answering:
    """The server's side: which messages answer which group."""

    def __init__(self) -> None:
        self._frames = Frames(bare=False)
        self.out: deque[object] = deque()

    def feed(self, data: bytes) -> Iterator[tuple[object | None, bytes, bool]]:
        """Messages, each with what ``out`` has for its group (None: nothing), and whether it is the group's last."""
        for kind, message in self._frames.feed(data):
            last = kind == READY
            # The greeting ends with a ReadyForQuery that no group has asked for.
            group = self.out[0] if self.out else None
            if last and self.out:
                self.out.popleft()
            yield group, message, last
