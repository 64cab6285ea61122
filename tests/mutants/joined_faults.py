"""Faults of starts and sends in a transaction of the caller's own."""

from __future__ import annotations

from tests.mutants.faults import Fault

_POSTGRES = "runnerq/persistence/postgres"
_SUITE = "tests/persistence/test_conformance_postgres.py::TestJoined"
_WAYS = "tests/persistence/postgres/test_joined.py"
_REFUSALS = "tests/persistence/postgres/test_joined_refusals.py"
_MEMORY = "tests/client/test_joined.py"


def _fault(name: str, what: str, file: str, edit: tuple[str, str], noticed_by: str) -> Fault:
    return Fault(name=name, what=what, file=file, edits=(edit,), noticed_by=(noticed_by,))


JOINED_FAULTS = (
    _fault(
        "joined-in-our-name",
        "what a caller's transaction tells bears our name, so that our own workers are not woken",
        f"{_POSTGRES}/changes.py",
        ("payloads(NOBODY, wake)", "payloads(self._origin, wake)"),
        f"{_SUITE}::test_its_commit_is_heard_also_by_this_very_storage_and_what_is_rolled_back_is_not",
    ),
    _fault(
        "joined-too-soon",
        "our own workers are told of a start at once, and not when it is committed",
        f"{_POSTGRES}/joined.py",
        (
            "self._untold.taken())",
            "self._untold.taken())\n        self._changes.tell(Wake(queues=frozenset({'never'})))",
        ),
        f"{_SUITE}::test_its_commit_is_heard_also_by_this_very_storage_and_what_is_rolled_back_is_not",
    ),
    _fault(
        "joined-send-untold",
        "nobody is told of what was sent in a caller's transaction",
        f"{_POSTGRES}/joined.py",
        ("send(signals)\n        await self._tell()", "send(signals)"),
        f"{_SUITE}::test_what_is_sent_is_heard_by_whom_it_concerns",
    ),
    _fault(
        "joined-elsewhere",
        "a connection to another database is taken for one to the client's",
        f"{_POSTGRES}/joined.py",
        ("if there != here:", "if False:"),
        f"{_REFUSALS}::TestErrors",
    ),
    _fault(
        "joined-to-nothing-asyncpg",
        "asyncpg's connection is taken without a transaction",
        f"{_POSTGRES}/adapters.py",
        ("if not within:", "if False:"),
        f"{_REFUSALS}::TestNoTransaction",
    ),
    _fault(
        "joined-to-nothing-psycopg",
        "psycopg's is taken in autocommit",
        f"{_POSTGRES}/adapters.py",
        ("if connection.autocommit and", "if False and"),
        f"{_REFUSALS}::TestNoTransaction",
    ),
    _fault(
        "joined-to-nothing-sqlalchemy",
        "SQLAlchemy's is taken in autocommit",
        f"{_POSTGRES}/adapters.py",
        ("if (await connection.get_raw_connection()).dbapi_connection.autocommit:", "if False:"),
        f"{_REFUSALS}::TestNoTransaction",
    ),
    _fault(
        "joined-by-their-codecs",
        "parameters have the types of their columns, so that what the caller made of json is applied to ours",
        f"{_POSTGRES}/adapters.py",
        ('::text{array}::{kind}{array}"', '::{kind}{array}"'),
        f"{_REFUSALS}::TestSetUps",
    ),
    _fault(
        "joined-by-their-rows",
        "rows come as the caller's own cursors give them",
        f"{_POSTGRES}/adapters.py",
        ("AsyncRawCursor(connection, row_factory=dict_row)", "AsyncRawCursor(connection)"),
        f"{_WAYS}::test_keys_and_signals_answer_as_ever_and_a_refusal_leaves_the_transaction_as_it_was",
    ),
    _fault(
        "joined-key-holds-up",
        "starts that wait for a key somebody's transaction is claiming hold up all others",
        f"{_POSTGRES}/starts.py",
        ("run.parent_id is not None or run.key is not None", "run.parent_id is not None"),
        f"{_REFUSALS}::TestHeld::test_whoever_wants_a_key_that_is_being_claimed_waits_and_holds_up_nobody_else",
    ),
    _fault(
        "joined-for-certain",
        "a handle takes it for certain that the caller's transaction has committed",
        "runnerq/client/joined.py",
        ("lasting = False", "lasting = True"),
        f"{_WAYS}::test_a_rollback_leaves_neither_the_order_nor_the_run_nor_the_signal[asyncpg-module_database]",
    ),
    _fault(
        "joined-again",
        "a start in a transaction that has failed is sent again",
        "runnerq/client/joined.py",
        ("return await send()", "return await super()._sent_again(send)"),
        f"{_MEMORY}::TestAnswers",
    ),
    _fault(
        "joined-by-halves",
        "in memory a transaction that cannot be committed leaves its first writes",
        "runnerq/persistence/memory/joined.py",
        ("            self._repeat(deepcopy(book), now)\n", ""),
        f"{_MEMORY}::TestAnswers",
    ),
)
