"""What of the user's own a command uses: the codecs of payloads, and listeners, named as ``module:name``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from runnerq.errors import ConfigurationError

CODEC_VARIABLE = "RUNNERQ_CODEC"


def codec_named(name: str) -> Any:
    """What stands there, called if it is a function. Raises ConfigurationError, for a name that leads nowhere."""
    return _named(name, "--codec", "shop.settings:codec")


def listener_named(name: str) -> Any:
    """The same of a listener, which a class or a function makes."""
    return _named(name, "--listener", "shop.telemetry:listener")


def _named(name: str, option: str, such_as: str) -> Any:
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigurationError(f"{option} {name!r} is not of the form module:name, such as {such_as}")
    # As `python -m` has it: modules of the folder one stands in can be named.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{option} {name!r}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"{option} {name!r}: {module_name} has no {attribute!r}")
        found = getattr(found, part)
    return found() if callable(found) else found
