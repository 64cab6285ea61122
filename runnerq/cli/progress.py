"""A bar for work that takes its time, on stderr. It brings rich: import it where somebody is there to see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from runnerq.console.models.batches import BatchView


@contextmanager
def bar(what: str) -> Iterator[Callable[[BatchView], None]]:
    """How far a batch is, each time that it is told; nothing is left of it at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def tell(view: BatchView) -> None:
            progress.update(task, completed=view.done, total=view.total or None)

        yield tell
