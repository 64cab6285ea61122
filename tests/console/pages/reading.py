"""Pages as they are read, and the runs that they are of."""

from __future__ import annotations

import re
from html import unescape

import runnerq as rq

NASTY = "<img src=x onerror=alert(1)></script>"


@rq.workflow
def checkout(ctx: rq.Context, order: int) -> rq.Flow[int]:
    yield ctx.signal("approval")
    return order


@rq.workflow
def payout(ctx: rq.Context, account: str) -> rq.Flow[None]:
    yield ctx.options(retry=1).step(transfer, account)


@rq.activity
async def transfer(account: str) -> None:
    raise ConnectionError(f"account {account} is closed {NASTY}")


def text_of(page: str) -> str:
    """What is to be read, without markup."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def rows_of(page: str) -> list[str]:
    """The ids of the runs that are listed, in their order."""
    return re.findall(r'<tr id="run-([0-9a-f-]+)"', page)


def link(page: str, words: str) -> str:
    """Where the link leads that has these words."""
    found = re.search(rf'<a [^>]*href="([^"]+)"[^>]*>{re.escape(words)}</a>', page)
    assert found is not None, f"no link {words!r}"
    return unescape(found[1])
