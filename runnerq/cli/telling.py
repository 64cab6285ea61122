"""Messages to the person, beside the result; and what is made of other people's texts before a terminal gets them."""

from __future__ import annotations

import logging
import os
import sys

import click

# The marks that turn the direction of what follows, which can make a text look like another one, and the ends of lines
# that only some programs know.
_TURNS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_CONTROLS |= {code: f"\\u{code:04x}" for code in _TURNS}
_ON_A_LINE = _CONTROLS | {ord("\n"): "\\n", ord("\t"): "\\t"}
_IN_JSON = {code: f"\\u{code:04x}" for code in _CONTROLS if code >= 0x7F}


def say(message: str) -> None:
    """Lines on stderr; where nobody reads it any more they are lost, and nothing fails for what is said of it."""
    try:
        click.echo(harmless(message), err=True)
    except OSError:
        # Its pipe was closed, or the terminal. What is kept for it would fail once more, as the process exits.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stderr.fileno())
        os.close(nothing)


def harmless(text: str) -> str:
    """The text with its control characters written out: a key, say, must not move the cursor of who looks at it. It
    keeps its lines."""
    return text.translate(_CONTROLS)


def on_a_line(text: str) -> str:
    """The same on one line: a key, say, must not look like another run's line."""
    return text.translate(_ON_A_LINE)


def harmless_json(text: str) -> str:
    """JSON that means the same, with those written out that JSON lets stand as they are."""
    return text.translate(_IN_JSON)


class LogFormatter(logging.Formatter):
    """Log lines and stacks without control characters: errors have other people's texts in them."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record))


def log_to_stderr(level: int, shape: str) -> None:
    """Have this process log there, unless somebody has said where to."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(shape))
    logging.basicConfig(level=level, handlers=[handler])
