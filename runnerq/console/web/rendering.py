"""How pages are made: templates, filters, and the answer to a form."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import Response
from litestar.datastructures import Cookie
from markupsafe import Markup, escape

from runnerq.console.models.payloads import brief
from runnerq.console.names import quoted
from runnerq.console.web import words
from runnerq.console.web.context import Here
from runnerq.console.web.cookies import Tone, flash_text

TEMPLATES = Path(__file__).parent.parent / "templates"

_RESERVED = "%/?#[]@!$&'()*+,;=:~"
"""What stays as it is in an address that is one already."""

_rendered_for: ContextVar[Here] = ContextVar("runnerq_here")
"""Whose page is being made: filters in macros know it, which are imported without a context."""


def page(here: Here, template: str, *, status_code: int = 200, **values: Any) -> Response[str]:
    """A page, or a part of one, made of a template, which sees ``here`` and the values."""
    token = _rendered_for.set(here)
    try:
        text = environment().get_template(template).render(here=here, **values)
    finally:
        _rendered_for.reset(token)
    return Response(text, status_code=status_code, media_type="text/html", cookies=_cookies(here))


def done(here: Here, message: str, to: str, tone: Tone = "ok") -> Response[str]:
    """The answer to a form: on to the page ``to`` (as ``here.url`` makes it), which says the message."""
    said = here.cookie_with("flash", flash_text(message, tone, here.setup.secret), max_age=60)
    return Response("", status_code=303, headers={"Location": checked_target(here, to)}, cookies=[said])


def go(here: Here, to: str, *cookies: Cookie) -> Response[str]:
    """On to another page of this console, without a word."""
    return Response("", status_code=303, headers={"Location": checked_target(here, to)}, cookies=list(cookies))


def checked_target(here: Here, to: str) -> str:
    """The address, if it is within this console; else its first page. A form may carry it, and so may an attacker."""
    try:
        parts = urlsplit(to)
    except ValueError:
        return here.url("/")
    inside = not parts.scheme and not parts.netloc and to.startswith("/") and not to.startswith("//")
    # A browser takes a backslash for a slash, and these two for the folder above also where they are escaped.
    upwards = "\\" in parts.path or ".." in unquote(parts.path).split("/")
    if not inside or upwards or any(ord(char) < 32 for char in to) or not f"{parts.path}/".startswith(f"{here.base}/"):
        return here.url("/")
    # As a header has it, whatever somebody typed into the address.
    return quote(to, safe=_RESERVED, errors="replace")


def _cookies(here: Here) -> list[Cookie]:
    cookies = []
    if here.cookie("csrf") != here.csrf:
        cookies.append(here.cookie_with("csrf", here.csrf))
    if here.cookie("flash") is not None:
        cookies.append(here.cookie_with("flash", "", max_age=0))
    return cookies


# --- templates --------------------------------------------------------------------------------------------------------


@cache
def environment() -> Environment:
    """All templates. What a page says of values is escaped; a name that it does not know is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        ago=_ago, at=_at, brief=brief, bytes=words.size, duration=words.span, prose=_prose, quoted=quoted,
        short=words.short, status=_status, utc=words.utc,
    )  # fmt: skip
    return made


def _ago(when: datetime) -> Markup:
    """How long ago, or in how long, with the time itself where one points at it; scripts count it on."""
    here = _rendered_for.get()
    return Markup('<time datetime="{}" title="{} {}" data-ago>{}</time>').format(
        words.utc(when), words.at(when, here.tz), here.zone, words.ago(when, here.now)
    )


def _at(when: datetime) -> Markup:
    """The time, in the zone that was chosen."""
    here = _rendered_for.get()
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        words.utc(when), here.zone, words.at(when, here.tz)
    )


def _prose(text: str) -> Markup:
    """A sentence whose words between backticks are code."""
    parts = str(text).split("`")
    shown = (Markup("<code>{}</code>") if number % 2 else Markup("{}") for number in range(len(parts)))
    return Markup("").join(form.format(part) for form, part in zip(shown, parts, strict=True))


def _status(status: str) -> Markup:
    return escape(str(status).replace("_", " "))
