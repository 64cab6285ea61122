"""What a browser chooses for itself: a theme, and a time zone."""

from __future__ import annotations

from litestar import Response

from runnerq.console.models.filters import BadFields
from runnerq.console.web.context import THEME_COOKIE, THEMES, ZONE_COOKIE, Here, zone_named
from runnerq.console.web.cookies import YEAR
from runnerq.console.web.guards import own_form
from runnerq.console.web.rendering import go


@own_form("/theme")
async def theme(here: Here) -> Response[str]:
    """Show pages light, dark, or as the system is."""
    form = await here.form()
    chosen = form.get("theme")
    if chosen not in THEMES:
        raise BadFields({"theme": f"{chosen[:40]!r} is no theme: it is one of {', '.join(THEMES)}"})
    return go(here, form.get("back"), here.cookie_with(THEME_COOKIE, chosen, YEAR))


@own_form("/zone")
async def zone(here: Here) -> Response[str]:
    """Show times in a zone."""
    form = await here.form()
    chosen = form.get("zone")
    if zone_named(chosen) is None:
        raise BadFields({"zone": f"{chosen[:60]!r} is no time zone: give its name, such as Europe/Berlin"})
    return go(here, form.get("back"), here.cookie_with(ZONE_COOKIE, chosen, YEAR))


HANDLERS = [theme, zone]
