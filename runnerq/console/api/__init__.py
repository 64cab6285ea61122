"""The JSON API, ``/api/v1``: the models and the actions as a program asks for them. It can be had without the pages."""

from __future__ import annotations

from runnerq.console.api.routes import HANDLERS

__all__ = ["HANDLERS"]
