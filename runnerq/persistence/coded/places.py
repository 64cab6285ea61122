"""Where a payload belongs, in words that are the same when it is written and when it is read.

They are authenticated by encryption, so they are part of what is stored: to change one makes what was written before
unreadable. A place names the run, so that nothing opens in another run; what is copied from run to run (a fork, the
result of a child, arguments of a next generation) is opened and sealed anew on its way. A signal alone does not name
its run: one that is sent to whoever holds a key does not know it.
"""

from __future__ import annotations


def input_of(run_id: str) -> str:
    return f"input of {run_id}"


def value_of(run_id: str, generation: int, place: int) -> str:
    return f"value {generation}/{place} of {run_id}"


def asked_of(run_id: str, generation: int, place: int) -> str:
    return f"asked {generation}/{place} of {run_id}"


def result_of(run_id: str) -> str:
    return f"result of {run_id}"


def error_of(run_id: str) -> str:
    return f"error of {run_id}"


def attempt_of(run_id: str, position: str) -> str:
    return f"attempt at {position} of {run_id}"


def details_of(run_id: str, position: str) -> str:
    return f"details at {position} of {run_id}"


def signal_of(channel: str) -> str:
    return f"signal {channel}"


def state_of(run_id: str) -> str:
    return f"state of {run_id}"


def block_of(run_id: str) -> str:
    return f"block of {run_id}"


def schedule_of(name: str) -> str:
    return f"schedule {name}"


def audit_of(entry_id: str) -> str:
    return f"request of {entry_id}"
