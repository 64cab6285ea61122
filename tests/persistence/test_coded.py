"""The seam where payloads are sealed and opened: nothing of the protocol goes around it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from runnerq.persistence.coded import coded
from runnerq.persistence.coded.storage import CARRIES_NONE, CodedHeart, CodedJoined, CodedStorage, CodedWork
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.protocol import Heart, Joined, Storage, Work
from runnerq.persistence.records import NewRun, StartReply
from runnerq.serialization.chains import chain_of
from runnerq.serialization.compression import Compression


def methods(cls: type[Any]) -> set[str]:
    return {name for name, found in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def test_every_method_of_the_protocol_is_sealed_or_was_judged_to_carry_no_payload() -> None:
    """A new one is either written out in CodedStorage, or named in CARRIES_NONE."""
    sealed = methods(CodedStorage)
    assert methods(Storage) - sealed == CARRIES_NONE
    assert sealed - methods(Storage) == set()


def test_a_heart_a_joined_transaction_and_its_work_are_sealed_whole() -> None:
    assert methods(CodedHeart) == methods(Heart)
    assert methods(CodedJoined) == methods(Joined)
    of_work = {name for name in dir(Work) if not name.startswith("_")}
    assert of_work == {name for name in dir(CodedWork) if not name.startswith("_")}


def test_it_takes_what_the_protocol_says() -> None:
    differing = [
        name
        for name in methods(CodedStorage)
        if list(inspect.signature(getattr(CodedStorage, name)).parameters)
        != list(inspect.signature(getattr(Storage, name)).parameters)
    ]
    assert differing == []


class WithMore(MemoryStorage):
    """A storage that has something beside the protocol, which may carry payloads."""

    async def start_quickly(self, runs: Sequence[NewRun]) -> list[StartReply]:
        return await self.start(runs)


def test_a_storage_with_codecs_has_what_was_judged_and_refuses_all_else() -> None:
    sealed = coded(WithMore(), chain_of(Compression()))
    assert all(hasattr(sealed, name) for name in methods(Storage))
    with pytest.raises(AttributeError, match="'start_quickly' is not to be had of a storage with codecs"):
        sealed.start_quickly  # type: ignore[attr-defined]  # noqa: B018 - the point
