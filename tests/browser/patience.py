"""How long these tests wait before they take something to be lost. A machine that stalls for a while is no fault."""

from __future__ import annotations

PATIENCE = 60.0
"""Seconds for whatever one waits for: a page, a run, a process."""
LONGEST = 10 * PATIENCE
"""Seconds for a test with its fixtures: many waits fit, so that the one that was in vain is what is told."""
