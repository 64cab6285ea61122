"""The examples that are web apps, each served by uvicorn, in a thread of this process, and asked over HTTP."""

from __future__ import annotations

import importlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["fastapi_app", "litestar_app"]
PATIENCE = 60.0


@contextmanager
def served(name: str) -> Iterator[httpx.Client]:
    """The app, once it answers."""
    app = importlib.import_module(name).app
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=server.run, args=([listening],))
        serving.start()
        try:
            # The socket listens already: the first answer comes when the app has begun.
            port = listening.getsockname()[1]
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
                yield client
        finally:
            server.should_exit = True
            serving.join(PATIENCE)


@pytest.mark.parametrize("name", NAMES)
def test_an_order_is_placed_shown_in_the_console_approved_and_charged_over_http(
    name: str, module_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNERQ_DSN", module_database)
    monkeypatch.syspath_prepend(EXAMPLES / name)
    order = f"order-of-{name}"
    with served(name) as web:
        placed = web.post("/orders", json={"id": order, "item": "cup"})
        assert placed.status_code == 201, placed.text
        assert web.post("/orders", json={"id": order, "item": "cup"}).json() == placed.json()

        run = placed.json()["run"]
        assert run in web.get("/runnerq/runs").text
        assert web.get(f"/runnerq/api/v1/runs/{run}").json()["run"]["workflow"] == "checkout"

        assert web.post(f"/orders/{order}/approval", json={"approved": True, "by": "ada"}).json() == {"sent": True}
        until = time.monotonic() + PATIENCE
        while web.get(f"/orders/{order}").json()["status"] != "completed":
            assert time.monotonic() < until
        assert web.get(f"/orders/{order}").json()["result"] == "receipt for a cup"
        assert web.get("/orders/o-2").status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_its_readme_says_how_it_is_served(name: str) -> None:
    assert len((EXAMPLES / name / f"{name}.py").read_text().splitlines()) < 80
    readme = (EXAMPLES / name / "README.md").read_text()
    assert re.search(rf"uvicorn {name}:app", readme)
