"""The cache of parked interpreters. It only hands them on, so any object stands for one."""

from __future__ import annotations

from typing import Any

import pytest

from runnerq.runtime.cache import Cache


class Shelf:
    """A cache, its clock, and what it has closed."""

    def __init__(self, limit: int = 100, ttl: float = 30.0) -> None:
        self.now = 0.0
        self.closed: list[Any] = []
        self.cache = Cache(self.closed.append, limit=limit, ttl=ttl, now=lambda: self.now)

    def put(self, *names: str) -> None:
        for token, name in enumerate(names, start=1):
            self.cache.put(name, token, f"generator {name}")


def test_what_is_put_is_taken_once() -> None:
    shelf = Shelf()
    shelf.put("a")
    parked = shelf.cache.take("a")
    assert parked is not None
    assert (parked.token, parked.interpreter) == (1, "generator a")
    assert shelf.cache.take("a") is None
    assert shelf.closed == []


def test_held_names_runs_with_the_token_they_were_parked_under() -> None:
    shelf = Shelf()
    shelf.put("a", "b")
    assert shelf.cache.held() == {"a": 1, "b": 2}


def test_the_oldest_are_closed_beyond_the_limit() -> None:
    shelf = Shelf(limit=2)
    shelf.put("a", "b", "c", "d")
    assert shelf.closed == ["generator a", "generator b"]
    assert shelf.cache.held() == {"c": 3, "d": 4}


def test_a_limit_of_nothing_keeps_nothing() -> None:
    shelf = Shelf(limit=0)
    shelf.put("a")
    assert shelf.closed == ["generator a"]
    assert len(shelf.cache) == 0


def test_what_is_older_than_its_time_is_closed() -> None:
    shelf = Shelf(ttl=30)
    shelf.put("a")
    shelf.now = 20
    shelf.put("b")
    shelf.now = 31
    assert shelf.cache.held() == {"b": 1}
    assert shelf.closed == ["generator a"]


def test_what_a_claim_has_named_stays_until_the_next_claim() -> None:
    shelf = Shelf(limit=2, ttl=30)
    shelf.put("a", "b")
    shelf.cache.held()
    shelf.now = 31
    shelf.put("c", "d")
    assert shelf.closed == []
    assert shelf.cache.take("a") is not None
    assert set(shelf.cache.held()) == {"c", "d"}
    assert shelf.closed == ["generator b"]


def test_parking_a_run_again_closes_what_was_kept_of_it() -> None:
    shelf = Shelf()
    shelf.put("a")
    shelf.cache.put("a", 7, "newer")
    assert shelf.closed == ["generator a"]
    assert shelf.cache.held() == {"a": 7}


def test_clearing_closes_everything_even_if_one_cannot_be_closed(caplog: pytest.LogCaptureFixture) -> None:
    closed = []

    def close(parked: Any) -> None:
        if parked == "stubborn":
            raise RuntimeError("no")
        closed.append(parked)

    cache = Cache(close)
    for name in ("first", "stubborn", "last"):
        cache.put(name, 1, name)
    cache.clear()
    assert closed == ["first", "last"]
    assert len(cache) == 0
    assert "run stubborn" in caplog.text
