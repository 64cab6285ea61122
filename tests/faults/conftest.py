"""A durable server of these tests' own, to be crashed and cut off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.server import Server
from tests.postgres import open_folder, run_apart


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with open_folder() as folder:
        made = Server(folder)
        run_apart(made.start())
        yield made
        run_apart(made.stop())
