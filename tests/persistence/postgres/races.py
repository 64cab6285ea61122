"""What the tests of races arrange alike."""

from __future__ import annotations

from runnerq.ids import new_token
from runnerq.persistence.records import GOING, Claimed, ClaimRequest, Park, Verdict
from runnerq.testing.conformance.world import PAIRS, Holder, a_child, a_run

FOR_GO = Park(signals=("go",))


def a_request(holder: Holder, limit: int = 100) -> ClaimRequest:
    """A claim of this holder, with a token of its own."""
    return ClaimRequest(worker_id=holder.id, token=new_token(), pairs=PAIRS, limit=limit)


async def a_family(holder: Holder) -> tuple[Claimed, Claimed]:
    """A run and a child of it, both held."""
    run = await holder.start(a_run())
    child = a_child(run)
    assert await holder.commit(run, GOING, children=(child,)) is Verdict.DONE
    return run, await holder.take(child)
