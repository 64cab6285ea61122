"""``runnerq dev``: everything that one develops with, in one terminal."""
