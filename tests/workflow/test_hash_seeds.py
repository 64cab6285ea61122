"""Two processes hash texts differently: what must not depend on it does not, and code that does is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

PROGRAM = """
import sys
import msgspec
from runnerq.workflow.ending import Blocked
from runnerq.workflow.journal import Row
from tests.workflow.driver import START, an_interpreter, drive
from tests.workflow.steps import anything, find

ITEMS = {"hat", "coat", "glove", "scarf", "boot", "sock"}


def takes_a_set(ctx):
    yield ctx.step(anything, ITEMS, frozenset(ITEMS), {item: {item} for item in ITEMS}, tags=ITEMS)
    yield ctx.publish(drawn=str(ctx.uuid()), rolled=ctx.random.random())
    yield ctx.sleep(1)


def walks_a_set(ctx):
    for item in ITEMS:
        yield ctx.step(find, item)


code, = [code for code in (takes_a_set, walks_a_set) if code.__name__ == sys.argv[1]]
if len(sys.argv) == 2:
    run = drive(code, {"1": {"item": "one"}})
    print(msgspec.json.encode(run.rows).decode())
else:
    run = an_interpreter(code)
    try:
        run.replay(msgspec.json.decode(sys.argv[2], type=list[Row]), START)
    except Blocked as blocked:
        print(f"blocked at {blocked.position}")
    else:
        print(f"waits for {list(run.leaves)} with {run.state}")
"""


def printed(seed: int, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_journal_is_followed_under_another_hash_seed() -> None:
    one, other = printed(1, "takes_a_set"), printed(2, "takes_a_set")
    assert one == other
    assert printed(2, "takes_a_set", one).startswith("waits for ['3'] with {'drawn': ")
    assert printed(1, "takes_a_set", one) == printed(2, "takes_a_set", one)


def test_code_that_walks_a_set_is_found_under_another_hash_seed() -> None:
    rows = printed(1, "walks_a_set")
    assert printed(1, "walks_a_set", rows) == "waits for ['2'] with {}"
    answers = {printed(seed, "walks_a_set", rows) for seed in (2, 3)}
    assert answers & {"blocked at 1", "blocked at 2"}
