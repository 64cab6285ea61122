"""Who asks: the ways to find out that come with the console. Any callable of the connection may stand in their place.

Rules
- Secrets are compared in constant time, and never written to a log or an answer.
- Somebody who guesses is held up: after ten wrong secrets in a minute from one address no other wrong one is answered
  for the rest of that minute. A right token always is: it is too long to be guessed, and behind a proxy or a NAT many
  have one address, where whoever guesses must not keep the others out. A right password is for who came in from there
  before; others wait out the minute with those who guess.
- Of IPv6 addresses the network of one customer (a /64) counts as one: it has more of them than anybody could count.
- A session is a cookie that says until when, and has a number of its own, with a MAC under a key made of the token: a
  new token ends all sessions, and several processes with one token know each other's. Signing out ends it in the
  process that is told, which remembers it for as long as it would have lasted; others take a copy of it until then.
- What a form of somebody who has signed in carries is made of their session: no other is taken with it.
"""

from __future__ import annotations

import hmac
import os
import time
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv6Address, ip_address, ip_network
from secrets import token_hex
from typing import Any

from litestar.connection import ASGIConnection

from runnerq.console.access import ALL, Principal
from runnerq.errors import ConfigurationError, RunnerQError

TOKEN_VARIABLE = "RUNNERQ_CONSOLE_TOKEN"  # noqa: S105 - a variable's name
SHORTEST_TOKEN = 16
SESSION = 12 * 3600
"""Seconds that somebody stays signed in."""

GUESSES = 10
GUESSING = 60.0
_ADDRESSES = 1_000
"""Addresses that are remembered, those that guessed last."""
_SESSIONS = 10_000
"""Sessions that have ended and are remembered, those that ended last."""


class TooManyGuesses(RunnerQError):
    """Wrong secrets keep coming from this address. ``retry_in`` is seconds."""

    def __init__(self, retry_in: int) -> None:
        self.retry_in = retry_in
        super().__init__(f"too many wrong tokens or passwords came from this address: try again in {retry_in} s")


class Throttle:
    """Counts wrong guesses by the address, or the IPv6 network, that they come from."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def wrong(self, address: str) -> None:
        """A wrong guess came from here. Raises TooManyGuesses if that was one too many."""
        network = network_of(address)
        now = time.monotonic()
        times = self._wrong.setdefault(network, deque())
        self._wrong.move_to_end(network)
        while len(self._wrong) > _ADDRESSES:
            self._wrong.popitem(last=False)
        while times and times[0] < now - GUESSING:
            times.popleft()
        _refuse_many(times, now)
        times.append(now)

    def check(self, address: str) -> None:
        """Raise TooManyGuesses if too many wrong guesses came from here."""
        now = time.monotonic()
        recent = [at for at in self._wrong.get(network_of(address), ()) if at >= now - GUESSING]
        _refuse_many(recent, now)


def _refuse_many(times: Sequence[float] | deque[float], now: float) -> None:
    if len(times) >= GUESSES:
        raise TooManyGuesses(max(1, round(times[0] + GUESSING - now)))


class TokenAuth:
    """Lets in who knows one token: as ``Authorization: Bearer``, or by signing in on the console's own page."""

    def __init__(self, token: str, principal: Principal) -> None:
        if len(token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the console's token has {len(token)} characters, and can be guessed: give it at least "
                f"{SHORTEST_TOKEN}, such as python -c 'import secrets; print(secrets.token_urlsafe())' makes"
            )
        self._token = token.encode()
        self._key = sha256(b"runnerq session\0" + self._token).digest()
        self._principal = principal
        self._throttle = Throttle()
        self._ended: OrderedDict[str, int] = OrderedDict()

    def __call__(self, connection: ASGIConnection[Any, Any, Any, Any]) -> Principal | None:
        kind, _, token = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return None
        return self._principal if self.knows(token.strip(), address_of(connection)) else None

    def knows(self, token: str, address: str) -> bool:
        """Whether this is the token. Raises TooManyGuesses if it is not, as many before it."""
        if hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            return True
        self._throttle.wrong(address)
        return False

    def session(self) -> str:
        """A cookie's value for somebody who has signed in."""
        said = f"{int(time.time()) + SESSION}.{token_hex(8)}"
        return f"{said}.{self._mac(said)}"

    def signed_in(self, session: str | None) -> Principal | None:
        """Who has this cookie."""
        until = self._until(session)
        return None if until is None or until <= time.time() or session in self._ended else self._principal

    def end(self, session: str | None) -> None:
        """Take this cookie for nobody's from now on."""
        until = self._until(session)
        if session is None or until is None:
            return
        while self._ended and (len(self._ended) >= _SESSIONS or next(iter(self._ended.values())) <= time.time()):
            self._ended.popitem(last=False)
        self._ended[session] = until

    def form_token(self, session: str) -> str:
        """What forms carry that are sent by who has this cookie."""
        return urlsafe_b64encode(hmac.digest(self._key, f"form {session}".encode(), sha256)).decode().rstrip("=")

    def _until(self, session: str | None) -> int | None:
        """When a cookie that was made here ends."""
        said, _, mac = (session or "").rpartition(".")
        if not session or not session.isascii() or not hmac.compare_digest(mac, self._mac(said)):
            return None
        return int(said.partition(".")[0])

    def _mac(self, said: str) -> str:
        return hmac.digest(self._key, said.encode(), sha256).hex()


def token_auth(
    token: str | None = None, *, env: str = TOKEN_VARIABLE, access: Iterable[str] = ALL, name: str = "operator"
) -> TokenAuth:
    """Let in who knows the token: the one given, else that of an environment variable, read now.

    ``name`` is what they are called in the audit, ``access`` what they may do.
    """
    known = token if token is not None else os.environ.get(env, "")
    if not known:
        raise ConfigurationError(f"there is no token: set ${env}, or give token_auth(token=...) one")
    return TokenAuth(known, Principal(name, frozenset(access)))


class BasicAuth:
    """Lets in who has a name and its password. A browser asks for them by itself."""

    challenge = 'Basic realm="runnerq", charset="UTF-8"'

    def __init__(self, passwords: Mapping[str, str], access: Mapping[str, frozenset[str]]) -> None:
        if not passwords or not all(passwords.values()):
            raise ConfigurationError("basic_auth has nobody to let in, or somebody without a password")
        self._passwords = {name: password.encode() for name, password in passwords.items()}
        self._principals = {name: Principal(name, access[name]) for name in passwords}
        self._came_in: set[tuple[str, str]] = set()
        self._throttle = Throttle()

    def __call__(self, connection: ASGIConnection[Any, Any, Any, Any]) -> Principal | None:
        kind, _, text = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            return None
        try:
            name, colon, password = b64decode(text, validate=True).decode().partition(":")
        except (NotBase64, UnicodeDecodeError):
            return None
        # Somebody unknown takes as long as somebody known.
        known = self._passwords.get(name, b"")
        address = address_of(connection)
        if not (hmac.compare_digest(password.encode(), known) and known and colon):
            self._throttle.wrong(address)
            return None
        came = (name, network_of(address))
        if came not in self._came_in:
            # Passwords can be guessed: who has not been in from there is held up with those who guess.
            self._throttle.check(address)
            if len(self._came_in) >= _ADDRESSES:
                self._came_in.clear()
            self._came_in.add(came)
        return self._principals[name]


def basic_auth(passwords: Mapping[str, str], *, access: Iterable[str] | Mapping[str, Iterable[str]] = ALL) -> BasicAuth:
    """Let in who is named here, with their password: ``basic_auth({"ada": os.environ["ADA"]}, access=ALL)``.

    ``access`` is everybody's, or a mapping of each name to theirs.
    """
    if isinstance(access, Mapping):
        if missing := sorted(set(passwords) - set(access)):
            raise ConfigurationError(f"basic_auth(access=) says nothing of {', '.join(map(repr, missing))}")
        return BasicAuth(passwords, {name: frozenset(access[name]) for name in passwords})
    everybody = frozenset(access)
    return BasicAuth(passwords, dict.fromkeys(passwords, everybody))


class ForwardedUser:
    """Believes a proxy that has asked already, and nobody else."""

    def __init__(self, header: str, trusted: Iterable[str], access: frozenset[str]) -> None:
        self._header = header
        try:
            self._trusted = tuple(ip_network(address) for address in trusted)
        except ValueError as error:
            raise ConfigurationError(f"forwarded_user(trusted_proxies=): {error}") from error
        if not self._trusted:
            raise ConfigurationError(
                "forwarded_user needs trusted_proxies=: believed from everywhere, that header could be anybody's"
            )
        self._access = access

    def __call__(self, connection: ASGIConnection[Any, Any, Any, Any]) -> Principal | None:
        try:
            peer = ip_address(connection.scope["client"][0])  # type: ignore[index] # None is a TypeError, as below
        except (TypeError, ValueError):
            return None
        peer = getattr(peer, "ipv4_mapped", None) or peer
        names = connection.headers.getall(self._header, [])
        # Two of one header: one of them may be the asker's own.
        if len(names) != 1 or not names[0].strip() or not any(peer in network for network in self._trusted):
            return None
        return Principal(names[0].strip()[:200], self._access)


def forwarded_user(header: str, *, trusted_proxies: Iterable[str], access: Iterable[str] = ALL) -> ForwardedUser:
    """Let in whoever a proxy says it is: ``forwarded_user("X-Auth-Request-Email", trusted_proxies=["10.0.0.0/8"])``.

    Only from these addresses or networks; the proxy has to set the header itself, whatever it was sent.
    """
    return ForwardedUser(header, trusted_proxies, frozenset(access))


def network_of(address: str) -> str:
    """Who is taken for one asker: an IPv4 address, the /64 of an IPv6 one."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or ip_network((ip, 64), strict=False))
    return str(ip)


def address_of(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Where the connection comes from."""
    client = connection.scope.get("client")
    return str(client[0]) if client else "a local socket"
