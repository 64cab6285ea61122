"""What docs/guides/api.md has one type is sent as it stands there, and is taken."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from runnerq.client.client import Client
from runnerq.console.access import PERMISSIONS
from tests.console.browsing import Browser

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "api.md"
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("curl ")
]


@pytest.mark.parametrize("command", COMMANDS)
async def test_each_command_of_the_guide_is_taken(client: Client, browser: Browser, command: str) -> None:
    run = await client.start("checkout", {"item": "cup"})
    method, url, headers, body = request_of(command.replace("01…", run.id).replace("wait=30", "wait=0"))
    answer = await browser.request(method, url.replace("localhost:8787", ""), headers=headers, content=body)
    # A run that no worker has taken up has no entry to begin from: that it is asked for so is all that counts.
    assert answer.status_code in ((400, 409) if "/fork" in url else (200, 201, 202)), answer.text
    assert "unknown field" not in answer.text


def test_the_guide_names_every_permission() -> None:
    text = (GUIDE.parent / "console.md").read_text(encoding="utf-8")
    assert [name for name in PERMISSIONS if f"`{name}`" not in text] == []


def request_of(command: str) -> tuple[str, str, dict[str, str], str | None]:
    """What curl sends for it: method, address, headers and body."""
    words = iter(shlex.split(command)[1:])
    method, url, headers, body = None, "", {}, None
    for word in words:
        match word:
            case "-s":
                continue
            case "-X":
                method = next(words)
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                body = next(words)
            case _:
                url = word
    return method or ("GET" if body is None else "POST"), url, headers, body
