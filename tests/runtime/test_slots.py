"""Slots that are kept for some, on their own: who may be claimed for, and how many."""

from __future__ import annotations

import random
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.errors import ConfigurationError
from runnerq.persistence.memory import MemoryStorage
from runnerq.runtime.registry import Registry
from runnerq.runtime.slots import Kept, Slots, kept_for
from runnerq.runtime.worker import Worker
from runnerq.workflow.declare import activity


@activity
def mail() -> None: ...


@activity
def report() -> None: ...


@activity(name="nightly.clean")
def clean() -> None: ...


REGISTRY = Registry([], [mail, report, clean])
SERVED = REGISTRY.served()


def slots(most: int, keep: int, *named: str) -> Slots:
    return Slots(most, ["q"], SERVED, Kept(keep, frozenset(named)))


def test_without_a_reserve_everybody_may_take_everything() -> None:
    all_of_them = Slots(3, ["q", "r"], ["a", "b"], None)
    assert all_of_them.pairs() == (("q", "a"), ("q", "b"), ("r", "a"), ("r", "b"))
    for number in range(3):
        assert all_of_them.free() == 3 - number
        all_of_them.take(f"r{number}", "a")
    assert all_of_them.free() == 0
    assert not all_of_them.narrow
    assert not all_of_them.give("r1")
    assert all_of_them.free() == 1


def test_everybody_is_claimed_for_while_the_others_may_take_one_and_then_only_the_named() -> None:
    some = slots(5, 2, "mail")
    assert some.free() == 3
    assert {name for _, name in some.pairs()} == set(SERVED)
    for number in range(3):
        some.take(f"other{number}", "report")
    assert some.free() == 2
    assert some.pairs() == (("q", "mail"),)
    assert some.narrow
    some.take("mail0", "mail")
    some.take("mail1", "mail")
    assert some.free() == 0


def test_the_named_may_take_more_than_is_kept_for_them() -> None:
    some = slots(3, 1, "mail")
    for number in range(3):
        assert some.free() > 0
        some.take(f"mail{number}", "mail")
    assert some.free() == 0


def test_a_slot_given_back_tells_whether_somebody_may_come_again_who_could_not() -> None:
    some = slots(3, 1, "mail")
    some.take("a", "report")
    assert not some.give("a")
    some.take("a", "report")
    some.take("b", "report")
    some.take("m", "mail")
    assert not some.give("m")
    assert some.give("a")
    assert not some.give("a"), "it has none any more"
    assert not some.give("never")
    assert some.free() == 1


def test_at_no_time_do_the_others_hold_more_than_their_share() -> None:
    chance = random.Random(4)
    some = slots(8, 3, "mail", "nightly.clean")
    held: dict[str, str] = {}
    for number in range(5000):
        if held and chance.random() < 0.5:
            gone = chance.choice(list(held))
            del held[gone]
            some.give(gone)
        else:
            limit = some.free()
            names = [name for _, name in some.pairs()]
            for one in range(chance.randint(0, limit)):
                name = chance.choice(names)
                held[f"{number}.{one}"] = name
                some.take(f"{number}.{one}", name)
        others = sum(name == "report" for name in held.values())
        assert others <= 5
        assert len(held) <= 8
        assert (some.free() == 0) == (len(held) == 8)


@pytest.mark.parametrize(
    ("reserve", "why"),
    [
        ((0, [mail]), "from 1 to 9 slots"),
        ((11, [mail]), "from 1 to 9 slots"),
        ((True, [mail]), "from 1 to 9 slots"),
        ((10, [mail]), r"takes all of max_workers=10.*nightly\.clean"),
        ((2, []), "keeps slots for nothing"),
        ((2, ["letter"]), "reserve= names 'letter', which is not registered"),
        ((2, "mail"), "a list of functions"),
        ((2, mail), "a list of functions"),
        (5, "a list of functions"),
        ((5,), "a list of functions"),
    ],
)
def test_a_reserve_that_leaves_somebody_nothing_or_names_nobody_is_refused(reserve: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Worker(Client(MemoryStorage()), activities=[mail, report, clean], reserve=reserve)


def test_a_reserve_for_what_only_leaves_out_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"which only= leaves out: add them to only="):
        Worker(Client(MemoryStorage()), activities=[mail, report], only=[report], reserve=(2, [mail]))


def test_a_reserve_for_all_that_is_served_keeps_nobody_from_anything() -> None:
    assert kept_for((10, [mail, "report", clean]), REGISTRY, SERVED, 10) is None
    assert kept_for(None, REGISTRY, SERVED, 10) is None
    assert kept_for((9, ["nightly.clean"]), REGISTRY, SERVED, 10) == Kept(9, frozenset({"nightly.clean"}))


def test_a_run_that_takes_a_slot_again_holds_one_and_not_two() -> None:
    some = slots(3, 1, "mail")
    some.take("a", "report")
    some.take("a", "report")
    some.give("a")
    assert some.free() == 2
    for number in range(2):
        some.take(f"other{number}", "report")
    assert some.narrow is False
    some.pairs()
    assert some.narrow
