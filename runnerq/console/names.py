"""Names of queues, types, schedules and limits as a part of an address: they may hold slashes, and be ``..``."""

from __future__ import annotations

from urllib.parse import quote, unquote


def quoted(name: str) -> str:
    """The name as one part of a path, which is percent-encoded once more when it becomes an address.

    Once is not enough: a server undoes that before it looks for the route, and a slash would be one between two parts.
    """
    dots_alone = not name.strip(".")  # of which browsers and proxies make another path
    return quote(name, safe="").replace(".", "%2E") if dots_alone else quote(name, safe="")


def unquoted(part: str) -> str:
    """The name that a part of the path of a route stands for."""
    return unquote(part)
