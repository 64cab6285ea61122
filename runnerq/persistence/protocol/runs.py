"""The writes about runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from runnerq.persistence.records import (
    Ask,
    Changed,
    Claim,
    ClaimRequest,
    Definition,
    Inbox,
    NewRun,
    NewSignal,
    Reaped,
    Registered,
    Reopen,
    Retained,
    Sent,
    StartReply,
    Turn,
    Verdict,
    WorkerRow,
)


class Runs(Protocol):
    """The writes."""

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        """Create the runs, in one commit, and say in order which run stands for each.

        Claiming an idempotency key (per name and key) and creating the run are one commit; concurrent callers MUST make
        one run. By ``on_duplicate``, where another run holds the key: ``return_existing`` answers the holder;
        ``no_reuse`` answers the holder, ``refused``; ``allow_reuse`` creates and moves the key;
        ``allow_reuse_on_failure`` does so only where the holder ended as failed, dead_letter or cancelled, else answers
        it, ``refused``. A key given twice in one call is the first one's. Repeating a start with the same ids is
        harmless (``created`` is True for the id's own run whenever the given id is the one that stands). ``rows`` are
        written with the run that they came with, and only when it is created. A child whose parent is not open, and
        not of the same call, is not created: the answer is its own id, ``refused``.
        """
        ...

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        """``start``, and the signals to the run that stands, in one commit; their own ``run_id`` counts for nothing.

        If that run has ended, nothing is kept, and each answer is FINISHED; if it is refused, nothing is sent.
        """
        ...

    async def reopen(self, reopen: Reopen) -> bool:
        """Open the run and the children named with it again, in one commit; False, and nothing is changed, if one of
        them is no longer what the caller saw, or has a row at that place.

        One that ended loses its outcome: it is pending, ready now, uncancelled, in the generation it ended in, with
        what is unread in its mailbox; it will tell its parent again when it ends. A parent that had ended before does
        not cancel it. A blocked one loses its block and keeps its attempts and a requested cancel. A run that failed
        because another holds its key is not opened while that is so. Of two at once, one MUST get False.
        """
        ...

    async def claim(self, request: ClaimRequest) -> Claim:
        """Lease up to ``limit`` ready runs of the pairs, smallest rank first.

        A run that was claimed and given back since the statement's snapshot MUST be left for the next claim: its
        journal would be stale. The claim MUST take nothing for a worker that is not registered or was reaped.
        """
        ...

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        """Write the turns (at most one a run) and say for each, in order, whether it counted.

        DONE: written. LOST: the token is not the run's; nothing changed. BUSY: the run, or the parent its end would
        tell, is held by someone's open transaction; nothing was written, send it again. AGAIN: a park, written but for
        its move, whose mailbox has moved: the run is still running. A turn sent again gets the verdict it got: AGAIN if
        it was a park and the run is still running under this token, else DONE, also after the run's end.

        A Renew appends its rows, begins the next generation with ``started`` and drops the attempts; the run is held as
        before, and mailbox, children and published state stay. A turn of a generation before the run's changes nothing.
        An End tells the parent: its inbox counts up, and it becomes ready if it is parked and its ``needs`` are met, or
        the child did not complete and is wanted. A child whose key another run holds ends at once as failed, with a
        KeyTaken failure, and tells its parent so. An End of a run whose cancel nobody has taken in is marked
        ``cancel_requested``. ``settled`` and End drop attempts; unread signals
        stay. A Stuck adds its build to the run's block, or counts a fault of the worker where it names none; ends and
        take-ups drop the block, and a park, an end or ``recovered`` ends the count.
        """
        ...

    async def inbox(self, asks: Sequence[Ask]) -> list[Inbox]:
        """The mailboxes of runs, each of one snapshot. A run that is not open is left out."""
        ...

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        """Keep the signals in the runs' mailboxes, in one commit, waking whoever waits for one. In order."""
        ...

    async def cancel(self, run_ids: Sequence[str], reason: str | None = None) -> list[Sent]:
        """Ask open runs to cancel, in order. One that never started ends as cancelled at once, and tells its parent; a
        blocked one keeps the request; any other is woken, or its holder hears by the next beat. One that nobody holds
        counts against its limit no longer. A second request answers DUPLICATE."""
        ...

    async def terminate(self, run_ids: Sequence[str]) -> list[Sent]:
        """End open runs at once, in order, as cancelled for the reason ``terminated``, whoever holds them: what a
        holder still writes is LOST. Each tells its parent. Runs that have ended answer FINISHED."""
        ...

    async def run_now(self, run_id: str) -> Changed:
        """Make a delayed run, or one between two attempts, ready now; the next attempt of a parked run's step is due
        now. A run that is ready or running is UNCHANGED; any other, a plain sleep above all, is REFUSED."""
        ...

    async def reschedule(self, run_id: str, at: datetime) -> Changed:
        """Have a pending run become due at another time, before its first attempt or its next; one in the past is kept
        for its rank. A run that is not pending is REFUSED."""
        ...

    async def set_priority(self, run_id: str, priority: int) -> Changed:
        """Change the priority of an open run, and its rank with it. A run that has ended is REFUSED."""
        ...

    async def delete(self, run_id: str) -> Changed:
        """Delete a run that has ended, with its whole tree, in small transactions. REFUSED for a run that has a parent,
        is open, or has an open descendant. A tree that is being deleted can no longer be opened again; the key of the
        root is free at once, those of its descendants when they are gone. A deletion that is broken off is finished by
        ``purge``."""
        ...

    async def retain(self, completed: float | None, failed: float | None, limit: int) -> Retained:
        """Look once over the next runs that have ended (one shared cursor for the whole fleet) for trees to be deleted,
        and mark up to ``limit``: whose root ended longer ago than so many seconds (``completed`` also for cancelled
        ones, ``failed`` also for dead letters; None: never), with no descendant that is open."""
        ...

    async def purge(self, limit: int) -> int:
        """Delete up to ``limit`` runs of trees that are marked, the root last, in one transaction; how many it was."""
        ...

    async def pause(self, queue: str) -> bool:
        """Have no run of this queue claimed, by any worker, until ``resume``; whether that changed anything."""
        ...

    async def resume(self, queue: str) -> bool:
        """End a pause; whether there was one."""
        ...

    async def adopt(self, definitions: Sequence[Definition], limit: int) -> int:
        """Give runs that were started by name, while nobody knew the name, the kind and highest version that these say;
        how many it was. Such a run has version 0, is served as ``name@?``, and goes to the queue it was given."""
        ...

    async def release(self, worker_id: int, held: Sequence[int]) -> int:
        """Give back the runs that this worker holds under any other token than these, without burning anything.

        For claims whose reply was lost or late. The caller MUST have no claim under way that is not in ``held``.
        """
        ...

    async def give_back(self, worker_id: int) -> int:
        """Give back everything this worker holds and sign it off; for an orderly stop."""
        ...

    async def wake_due(self, limit: int) -> int:
        """Make what is due claimable; how many it was."""
        ...

    async def sweep(self, limit: int) -> int:
        """Look once over the next ``limit`` open runs (one shared cursor for the whole fleet) for what must not be:
        parked runs whose wake is already there, running ones whose worker is not registered, children to be cancelled
        with an ended parent. Mend them; how many it was."""
        ...

    async def tally(self) -> bool:
        """Count for ``activity`` what has happened since the last look (one shared cursor for the whole fleet; nothing
        is missed, also what commits late, and nothing counted twice); whether there may be more of it."""
        ...

    async def unblock(self, build: str, served: Sequence[str], limit: int) -> int:
        """Make blocked runs of these served names claimable that this build has not failed to follow, or whose worker's
        fault is due to be tried again; how many it was."""
        ...

    async def register(self, worker: WorkerRow, definitions: Sequence[Definition]) -> Registered:
        """Write the worker's row, upsert what it serves, and remember when its build was first seen."""
        ...

    async def drain(self, worker_id: int) -> Changed:
        """Ask a worker to stop in order: its beats are told so from then on. UNCHANGED if it was asked before, UNKNOWN
        if it is not on record or has gone."""
        ...

    async def reap(self, worker_id: int, token: int, limit: int) -> list[Reaped]:
        """Take the runs of workers that are gone: lease run out, or the beat's connection visibly gone and no beat for
        3 s. Under CRASH_CAP crashes they go back to ready (the first at once, the next after 1, 2, 4 s, with jitter);
        at the cap they stay held, by ``worker_id`` under ``token``, to be ended. Those workers are marked reaped."""
        ...
