"""Options that are read from the environment: whose variable it is, and what is said of one that cannot be read."""

from __future__ import annotations

import os
import re

import click
from click.core import ParameterSource

# Kubernetes tells every process of a namespace where each service is: RUNNERQ_CONSOLE_PORT=tcp://10.0.0.3:8787 for one
# that is named runnerq-console.
_OF_A_SERVICE = re.compile(r"(tcp|udp|sctp)://")


class PortOption(click.Option):
    """An option whose twin ends in ``_PORT``: the address of a service of Kubernetes in it is none of ours."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        value = super().resolve_envvar_value(ctx)
        return None if value is not None and _OF_A_SERVICE.match(value) else value


def with_its_variable(error: click.BadParameter) -> click.BadParameter:
    """The same error; of a value that came from the environment it names the variable, as nobody has typed that."""
    ctx, option = error.ctx, error.param
    if ctx is None or option is None or option.name is None:
        return error
    if ctx.get_parameter_source(option.name) is not ParameterSource.ENVIRONMENT:
        return error
    named = [option.envvar] if isinstance(option.envvar, str) else [*(option.envvar or ())]
    by_itself = f"{ctx.auto_envvar_prefix}_{option.name}".upper()
    variable = next((name for name in named if os.environ.get(name)), by_itself)
    return click.BadParameter(f"{error.message} (it stands in ${variable})", ctx, option, error.param_hint)
