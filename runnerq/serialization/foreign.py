"""Calling what somebody else wrote: properties, hooks and constructors of users' types, methods of their exceptions.

KeyboardInterrupt alone passes through. A SystemExit out of a value's own code is that value's fault, and nobody who
reads or writes it is to stop for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def safely(read: Callable[[], T], otherwise: T) -> T:
    """What ``read`` gives, or ``otherwise`` if it raises."""
    try:
        return read()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - whatever somebody's code raises
        return otherwise


def said(error: BaseException) -> str:
    """What the exception says of itself, else the name of its class."""
    return safely(lambda: str(error), "") or type(error).__name__
