"""Feeds a run what has come for it, one arrival at a time, until nothing more can be fed now."""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

import msgspec

from runnerq.errors import DecodingError, SignalPayloadError
from runnerq.runtime.arrivals import Arrivals, ChildEnded, SignalCame, TimeCame
from runnerq.runtime.failing import child_failure, signal_timeout
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import record
from runnerq.workflow.interpreter import Interpreter
from runnerq.workflow.tree import Leaf
from runnerq.workflow.types import answer_type

_decode = msgspec.json.decode


class Feeder:
    """Arrivals into answers. One a worker; it keeps nothing of a run."""

    def __init__(self, codec: Codec, modules: frozenset[str]) -> None:
        self._codec = codec
        self._modules = modules

    def feed(self, run: Interpreter, arrivals: Arrivals, now: datetime, consumed: list[int]) -> bool:
        """Feed what there is; ids of the signals taken go to ``consumed``.

        Returns whether the mailbox must be read first for what is waited for now. Raises Blocked.
        """
        children: list[Leaf] = []
        while run.end is None:
            if run.opened:
                opened, run.opened = run.opened, []
                arrivals.watch(opened, now)
                children += [leaf for leaf in opened if leaf.command.kind == "child"]
            arrival = arrivals.next(run.leaves, now)
            if arrival is None:
                if run.opened:
                    continue
                break
            match arrival:
                case SignalCame():
                    consumed += [mail.id for mail in (arrival.mail, *arrival.dropped)]
                    self._signal(run, arrival, now)
                case ChildEnded():
                    self._child(run, arrival, now)
                case TimeCame(leaf):
                    if leaf.command.kind == "sleep":
                        run.answer(leaf.position, None, None, now)
                    else:
                        run.fail(leaf.position, signal_timeout(leaf.command.name, self._modules), now)
                case _:
                    assert_never(arrival)
        return run.end is None and (
            any(arrivals.stale_for(leaf, now) for leaf in run.timed())
            or (bool(children) and _may_have_missed(children, run, arrivals))
        )

    def _signal(self, run: Interpreter, came: SignalCame, now: datetime) -> None:
        leaf, text = came.leaf, came.mail.value or "null"
        channel = leaf.command.name
        try:
            value = self._codec.decode(text, answer_type(leaf.command), f"signal {channel!r} of run {run.run_id}")
        except DecodingError as error:
            unfit = SignalPayloadError(channel, error.expected, error.reason)
            run.fail(leaf.position, record(unfit, self._modules, retryable=False), now)
        else:
            run.answer(leaf.position, text, value, now)

    def _child(self, run: Interpreter, ended: ChildEnded, now: datetime) -> None:
        leaf, outcome = ended.leaf, ended.outcome
        if outcome.status != "completed":
            started = run.children.get(outcome.run_id, leaf)
            key = started.command.options.key
            run.fail(leaf.position, child_failure(outcome, leaf.command.name, key, self._modules), now)
            return
        text = outcome.result or "null"
        run.answer(leaf.position, text, run.decoded(leaf, text), now)


def _may_have_missed(opened: list[Leaf], run: Interpreter, arrivals: Arrivals) -> bool:
    """Whether one of these waits is for a child that may have ended unnoticed; one that was just asked for has not."""
    new = {leaf.asked.child for leaf in run.new_children}
    awaited = [leaf.asked.child for leaf in opened if run.leaves.get(leaf.position) is leaf]
    return any(child is not None and child not in new and arrivals.may_have_missed(child) for child in awaited)
