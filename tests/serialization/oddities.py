"""Exceptions of many kinds, as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Declined(Exception):
    """Takes its arguments as they are."""

    class Fraud(Exception):
        """A class inside a class."""


class Coded(Exception):
    """Says itself how it is made again."""

    def __init__(self, code: int, *, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(f"code {code}: {detail}")

    def __reduce__(self) -> tuple[Any, ...]:
        return make_coded, (self.code, self.detail)


def make_coded(code: int, detail: str) -> Coded:
    return Coded(code, detail=detail)


class WithState(Exception):
    """Keeps more than its arguments."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.connection: Any = None


class Worded(Exception):
    """Writes its message itself, so that its ``args`` are not what it takes."""

    def __init__(self, order_id: str) -> None:
        self.order_id = order_id
        super().__init__(f"order {order_id} was declined")


class Counted(Exception):
    """Does so too, and cannot be made from its message."""

    def __init__(self, missing: int) -> None:
        super().__init__(f"{missing + 0} are missing")


class TwoPart(Exception):
    def __init__(self, order_id: str, amount: int) -> None:
        super().__init__(f"{order_id}: {amount}")


class Wrapping(Exception):
    """Its constructor puts its message where an object was."""

    def __init__(self, order: Any) -> None:
        self.order = order
        super().__init__(f"bad order {order!r}")


class OnlyKeywords(Exception):
    def __init__(self, *, code: int) -> None:
        self.code = code
        super().__init__()


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int
    note: str = ""


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Lying(Exception):
    """Every attribute that one asks it for fails."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Growing(Exception):
    """Takes its arguments only once."""

    made = 0

    def __init__(self, name: str) -> None:
        Growing.made += 1
        if Growing.made > 1:
            raise RuntimeError("only once")
        super().__init__(name)


class Elsewhere(Exception):
    """Makes something else when it is called."""

    def __new__(cls, *args: Any) -> Any:
        return ValueError(*args)


class Grouped(ExceptionGroup[Exception]):
    """A group with a class of its own."""


class Reason(StrEnum):
    FUNDS = "funds"


class Text(str):
    __slots__ = ()
