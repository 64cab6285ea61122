"""What has come for a run, in the order in which it is fed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from runnerq.persistence.records import Mail, Outcome
from runnerq.runtime.arrivals import Arrivals, ChildEnded, SignalCame, TimeCame
from runnerq.workflow.commands import ChildSpec, Command, SignalSpec, SleepSpec
from runnerq.workflow.journal import Asked
from runnerq.workflow.tree import Branch, Leaf

START = datetime(2025, 6, 1, 12, tzinfo=UTC)
ROOT = Branch("", None, 0)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def wait(position: str, channel: str = "go", until: float | None = None, *, latest: bool = False) -> Leaf:
    spec = SignalSpec(Any, None, None, False, latest)
    return leaf(position, "signal", channel, spec, until=until)


def sleep(position: str, until: float) -> Leaf:
    return leaf(position, "sleep", "", SleepSpec(0, None), until=until)


def child(position: str, name: str = "c") -> Leaf:
    return leaf(position, "child", name, ChildSpec(None), child_id=name)


def leaf(
    position: str, kind: Any, name: str, spec: Any, *, until: float | None = None, child_id: str | None = None
) -> Leaf:
    command: Command[Any] = Command(None, kind, name, spec=spec)
    deadline = None if until is None else at(until)
    return Leaf(command, Asked(position, kind, name, "", deadline, child_id), ROOT, 0)


def mail(number: int, came: float, channel: str = "go") -> Mail:
    return Mail(number, number, at(came), channel, str(number))


def ended(name: str, when: float) -> Outcome:
    return Outcome(run_id=name, status="completed", ended_at=at(when), result="1")


class Run:
    """Leaves that are open, and what comes for them."""

    def __init__(self, *leaves: Leaf) -> None:
        self.arrivals = Arrivals()
        self.leaves = {each.position: each for each in leaves}

    def read(self, *came: Mail | Outcome, now: float, looked_for: tuple[str, ...] = ("c", "d")) -> None:
        signals = [each for each in came if isinstance(each, Mail)]
        outcomes = [each for each in came if isinstance(each, Outcome)]
        self.arrivals.read(signals, outcomes, at(now), looked_for)

    def fed(self, now: float) -> list[tuple[str, str]]:
        """What is fed, each to the command that it closes: its position and kind."""
        self.arrivals.watch(self.leaves.values(), at(now))
        found = []
        while (arrival := self.arrivals.next(self.leaves, at(now))) is not None:
            del self.leaves[arrival.leaf.position]
            found.append((arrival.leaf.position, type(arrival).__name__))
        return found


def test_what_came_is_fed_by_time_and_then_by_position() -> None:
    run = Run(wait("1.0", "a"), sleep("1.1", 2), child("1.2"), wait("1.10", "b"), wait("1.9", "b2"))
    run.read(mail(1, 3, "a"), ended("c", 1), mail(2, 2.5, "b"), mail(3, 2.5, "b2"), now=9)
    assert run.fed(9) == [
        ("1.2", "ChildEnded"),
        ("1.1", "TimeCame"),
        ("1.9", "SignalCame"),
        ("1.10", "SignalCame"),
        ("1.0", "SignalCame"),
    ]


def test_signals_of_one_channel_are_taken_in_the_order_they_came() -> None:
    run = Run(wait("1.0"), wait("1.1"))
    run.read(mail(7, 1), mail(8, 2), now=9)
    run.arrivals.watch(run.leaves.values(), at(9))
    first = run.arrivals.next(run.leaves, at(9))
    assert isinstance(first, SignalCame)
    assert (first.leaf.position, first.mail.id) == ("1.0", 7)
    del run.leaves["1.0"]
    second = run.arrivals.next(run.leaves, at(9))
    assert isinstance(second, SignalCame)
    assert (second.leaf.position, second.mail.id) == ("1.1", 8)


def test_the_latest_passes_over_the_older_ones() -> None:
    run = Run(wait("1", latest=True))
    run.read(mail(1, 1), mail(2, 2), mail(3, 3), now=9)
    run.arrivals.watch(run.leaves.values(), at(9))
    came = run.arrivals.next(run.leaves, at(9))
    assert isinstance(came, SignalCame)
    assert (came.mail.id, [each.id for each in came.dropped]) == (3, [1, 2])


def test_a_signal_by_its_deadline_wins_even_if_it_is_read_later() -> None:
    run = Run(wait("1", until=5))
    run.read(mail(1, 5), now=100)
    assert run.fed(100) == [("1", "SignalCame")]


def test_a_signal_after_its_deadline_is_left_for_the_next_wait() -> None:
    run = Run(wait("1", until=5))
    run.read(mail(1, 6), now=100)
    assert run.fed(100) == [("1", "TimeCame")]
    run.leaves["2"] = wait("2")
    assert run.fed(100) == [("2", "SignalCame")]


def test_a_wait_times_out_only_once_the_mailbox_was_read_after_its_deadline() -> None:
    run = Run(wait("1", until=5))
    run.read(now=4)
    assert run.fed(6) == []
    assert run.arrivals.stale_for(run.leaves["1"], at(6))
    assert not run.arrivals.stale_for(run.leaves["1"], at(4.5))
    run.read(now=6)
    assert not run.arrivals.stale_for(run.leaves["1"], at(6))
    assert run.fed(6) == [("1", "TimeCame")]


def test_a_consumed_signal_is_not_taken_again_from_a_later_reading_until_it_is_off_record() -> None:
    run = Run(wait("1"))
    run.read(mail(1, 1), now=2)
    assert run.fed(2) == [("1", "SignalCame")]
    run.leaves["2"] = wait("2")
    run.read(mail(1, 1), now=3)
    assert run.fed(3) == []
    run.arrivals.forget_taken([1])
    run.read(mail(2, 4), now=5)
    assert run.fed(5) == [("2", "SignalCame")]


def test_a_command_that_was_closed_meanwhile_gets_nothing_and_takes_nothing() -> None:
    run = Run(wait("1.0"), sleep("1.1", 1))
    run.read(mail(1, 1), now=9)
    run.arrivals.watch(run.leaves.values(), at(9))
    del run.leaves["1.0"]
    assert isinstance(run.arrivals.next(run.leaves, at(9)), TimeCame)
    del run.leaves["1.1"]
    run.leaves["2"] = wait("2")
    assert run.fed(9) == [("2", "SignalCame")]


def test_a_child_is_fed_to_who_waits_for_it_and_is_there_for_who_waits_again() -> None:
    run = Run(child("1", "c"))
    run.read(ended("c", 1), ended("d", 1), now=2)
    run.arrivals.watch(run.leaves.values(), at(2))
    came = run.arrivals.next(run.leaves, at(2))
    assert isinstance(came, ChildEnded)
    assert came.outcome.run_id == "c"
    assert run.arrivals.knows("c")
    assert run.arrivals.knows("d")


def test_a_child_may_have_been_missed_if_no_reading_looked_for_it_since_it_was_started() -> None:
    run = Run()
    run.read(now=1, looked_for=("c",))
    assert not run.arrivals.may_have_missed("c")
    assert run.arrivals.may_have_missed("d")
    run.arrivals.started(["d"])
    assert not run.arrivals.may_have_missed("d")
    run.read(now=2, looked_for=())
    assert run.arrivals.may_have_missed("d")
    run.read(ended("d", 1), now=3, looked_for=())
    assert not run.arrivals.may_have_missed("d")
