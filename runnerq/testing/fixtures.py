"""A pytest fixture in one line; pytest is imported when it is made, and not before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from runnerq.testing.environment import Environment


def environment_fixture(
    workflows: Iterable[Callable[..., Any]] = (),
    activities: Iterable[Callable[..., Any]] = (),
    start: datetime | None = None,
) -> Any:
    """A pytest fixture that gives each test an ``Environment`` of these: ``env = environment_fixture([checkout])``.

    With pytest-asyncio in any mode, else with whatever runs async fixtures here (anyio's plugin).
    """
    fixture: Any = import_module("pytest_asyncio" if find_spec("pytest_asyncio") else "pytest").fixture
    functions, others = list(workflows), list(activities)

    @fixture  # type: ignore[untyped-decorator]  # it comes from a module that may not be there
    async def environment() -> AsyncIterator[Environment]:
        async with Environment(functions, others, start) as env:
            yield env

    return environment
