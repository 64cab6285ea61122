"""The garbage collector of a process that is a worker and nothing else.

Python looks for cycles after every 700 (3.13: 2,000) objects that were made and not yet dropped. A worker that takes
hundreds of turns at once has many thousands of them on their way, none in a cycle: looking costs an eighth of its time.
A library leaves this setting to its application; ``runnerq worker`` is the application.
"""

from __future__ import annotations

import gc

YOUNG, MIDDLE = 20_000, 20


def look_less_often() -> None:
    """Have the collector leave alone what there is now, and look at what is new after 20,000 objects (some 4 MB)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, gc.get_threshold()[2])
