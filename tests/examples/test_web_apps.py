"""The examples that are web apps, each served by uvicorn and asked over HTTP."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["fastapi_app", "litestar_app"]
PATIENCE = 60.0


@contextmanager
def served(name: str, dsn: str) -> Iterator[httpx.Client]:
    """The app, once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        os.set_inheritable(listening.fileno(), True)
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "--fd", str(listening.fileno()), "--log-level", "warning", f"{name}:app"],
            cwd=EXAMPLES / name,
            env={**os.environ, "RUNNERQ_DSN": dsn},
            pass_fds=[listening.fileno()],
        )
        port = listening.getsockname()[1]
        try:
            # The socket listens already: the first answer comes when the app has begun.
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
                yield client
        finally:
            process.terminate()
            process.wait(PATIENCE)


@pytest.mark.parametrize("name", NAMES)
def test_an_order_is_placed_shown_in_the_console_approved_and_charged_over_http(name: str, database: str) -> None:
    with served(name, database) as web:
        placed = web.post("/orders", json={"id": "o-1", "item": "cup"})
        assert placed.status_code == 201, placed.text
        assert web.post("/orders", json={"id": "o-1", "item": "cup"}).json() == placed.json()

        run = placed.json()["run"]
        assert run in web.get("/runnerq/runs").text
        assert web.get(f"/runnerq/api/v1/runs/{run}").json()["run"]["workflow"] == "checkout"

        assert web.post("/orders/o-1/approval", json={"approved": True, "by": "ada"}).json() == {"sent": True}
        until = time.monotonic() + PATIENCE
        while web.get("/orders/o-1").json()["status"] != "completed":
            assert time.monotonic() < until
        assert web.get("/orders/o-1").json()["result"] == "receipt for a cup"
        assert web.get("/orders/o-2").status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_its_readme_says_how_it_is_served(name: str) -> None:
    assert len((EXAMPLES / name / f"{name}.py").read_text().splitlines()) < 80
    readme = (EXAMPLES / name / "README.md").read_text()
    assert re.search(rf"uvicorn {name}:app", readme)
