"""A durable server of these tests' own, to be crashed and cut off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.server import Server
from tests.postgres import a_template, run_apart, server_folder


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with server_folder() as folder:
        made = Server(folder)
        run_apart(made.start())
        yield made
        run_apart(made.stop())


@pytest.fixture(scope="session")
def template(server: Server) -> Iterator[str]:
    """The name of a database with the library's tables there, to be copied."""
    with a_template(server.dsn) as name:
        yield name
