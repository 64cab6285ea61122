"""stdout that is closed, full, or lacks letters."""

from __future__ import annotations

import io
import subprocess
import sys

import click
import pytest

from runnerq.cli.streams import make_usable
from tests.cli.conftest import ROOT


def test_a_letter_that_an_encoding_lacks_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    make_usable()
    click.echo("ü•")
    assert written.getvalue() == b"\xfc\\u2022\n"


@pytest.mark.parametrize(
    ("to", "code", "said"),
    [(">&-", 0, ""), (">/dev/full", 1, "Error: the answer cannot be written: No space left on device\n")],
)
def test_an_answer_that_cannot_be_written_is_no_stack_trace(to: str, code: int, said: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m runnerq completion bash {to}', sys.executable],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, said)
