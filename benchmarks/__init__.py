"""What runnerq costs, as ratios to what the same server can do at all, measured in the same run.

`python -m benchmarks` runs everything; `python -m benchmarks W1 W6` some of it. docs/internals/benchmarks.md says what
each workload is.
"""
