"""The writes about runs: start, commit, inbox, send, cancel. One statement each, one round trip."""

from __future__ import annotations

from collections.abc import Sequence

from runnerq.persistence.postgres import rows
from runnerq.persistence.postgres.claiming import Claims
from runnerq.persistence.postgres.documents import (
    append_parameters,
    commit_parameters,
    end_parameters,
    only_ends,
    only_moves,
    only_rows,
    plain_parameters,
)
from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.postgres.run_documents import reopen_parameters
from runnerq.persistence.postgres.starts import wake_of
from runnerq.persistence.postgres.texts import readable
from runnerq.persistence.records import (
    Ask,
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


class RunWrites(Claims):
    """What changes runs. Whoever is concerned is told after each statement."""

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        return await self._starts.start(runs)

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        return await self._starts.start_or_send(run, signals)

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        return await self._starts.send(signals)

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
            await self._end_transactions(ended)
            left = _answered(records, answers)
        return [_once(answers, run_id, Sent.FINISHED) for run_id in run_ids]

    async def reopen(self, reopen: Reopen) -> bool:
        everything = _all_of(reopen)
        records = await self._connections.fetch_patient(self._statements["reopen_runs"], *reopen_parameters(everything))
        self._changes.tell(wake_of(records, ("queue",), (), (record["run_id"] for record in records)))
        return len(records) > 0

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
