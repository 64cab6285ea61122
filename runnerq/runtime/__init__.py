"""Runs what was claimed: the worker and its parts."""
