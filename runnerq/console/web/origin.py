"""Where a request comes from: this machine, or a page of ours.

Rules
- Without an auth the console is for this machine alone. A browser on it can be talked into asking for others: by a name
  that leads to 127.0.0.1, so that ``Host`` is looked at. A proxy on it passes strangers on: it is known by what proxies
  say, by HTTP/1.0, which no browser speaks, and by a browser that says it is at another address. One that speaks
  HTTP/1.1, sets ``Host`` and says nothing looks like this machine: a console behind a proxy needs an auth.
- What changes something has to come from a page of this console. ``Sec-Fetch-Site`` says so in any browser of today,
  ``Origin`` in older ones, and a token that only our pages know in all of them.
- A page of another site may lead here, and may not have our answers as parts of its own: it could read nothing of them,
  and could keep our streams.
- The token is not asked for where no browser can be meant: with a bearer's token of our own, and where neither a cookie
  nor an origin comes with a body or a method that no form can send. Basic passwords are no such proof: browsers add
  them by themselves, to whatever sends them here.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address
from urllib.parse import urlsplit

from runnerq.console.web.context import Connection, Here
from runnerq.errors import RunnerQError

FIELD = "csrf"
HEADER = "X-CSRF-Token"
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_FORWARDING = frozenset({
    "ali-cdn-real-ip", "cdn-loop", "client-ip", "do-connecting-ip", "fastly-client-ip", "forwarded", "true-client-ip",
    "via", "x-arr-ssl", "x-client-ip", "x-cloud-trace-context", "x-cluster-client-ip", "x-host", "x-proxyuser-ip",
    "x-real-ip", "x-request-start", "x-rewrite-url", "x-scheme",
})  # fmt: skip
_FORWARDING_BEGINS = (
    "cf-", "fly-", "x-amzn-", "x-appengine-", "x-azure-", "x-envoy-", "x-forwarded", "x-nginx-", "x-original-",
    "x-vercel-",
)  # fmt: skip
_OF_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain", ""})
"""What a page of another site can send without asking first."""


class NotFromHere(RunnerQError):
    """Somebody elsewhere asks a console that has no auth."""


class ForeignForm(RunnerQError):
    """What was to be changed was not asked for by a page of this console."""


def check_local(connection: Connection) -> None:
    """Raise NotFromHere for anybody who is not on this machine, or may not be."""
    scope = connection.scope
    peer, server = scope.get("client"), scope.get("server")
    headers = connection.headers
    host = headers.get("host", "")
    if not peer or not server or not _loopback(str(peer[0])) or not _loopback(str(server[0])):
        why = "it is not asked from this machine"
    elif forwarded := [name for name in headers if name in _FORWARDING or name.startswith(_FORWARDING_BEGINS)]:
        why = f"somebody forwards what others ask ({forwarded[0][:40]})"
    elif scope.get("http_version") == "1.0":
        why = "a proxy seems to forward what others ask (it speaks HTTP/1.0)"
    elif len(headers.getall("host", [])) != 1 or "@" in host or name_of(host) not in _LOCAL_NAMES:
        why = f"it is asked for as {host[:100]!r}, and not as localhost"
    elif elsewhere := _page_elsewhere(connection):
        why = f"the page that asks is at another address ({elsewhere[:100]})"
    else:
        return
    raise NotFromHere(
        f"this console has no auth, so that it answers this machine alone; and {why}. "
        "Give it one: Console(auth=token_auth()), or runnerq console --token-env NAME. Behind a proxy it needs one"
    )


def check_not_embedded(connection: Connection) -> None:
    """Raise ForeignForm if a page of another site asks for something to be a part of itself."""
    headers = connection.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    elsewhere = site not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate"
    # Browsers say where a page is only in what scripts ask for.
    if elsewhere and (site is not None or (origin is not None and not _is_at(origin, headers.get("host", "")))):
        raise ForeignForm("another site asks for this to be a part of its page: open this console instead")


async def check_ours(here: Here, *, bearer: bool) -> None:
    """Raise ForeignForm unless a page of this console sends this, or no browser does.

    ``bearer``: the asker is known by a bearer's token.
    """
    headers = here.request.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise ForeignForm(
                f"another site has sent this (Sec-Fetch-Site: {site[:40]}): open this console and do it there"
            )
    elif origin is not None and not _is_at(origin, headers.get("host", "")):
        raise ForeignForm(f"another site has sent this (Origin: {origin[:100]}): open this console and do it there")
    no_browser = site is None and origin is None and "cookie" not in headers
    no_form = here.request.method != "POST" or here.request.content_type[0].lower() not in _OF_FORMS
    if bearer or (no_browser and no_form):
        return
    given = headers.get(HEADER) or (await here.form()).get(FIELD)
    kept = here.csrf_kept
    if not kept or not hmac.compare_digest(given.encode("utf-8", "replace"), kept.encode("utf-8", "replace")):
        raise ForeignForm(
            "this form is not of a page that this browser has open now, or cookies are off: load the page again and "
            "send it from there. A script sends Content-Type: application/json without cookies, or Authorization: "
            f"Bearer, or the page's token as {HEADER}"
        )


def name_of(host: str) -> str:
    """A ``Host`` header without its port: ``[::1]:8787`` is ``::1``."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _page_elsewhere(connection: Connection) -> str | None:
    """Where the page is that asks, if that is not where it asks, though the browser takes both for one site."""
    headers = connection.headers
    host, origin, referer = headers.get("host", ""), headers.get("origin"), headers.get("referer")
    if origin is not None and not _is_at(origin, host):
        return origin
    # Where the browser says that another site has led here, that is no wonder.
    led = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return referer if referer and not led and not _is_at(referer, host) else None


def _is_at(url: str, host: str) -> bool:
    """Whether a URL is one of this host and port."""
    try:
        return urlsplit(url).netloc.lower() == host.lower()
    except ValueError:
        return False


def _loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback
