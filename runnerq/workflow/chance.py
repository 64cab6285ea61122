"""Chance that is the same in every replay: from the seed, the last command asked in this branch, and a count since it.

Tied to the position, so that a call inserted in one place shifts nothing after the next command.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from uuid import UUID

from runnerq.workflow.tree import Branch


def draw_uuid(seed: str, branch: Branch | None) -> UUID:
    """A version 4 UUID."""
    draws = 0
    if branch is not None:
        _begin_anew_behind_a_command(branch)
        draws = branch.draws
        branch.draws += 1
    return UUID(bytes=_bits(seed, branch, f"uuid{draws}"), version=4)


def draw_random(seed: str, branch: Branch | None) -> Random:
    """The branch's generator of random numbers since its last command."""
    if branch is None:
        return Random(_bits(seed, None, "random"))  # noqa: S311 - a workflow's dice, to fall alike in replay
    _begin_anew_behind_a_command(branch)
    if branch.rng is None:
        branch.rng = Random(_bits(seed, branch, "random"))  # noqa: S311 - the same
    return branch.rng


def _begin_anew_behind_a_command(branch: Branch) -> None:
    if branch.drawn_at != branch.count:
        branch.drawn_at, branch.draws, branch.rng = branch.count, 0, None


def _bits(seed: str, branch: Branch | None, what: str) -> bytes:
    place = "" if branch is None else f"{branch.prefix}{branch.count}"
    return blake2b(f"{seed}|{place}|{what}".encode(), digest_size=16).digest()
