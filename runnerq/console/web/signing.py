"""``/login`` and ``/logout``, for the auth that has them: one by a token."""

from __future__ import annotations

from litestar import Response
from litestar.exceptions import NotFoundException

from runnerq.console.web.auth import SESSION, TokenAuth, address_of
from runnerq.console.web.context import Here
from runnerq.console.web.guards import STRANGERS, own_form, view
from runnerq.console.web.rendering import checked_target, go, page


def _auth(here: Here) -> TokenAuth:
    auth = here.setup.auth
    if not isinstance(auth, TokenAuth):
        raise NotFoundException("nobody signs in here: this console is told who asks, or answers its own machine alone")
    return auth


@view("/login", apart=True, opt={STRANGERS: True})
async def login(here: Here) -> Response[str]:
    """The page that asks for the token."""
    _auth(here)
    back = checked_target(here, here.query.get("next"))
    return go(here, back) if here.signed_in else page(here, "login.html", failed=None, next=back)


@own_form("/login", strangers=True)
async def sign_in(here: Here) -> Response[str]:
    """Let in who knows the token, and go on to where they wanted to go."""
    auth = _auth(here)
    form = await here.form()
    back = checked_target(here, form.get("next"))
    if not auth.knows(form.get("token"), address_of(here.request)):
        return page(here, "login.html", status_code=401, failed="this is not the token", next=back)
    return go(here, back, here.cookie_with("session", auth.session(), SESSION))


@own_form("/logout")
async def sign_out(here: Here) -> Response[str]:
    """Forget who this browser is, and take its session for nobody's from now on; its live streams end."""
    auth, session = _auth(here), here.session
    if session is not None:
        auth.end(session)
        here.setup.live.end(session)
    return go(here, here.url("/login"), here.cookie_with("session", "", 0))


HANDLERS = [login, sign_in, sign_out]
