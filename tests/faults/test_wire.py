"""The proxy's reading of the wire protocol, and how recovery is counted."""

from __future__ import annotations

from runnerq.persistence.postgres.statements import Statements
from tests.faults.recovery import Times, recovery
from tests.faults.wire import LISTEN, OTHER, Answering, Asking


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


GREETING = message(b"", b"\0\3\0\0user\0postgres\0\0")
SYNC = message(b"S")
CLAIM = Statements("runnerq")["claim_runs"].encode()
PREPARE = message(b"P", b"s1\0" + CLAIM + b"\0\0\0") + message(b"D", b"Ss1\0") + SYNC
RUN = message(b"B", b"\0s1\0\0\0") + message(b"E", b"\0\0\0\0\0") + SYNC


def test_a_group_is_named_after_the_statement_that_it_binds() -> None:
    asking = Asking()
    groups = list(asking.feed(GREETING + PREPARE + RUN))
    assert groups == [(None, GREETING), (OTHER, PREPARE), ("claim_runs", RUN)]


def test_messages_that_come_in_pieces_are_put_together() -> None:
    asking = Asking()
    sent = GREETING + PREPARE + RUN
    groups = [group for at in range(len(sent)) for group in asking.feed(sent[at : at + 1])]
    assert [name for name, _ in groups] == [None, OTHER, "claim_runs"]
    assert b"".join(text for _, text in groups) == sent


def test_a_connection_that_listens_is_known_by_its_query() -> None:
    asking = Asking()
    [_, (name, _)] = asking.feed(GREETING + message(b"Q", b'LISTEN "runnerq_runnerq"\0'))
    assert name == LISTEN


def test_answers_belong_to_groups_in_order() -> None:
    answering = Answering()
    greeting = message(b"R", b"\0\0\0\0") + message(b"Z", b"I")
    assert [group for group, _, _ in answering.feed(greeting)] == [None, None]
    answering.out.extend(["first", "second"])
    answered = list(answering.feed(message(b"2") + message(b"Z", b"I") + message(b"2") + message(b"Z", b"I")))
    assert [(group, last) for group, _, last in answered] == [
        ("first", False),
        ("first", True),
        ("second", False),
        ("second", True),
    ]


def test_recovery_is_the_time_until_throughput_is_back_and_until_the_last_run_open_at_the_fault_has_ended() -> None:
    times = Times(steady=0, began=10, ended=15, stopped=30, origin=15)
    ends = [number / 10 for number in range(100)] + [18 + number / 10 for number in range(100)]
    ended = {str(number): at for number, at in enumerate(ends)} | {"open": 17.5}
    accepted = dict.fromkeys(ended, 0.0) | {"open": 9.0}
    found = recovery(times, {run: at for run, at in accepted.items() if run == "open"}, ended)
    assert found.rate == 10
    assert found.during == 0
    # The first two seconds with 80 % of 20 ends in them begin at 2.5 or so: 18.0 to 19.6.
    assert found.back is not None
    assert 2.4 <= found.back <= 2.7
    assert found.last_open == 2.5


def test_throughput_that_does_not_come_back_while_the_load_goes_on_is_told() -> None:
    times = Times(steady=0, began=10, ended=15, stopped=30, origin=15)
    ended = {str(number): number / 10 for number in range(100)}
    assert recovery(times, {}, ended).back is None
