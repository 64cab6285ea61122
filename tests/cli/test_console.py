"""``runnerq console``: served by a process of its own, and asked over HTTP."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from click.testing import CliRunner

from runnerq.cli.main import main

PATIENCE = 60.0
EVERYWHERE = "0.0.0.0"  # noqa: S104 - refused without a token
TOKEN = "a-token-of-forty-letters-that-nobody-knows"  # noqa: S105 - of these tests alone


class Served:
    """The process, and where it says it is."""

    def __init__(self, process: subprocess.Popen[str], address: str, said: str) -> None:
        self.process = process
        self.address = address
        self.said = said

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.address + path, timeout=PATIENCE)


PATIENT = (
    "-c",
    "from runnerq.cli import main; from runnerq.console.web import serving; serving.GRACE = 86_400; main()",
)
"""``runnerq`` that would wait a day for answers under way."""


@contextmanager
def console(
    *options: str, dsn: str = "", program: tuple[str, ...] = ("-m", "runnerq"), **environ: str
) -> Iterator[Served]:
    process = subprocess.Popen(
        [sys.executable, *program, "console", "--port", "0", *options],
        env={**os.environ, "RUNNERQ_DSN": dsn, **environ},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r"console at (http://\S+?)/?[,;]", said)):
            line = process.stderr.readline()
            assert line, said
            said += line
        yield Served(process, found[1], said)
    finally:
        process.kill()
        process.wait(PATIENCE)
        assert process.stderr is not None
        process.stderr.close()


def test_it_serves_a_migrated_database_and_ends_at_once_with_a_tab_open(database: str) -> None:
    subprocess.run([sys.executable, "-m", "runnerq", "migrate", "--dsn", database], check=True, capture_output=True)
    with console(dsn=database, program=PATIENT) as served:
        assert served.get("/").status_code == 200
        assert served.get("/readyz").text == "ok\n"
        with httpx.stream("GET", f"{served.address}/stream", timeout=PATIENCE) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            served.process.send_signal(signal.SIGTERM)
            for _ in lines:
                pass
            served.process.wait(PATIENCE)


def test_an_empty_database_is_a_page_that_says_how_to_fill_it(database: str) -> None:
    with console(dsn=database) as served:
        shown = served.get("/runs")
        assert shown.status_code == 503
        assert "runnerq migrate" in shown.text


def test_one_that_is_not_there_is_a_page_too_under_a_prefix_without_any_password() -> None:
    # Kubernetes sets this where there is a service named runnerq-console.
    of_a_service = {"RUNNERQ_CONSOLE_PORT": "tcp://10.0.0.3:8787"}
    dsn = "postgresql://ada:s3cret@127.0.0.1:1/shop?password=s3cret"
    with console("--prefix", "/tools/", "--dsn", dsn, **of_a_service) as served:
        assert served.address.endswith("/tools")
        shown = served.get("/runs")
        assert shown.status_code == 503
        assert "s3cret" not in shown.text + served.said
        assert 'href="/tools/static/console.css' in shown.text
        assert served.get("/healthz").status_code == 200


def test_a_token_is_asked_for_and_every_address_may_be_listened_on_then(database: str) -> None:
    with console("--host", EVERYWHERE, "--token-env", "OURS", dsn=database, OURS=TOKEN) as served:
        assert "$OURS" in served.said
        assert TOKEN not in served.said
        assert "/login" in served.get("/runs").headers["location"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", EVERYWHERE), "--token-env NAME, or say --insecure"),
        (("--host", "example.com"), "--token-env NAME, or say --insecure"),
        (("--token-env", "OURS", "--insecure"), "exclude each other"),
        (("--token-env", "NOT_SET"), r"set $NOT_SET"),
        (("--token-env", "OURS"), "can be guessed"),
    ],
)
def test_what_would_be_open_to_others_is_refused(options: tuple[str, ...], said: str) -> None:
    answer = CliRunner().invoke(main, ["console", *options], env={"OURS": "short"})
    assert answer.exit_code == 2, answer.output
    assert said in " ".join(answer.output.split())


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        answer = CliRunner().invoke(main, ["console", "--port", port, "--dsn", "postgresql://127.0.0.1:1/x"])
    assert answer.exit_code == 1
    assert f"127.0.0.1:{port}" in answer.output


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name == "runnerq.console.console" or name.startswith("runnerq.console.web")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "litestar", None)
    answer = CliRunner().invoke(main, ["console"])
    assert answer.exit_code == 2
    assert "pip install 'runnerq[console]'" in answer.output
