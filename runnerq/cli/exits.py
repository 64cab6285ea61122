"""What a command ends with: the table of exit codes.

====  ==================================================================================
0     done
1     an error, or a run that failed or was cancelled, or a batch with runs that could not be changed
2     wrong usage: an argument, an option, a value that cannot be taken
3     no such run, schedule or worker
4     a conflict, or a verb that does not apply to the state that the run is in
5     no right to do it, a login that is refused, or a schema that does not fit this version
124   waited in vain for a run's end; ``result`` without ``--wait``: it has not ended
130   interrupted (Ctrl-C)
====  ==================================================================================
"""

from __future__ import annotations

from runnerq.console.access import Forbidden
from runnerq.console.models.filters import BadFields
from runnerq.console.models.paging import BadCursor
from runnerq.console.models.workers import WorkerNotFound
from runnerq.errors import (
    ConfigurationError,
    EncodingError,
    KeyTaken,
    ResultTimeout,
    RunFinished,
    RunnerQError,
    RunNotFound,
    ScheduleNotFound,
    SchemaError,
    StorageError,
    UsageError,
    WrongState,
)

EXIT_CODES: tuple[tuple[type[RunnerQError], int], ...] = (
    (RunNotFound, 3),
    (ScheduleNotFound, 3),
    (WorkerNotFound, 3),
    (RunFinished, 4),
    (KeyTaken, 4),
    (WrongState, 4),
    (Forbidden, 5),
    (SchemaError, 5),
    (ResultTimeout, 124),
    (BadFields, 2),
    (BadCursor, 2),
    (ConfigurationError, 2),
    (UsageError, 2),
    (EncodingError, 2),
    (RunnerQError, 1),
)
"""The first class that fits decides."""


FAILED = 1
"""Also of what this machine refuses now and may allow later, such as a port that is taken."""
NO_RIGHT = 5
LOGIN_REFUSED = "28"
"""How the states begin that SQL has for a login that is refused: a wrong password, say."""


def exit_code(error: RunnerQError) -> int:
    """What the process ends with."""
    if isinstance(error, ConfigurationError) and isinstance(error.__cause__, OSError):
        return FAILED
    if isinstance(error, StorageError) and str(getattr(error.__cause__, "sqlstate", "")).startswith(LOGIN_REFUSED):
        return NO_RIGHT
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
