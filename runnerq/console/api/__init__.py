"""The JSON API, ``/api/v1``: the models and the actions as a program asks for them. It can be had without the pages.

``HANDLERS`` is loaded when it is asked for: the command line uses what lies below without the ``console`` extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runnerq.console.api.routes import HANDLERS

__all__ = ["HANDLERS"]


def __getattr__(name: str) -> Any:
    if name == "HANDLERS":
        return import_module(f"{__name__}.routes").HANDLERS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
