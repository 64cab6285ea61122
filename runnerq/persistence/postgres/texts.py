"""Texts that Postgres cannot keep: refused where they name something, replaced where a person reads them."""

from __future__ import annotations

from runnerq.errors import StorageRefused

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_MOST_INDEXED = 2_500
"""Bytes; an entry of an index has 2,704, some of which are for a time and an id."""


def plain(text: str, what: str) -> str:
    """An identifier of the caller's, if Postgres can keep it as text.

    Raises:
        StorageRefused: it holds NUL or a lone surrogate; it cannot be replaced, because it is compared.
    """
    if "\0" in text or not _is_unicode(text):
        raise StorageRefused(f"{what} {text!r} cannot be stored: it contains NUL or a lone surrogate")
    return text


def indexed(what: str, *texts: str) -> None:
    """See that an index can hold these together: one that cannot would stop whoever makes the run ready, much later.

    Raises:
        StorageRefused: they are too long.
    """
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if size > _MOST_INDEXED:
        raise StorageRefused(f"{what} take {size:,} bytes together: at most {_MOST_INDEXED:,} can be kept")


def readable(text: str | None) -> str | None:
    """A text for people, with what Postgres cannot keep as text replaced."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", _REPLACEMENT)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
