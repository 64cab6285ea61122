"""``/settings``: how this browser shows the console, and what the console is."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from zoneinfo import available_timezones

from litestar import Response

from runnerq.console.access import PERMISSIONS
from runnerq.console.models.filters import BadFields
from runnerq.console.web.context import Here
from runnerq.console.web.cookies import YEAR
from runnerq.console.web.guards import own_form, view
from runnerq.console.web.rendering import go, page

DENSITIES = ("compact", "roomy")


@view("/settings")
async def settings_page(here: Here) -> Response[str]:
    """What may be chosen, and what is in force."""
    chosen = here.cookie("density")
    return page(
        here,
        "settings.html",
        density=chosen if chosen in DENSITIES else DENSITIES[0],
        zones=_zones(),
        about=[("Version", version("runnerq")), ("Database", here.place)],
        permitted=[name for name in PERMISSIONS if here.may(name)],
        refused=[name for name in PERMISSIONS if not here.may(name)],
    )


@own_form("/settings/density")
async def density(here: Here) -> Response[str]:
    """Show rows close together, or with room."""
    form = await here.form()
    chosen = form.get("density")
    if chosen not in DENSITIES:
        raise BadFields({"density": f"{chosen[:40]!r} is no density: it is one of {', '.join(DENSITIES)}"})
    return go(here, form.get("back"), here.cookie_with("density", chosen, YEAR))


@cache
def _zones() -> tuple[str, ...]:
    """UTC, then those of places; what is left are old names of the same."""
    return (
        "UTC",
        *sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith(("Etc/", "posix"))),
    )


HANDLERS = [settings_page, density]
