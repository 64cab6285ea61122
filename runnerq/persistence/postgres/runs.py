"""The writes about runs: start, claim, commit, inbox, send, cancel. One statement each, one round trip."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from runnerq.persistence.postgres import rows
from runnerq.persistence.postgres.core import Core
from runnerq.persistence.postgres.documents import (
    Parameters,
    alike_parameters,
    append_parameters,
    commit_parameters,
    end_parameters,
    only_ends,
    only_moves,
    only_rows,
    plain_parameters,
    reopen_parameters,
    start_parameters,
    whole_start_parameters,
)
from runnerq.persistence.postgres.floors import Place
from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.postgres.texts import plain, readable
from runnerq.persistence.records import (
    Ask,
    Claim,
    ClaimRequest,
    End,
    Inbox,
    NewRun,
    NewSignal,
    Park,
    Renew,
    Reopen,
    Sent,
    StartReply,
    Stuck,
    Turn,
    Verdict,
    Wake,
)

_REACH = 2
_FARTHER = 16
_FARTHEST = 10_000
"""A claim chooses from twice as many runs as it may take; from more, up to this, while somebody holds those."""


class RunWrites(Core):
    """What changes runs. Whoever is concerned is told after each statement."""

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        unique = {run.id: run for run in runs}
        if not unique:
            return []
        alike = alike_parameters(list(unique.values()))
        if alike is not None:
            await self._connections.fetch(self._statements["start_alike"], *alike)
            self._changes.tell(Wake(queues=frozenset({runs[0].queue})))
            return [StartReply(id=run.id, created=True) for run in runs]
        below = any(run.parent_id is not None for run in unique.values())
        fetch = self._connections.fetch_patient if below else self._connections.fetch
        records = await fetch(*self._starting(list(unique.values())))
        replies = {
            given: StartReply(id=record["id"], created=record["created"], refused=record["refused"])
            for given, record in zip(unique, records, strict=True)
        }
        self._changes.tell(Wake(queues=frozenset(run.queue for run in unique.values() if replies[run.id].created)))
        return [replies[run.id] for run in runs]

    async def claim(self, request: ClaimRequest) -> Claim:
        places = self._floors.begin(request.pairs, time.monotonic())
        reach = _REACH
        records: list[Record] = []
        while True:
            left = request.limit - len(records)
            candidates = min(left * reach, _FARTHEST)
            head, taken = await self._claim(request, places, left, candidates)
            records += taken
            if reach == _REACH and not any(places):
                self._floors.walked(head["scanned"], head["dead"], time.monotonic())
            if len(records) >= request.limit:
                break
            if head["candidates"] == candidates and candidates < _FARTHEST:
                # All there was to choose from, and somebody holds it: what stands behind it is ready too.
                reach *= _FARTHER
            else:
                break
        if reach != _REACH:
            records.sort(key=lambda record: (record["rank"], record["run_id"]))
        short = len(records) < request.limit
        taken_of = [pair for pair in request.pairs if pair[0] not in head["paused"]]
        self._floors.took(taken_of, records[-1] if records else None, head["now"] if short else None)
        next_due = head["next_due"]
        if short and any(places):
            anew = head["now"] + self._floors.anew(time.monotonic())
            next_due = anew if next_due is None else min(next_due, anew)
        return Claim(
            runs=tuple(rows.claimed(record, request.token) for record in records), now=head["now"], next_due=next_due
        )

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        if len(turns) == 1 and len(turns[0].rows) == 1 and only_rows(turns[0]) and await self._append_one(turns[0]):
            return [Verdict.DONE]
        left = sorted(turns, key=_run_id)
        verdicts: dict[str, Verdict] = {}
        if not left:
            return []
        if all(map(only_rows, left)):
            verdicts |= await self._append(left)
            left = [turn for turn in left if turn.run_id not in verdicts]
        elif all(map(only_ends, left)):
            verdicts |= await self._end(left)
            left = [turn for turn in left if turn.run_id not in verdicts]
        if left:
            verdicts |= await self._commit(left)
            left = [turn for turn in left if turn.run_id not in verdicts]
        if left:
            verdicts |= await self._judge(left)
        return [verdicts[turn.run_id] for turn in turns]

    async def inbox(self, asks: Sequence[Ask]) -> list[Inbox]:
        if not asks:
            return []
        records = await self._connections.fetch_prompt(
            self._statements["read_inboxes"],
            [ask.run_id for ask in asks],
            [ask.run_id for ask in asks for _ in ask.children],
            [child for ask in asks for child in ask.children],
        )
        return [rows.inbox(record) for record in records]

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        if not signals:
            return []
        records = await self._connections.fetch_patient(*self._sending(signals, [signal.run_id for signal in signals]))
        self._changes.tell(wake_of(records, ("ready_queue",), ("worker_id",)))
        return [Sent(record["sent"]) for record in records]

    async def cancel(self, run_ids: Sequence[str], reason: str | None = None) -> list[Sent]:
        answers: dict[str, Sent] = {}
        left = list(dict.fromkeys(run_ids))
        while left:
            records = await self._connections.fetch_patient(self._statements["cancel_runs"], left, readable(reason))
            ended = [record["run_id"] for record in records if record["ended"]]
            self._changes.tell(wake_of(records, ("ready_queue", "parent_queue"), ("worker_id", "parent_worker"), ended))
            left = _answered(records, answers)
        return [_once(answers, run_id, Sent.DUPLICATE) for run_id in run_ids]

    async def terminate(self, run_ids: Sequence[str]) -> list[Sent]:
        answers: dict[str, Sent] = {}
        left = list(dict.fromkeys(run_ids))
        while left:
            records = await self._connections.fetch_patient(self._statements["terminate_runs"], left)
            ended = [record["run_id"] for record in records if record["sent"] == "sent"]
            self._changes.tell(wake_of(records, ("parent_queue",), ("worker_id", "parent_worker"), ended))
            left = _answered(records, answers)
        return [_once(answers, run_id, Sent.FINISHED) for run_id in run_ids]

    async def reopen(self, reopen: Reopen) -> bool:
        everything = _all_of(reopen)
        records = await self._connections.fetch_patient(self._statements["reopen_runs"], *reopen_parameters(everything))
        self._changes.tell(wake_of(records, ("queue",), (), (record["run_id"] for record in records)))
        return len(records) > 0

    def _starting(self, runs: Sequence[NewRun]) -> Parameters:
        """The statement that creates these runs, and its parameters."""
        if any(run.rows or run.parent_id is not None for run in runs):
            return [self._statements["start_runs"], *whole_start_parameters(runs)]
        return [self._statements["start_runs_plain"], *start_parameters(runs)]

    def _sending(self, signals: Sequence[NewSignal], run_ids: Sequence[str]) -> Parameters:
        """The statement that sends these signals to these runs, by place, and its parameters."""
        return [
            self._statements["send_signals"],
            run_ids,
            [plain(signal.channel, "the channel") for signal in signals],
            [signal.value for signal in signals],
            [None if signal.dedup is None else plain(signal.dedup, "the dedup id") for signal in signals],
        ]

    async def _claim(
        self, request: ClaimRequest, places: Sequence[Place | None], limit: int, candidates: int
    ) -> tuple[Record, Sequence[Record]]:
        """What the first row says, and the rows of the runs that were taken, by rank."""
        records = await self._connections.fetch_quick(
            self._statements["claim_runs"],
            [queue for queue, _ in request.pairs],
            [served for _, served in request.pairs],
            limit,
            request.worker_id,
            request.token,
            list(request.held),
            list(request.held.values()),
            [place and place[0] for place in places],
            [place and place[1] for place in places],
            candidates,
            self._due_floor.known,
        )
        return records[0], records[1:]

    async def _append_one(self, turn: Turn) -> bool:
        """Write a turn that is one row; False if it was not written, and ``_commit`` is to say why."""
        row = turn.rows[0]
        return bool(
            await self._connections.fetch_turns(
                self._statements["append_one"],
                turn.run_id,
                turn.token,
                turn.generation,
                row.place,
                row.at,
                row.kind,
                row.position,
                row.value,
                row.asked,
            )
        )

    async def _append(self, turns: list[Turn]) -> dict[str, Verdict]:
        """Write turns that are rows alone; those that are missing are for ``_commit``."""
        records = await self._connections.fetch_turns(self._statements["append"], *append_parameters(turns))
        return {record["run_id"]: Verdict.DONE for record in records}

    async def _end(self, turns: list[Turn]) -> dict[str, Verdict]:
        """Write turns that complete a run and are nothing else; those that are missing are for ``_commit``."""
        records = await self._connections.fetch_turns(self._statements["end_runs"], *end_parameters(turns))
        ended = [record["run_id"] for record in records]
        self._changes.tell(Wake(runs=frozenset(ended)))
        return dict.fromkeys(ended, Verdict.DONE)

    async def _commit(self, turns: list[Turn]) -> dict[str, Verdict]:
        """Write turns; those that are missing are for ``_judge``."""
        waiting = [turn for turn in turns if _may_wait(turn)]
        others = [turn for turn in turns if not _may_wait(turn)]
        verdicts: dict[str, Verdict] = {}
        if others:
            if all(map(only_moves, others)):
                statement, parameters = self._statements["commit_plain"], plain_parameters(others)
            else:
                statement, parameters = self._statements["commit"], commit_parameters(others)
            records = await self._connections.fetch_turns(statement, *parameters)
            verdicts |= self._written(others, records)
        if waiting:
            found = await self._connections.fetch_impatiently(self._statements["commit"], *commit_parameters(waiting))
            if found is None:
                return verdicts | {turn.run_id: Verdict.BUSY for turn in waiting}
            verdicts |= self._written(waiting, found)
        return verdicts

    def _written(self, turns: list[Turn], records: Sequence[Record]) -> dict[str, Verdict]:
        """The verdicts of what commit.sql wrote; and whoever is concerned is told."""
        verdicts = {record["run_id"]: Verdict.AGAIN if record["again"] else Verdict.DONE for record in records}
        done = [turn for turn in turns if turn.run_id in verdicts]
        wake = wake_of(
            records,
            ("ready_queue", "parent_queue"),
            ("own_worker", "parent_worker"),
            (turn.run_id for turn in done if _shows(turn, verdicts[turn.run_id])),
            (child.queue for turn in done for child in turn.children),
        )
        self._changes.tell(wake)
        return verdicts

    async def _judge(self, turns: list[Turn]) -> dict[str, Verdict]:
        records = await self._connections.fetch_prompt(
            self._statements["judge_turns"],
            [turn.run_id for turn in turns],
            [turn.token for turn in turns],
            [turn.generation for turn in turns],
            [turn.generation + isinstance(turn.move, Renew) for turn in turns],
            [_first_place(turn) for turn in turns],
        )
        return {record["run_id"]: Verdict(record["verdict"]) for record in records}


def _run_id(turn: Turn) -> str:
    return turn.run_id


def _may_wait(turn: Turn) -> bool:
    """Whether the turn claims a key: a key that an open transaction is claiming would make the whole batch wait."""
    return any(child.key is not None for child in turn.children)


def _first_place(turn: Turn) -> int | None:
    """A place that the turn has written if it was written: a renewal's is in the generation that it begins."""
    if isinstance(turn.move, Renew):
        return turn.move.started.place
    return turn.rows[0].place if turn.rows else None


def _shows(turn: Turn, verdict: Verdict) -> bool:
    """Whether the turn changed what a handle can see."""
    moved = verdict is Verdict.DONE and isinstance(turn.move, Park | Stuck | End | Renew)
    return moved or turn.published is not None


def _answered(records: Sequence[Record], answers: dict[str, Sent]) -> list[str]:
    """Put down the answers; what is to be asked again, because a parent ended or was opened again meanwhile."""
    answers |= {record["run_id"]: Sent(record["sent"]) for record in records if record["sent"] != "again"}
    return [record["run_id"] for record in records if record["sent"] == "again"]


def _once(answers: dict[str, Sent], run_id: str, then: Sent) -> Sent:
    """The answer; what is given twice hears the other one the second time."""
    answer = answers[run_id]
    if answer is Sent.SENT:
        answers[run_id] = then
    return answer


def _all_of(reopen: Reopen) -> list[Reopen]:
    """It, and all that is to be opened with it."""
    return [reopen, *(each for child in reopen.children for each in _all_of(child))]


def wake_of(
    records: Sequence[Record],
    queues: tuple[str, ...],
    workers: tuple[str, ...],
    runs: Iterable[str] = (),
    more_queues: Iterable[str] = (),
) -> Wake:
    """The wake of what a statement answered: the columns that name queues and workers, and runs that changed."""
    return Wake(
        queues=frozenset(record[name] for name in queues for record in records if record[name] is not None).union(
            more_queues
        ),
        workers=frozenset(record[name] for name in workers for record in records if record[name] is not None),
        runs=frozenset(runs),
    )
