"""What was found wrong with a test's runs: told to whoever awaits a result in the same tree, at the latest at exit."""

from __future__ import annotations

from runnerq.errors import RunnerQError


class Faults:
    """The first fault of each tree of runs, by its root."""

    def __init__(self) -> None:
        self._found: dict[str, RunnerQError] = {}
        self._told: set[str] = set()

    def add(self, root_id: str, fault: RunnerQError) -> None:
        self._found.setdefault(root_id, fault)

    def check(self, root_id: str) -> None:
        """Raise what was found wrong in this tree, if anything was."""
        fault = self._found.get(root_id)
        if fault is not None:
            self._told.add(root_id)
            raise fault

    def check_untold(self) -> None:
        """Raise the first fault that nobody was told of."""
        for root_id in self._found:
            if root_id not in self._told:
                self.check(root_id)
