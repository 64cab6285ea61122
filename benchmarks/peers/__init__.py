"""Other systems, measured by the same code: one module a system, run with the Python of a venv of its own.

``python -m benchmarks.peers.NAME measure WORKLOAD DSN`` prints a workload's result as a line of JSON;
``python -m benchmarks.peers.NAME DSN`` is a worker process.
"""
