"""What a branch may yield: a command of its own run, used once, with fresh members. Anything else gets a hint."""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import Any

from runnerq.errors import UsageError
from runnerq.workflow.commands import Command, Owner

MAX_LEVELS = 100
"""Composites and branches inside each other; each level takes frames of Python's stack when it starts."""


def claim(yielded: Any, owner: Owner, prefix: str, unstarted: set[Any]) -> Command[Any]:
    """The command that was yielded, marked as asked for, and its members with it. Raises UsageError with a hint.

    ``prefix`` is what its position begins with. ``unstarted`` are the branches that belong to a composite and wait for
    their turn; those of this one are added.
    """
    if not isinstance(yielded, Command):
        raise UsageError(hint(yielded))
    if yielded.owner is not owner:
        raise UsageError(f"{yielded!r} belongs to another run's context: yield only what this run's ctx made")
    if yielded.used:
        raise UsageError(
            f"{yielded!r} was used already, and a command is used once: make a new one. For one deadline over several "
            "races, keep the time: deadline = ctx.now() + d, then ctx.race(ctx.signal(c), ctx.sleep_until(deadline))"
        )
    yielded.used = yielded.driven = True
    owner.asked_for(yielded)
    if yielded.members:
        if prefix.count(".") >= MAX_LEVELS:
            raise UsageError(f"{yielded!r} lies more than {MAX_LEVELS} composites and branches deep: flatten them")
        for member in yielded.members:
            if isinstance(member, Command):
                claim(member, owner, f"{prefix}.", unstarted)
            elif member in unstarted or not _is_fresh(member):
                raise UsageError(f"a branch of {yielded!r} was used already: give it a generator of its own")
            else:
                unstarted.add(member)
    return yielded


def discard(yielded: Any, owner: Owner) -> None:
    """Forget what was yielded when a cancel was due: it is not asked for, and that is not the user's fault."""
    if isinstance(yielded, Command):
        yielded.used = yielded.driven = True
        owner.asked_for(yielded)
        for member in yielded.members:
            discard(member, owner)
    elif inspect.iscoroutine(yielded):
        yielded.close()


def hint(value: Any) -> str:
    """What this is that is no command, and what was probably meant. Closes a coroutine, which would warn otherwise."""
    if value is None:
        return "None where a command is expected: did the call forget to return its command?"
    if isinstance(value, Command):
        return f"{value!r}, a command that was not asked for: write `yield from` before it"
    if isinstance(value, Generator):
        return (
            "a generator where a command is expected: write `yield from` before it, or give it to ctx.all as a branch"
        )
    if inspect.iscoroutine(value):
        value.close()
        return "a coroutine where a command is expected: give the function to ctx.step, without calling it"
    if isinstance(value, list | tuple | set | dict):
        return f"a {type(value).__name__} where a command is expected: use ctx.all(...) or ctx.gather([...])"
    if callable(value):
        return f"{getattr(value, '__name__', value)!s}, a function, where a command is expected: use ctx.step(...)"
    if hasattr(value, "__await__"):
        return f"{type(value).__name__}, to be awaited, where a command is expected: await it inside a step"
    return f"{type(value).__name__} where a command is expected: a workflow yields what ctx makes"


def _is_fresh(generator: Any) -> bool:
    # One that is not Python's own cannot be asked.
    return not inspect.isgenerator(generator) or inspect.getgeneratorstate(generator) == inspect.GEN_CREATED
